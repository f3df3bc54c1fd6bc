// SPDX-License-Identifier: MIT OR Apache-2.0
#include "live.h"

#include <httplib.h>

#include <charconv>
#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "failure.h"
#include "failure_report.h"
#include "ledger.h"
#include "numbers.h"

namespace cachalot::cli {
namespace {

constexpr auto kPollInterval = std::chrono::milliseconds(200);
// A program may ask for more than there is again and again, to find out how much there is.
constexpr uint64_t kMostReports = 10;

struct Endpoint {
  std::string host;
  int port = 0;
};

Endpoint parse_endpoint(const std::string& address) {
  const size_t colon = address.rfind(':');
  const std::string port = colon == std::string::npos ? address : address.substr(colon + 1);
  Endpoint endpoint{colon == std::string::npos ? "127.0.0.1" : address.substr(0, colon), 0};
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), endpoint.port);
  const bool is_port = error == std::errc() && end == port.data() + port.size() &&
                       endpoint.port >= 0 && endpoint.port <= 65535;
  if (!is_port || endpoint.host.empty()) throw Failure("--listen " + address + ": not a HOST:PORT");
  return endpoint;
}

}  // namespace

// Follows the recordings of all processes.
class Live::Watch {
 public:
  explicit Watch(std::function<std::vector<std::string>()> recordings)
      : recordings_(std::move(recordings)) {}
  ~Watch() {
    {
      const std::lock_guard guard(mutex_);
      is_stopping_ = true;
    }
    stopping_.notify_all();
    if (thread_.joinable()) thread_.join();
    poll();
  }
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  void start() {
    thread_ = std::thread([this] {
      std::unique_lock lock(mutex_);
      while (!stopping_.wait_for(lock, kPollInterval, [this] { return is_stopping_; }))
        poll_locked();
    });
  }

  // As of now.
  Ledger ledger() {
    const std::lock_guard guard(mutex_);
    poll_locked();
    return make_ledger(followers_, memory_);
  }

 private:
  void poll() {
    const std::lock_guard guard(mutex_);
    poll_locked();
  }

  void poll_locked() {
    for (const std::string& path : recordings_())
      if (known_.insert(path).second)
        followers_.emplace_back(
            path, [this](const auto& follower, const auto& event) { report(follower, event); });
    for (RecordingFollower& follower : followers_) {
      const bool was_running = follower.is_running();  // asked first: what it wrote last is read
      try {
        follower.poll();
      } catch (const Failure& failure) {
        std::fprintf(stderr, "cachalot: %s: %s\n", follower.path().c_str(), failure.what());
        follower.end();
      }
      if (!was_running) follower.end();
    }
    end_replaced();
  }

  // A program that replaces itself by another one has its process number.
  void end_replaced() {
    std::map<int64_t, RecordingFollower*> last;
    for (RecordingFollower& follower : followers_) {
      RecordingFollower*& row = last[follower.process()];
      if (row != nullptr && follower.process() != 0) row->end();
      row = &follower;
    }
  }

  void report(const RecordingFollower& follower, const cachalot_trace_event& event) {
    const uint64_t number = ++failures_[follower.path()];
    if (number > kMostReports) return;
    try {
      const std::string path = write_failure_report(
          follower, event, make_ledger(followers_, memory_, &follower), number);
      std::fprintf(stderr, "cachalot: process %lld asked for %s, and the device has %s free: %s\n",
                   static_cast<long long>(follower.process()), mebibytes(event.size).c_str(),
                   mebibytes(event.address).c_str(), path.c_str());
    } catch (const std::exception& failure) {
      std::fprintf(stderr, "cachalot: %s\n", failure.what());
    }
  }

  const std::function<std::vector<std::string>()> recordings_;
  const DeviceMemory memory_;
  std::mutex mutex_;
  std::condition_variable stopping_;
  bool is_stopping_ = false;
  std::set<std::string> known_;
  Followers followers_;
  std::map<std::string, uint64_t> failures_;
  std::thread thread_;
};

class Live::Server {
 public:
  Server(const std::string& host, int port, Watch* watch) : host_(host) {
    serve("/metrics", "text/plain; version=0.0.4; charset=utf-8",
          [watch] { return ledger_metrics(watch->ledger()); });
    serve("/ledger", "application/json",
          [watch] { return ledger_json(watch->ledger()).dump(1) + "\n"; });
    serve("/", "text/plain; charset=utf-8", [watch] { return ledger_text(watch->ledger()); });
    if (port == 0)
      port_ = server_.bind_to_any_port(host.c_str());
    else
      port_ = server_.bind_to_port(host.c_str(), port) ? port : -1;
    if (port_ < 0)
      throw Failure("--listen " + host + ":" + std::to_string(port) +
                    " cannot be had: another program has it, or it is no address of this machine");
  }
  ~Server() {
    server_.stop();
    if (thread_.joinable()) thread_.join();
  }
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  std::string url() const { return "http://" + host_ + ":" + std::to_string(port_); }
  void start() {
    thread_ = std::thread([this] { server_.listen_after_bind(); });
    while (!server_.is_running()) std::this_thread::yield();
  }

 private:
  template <class Text>
  void serve(const char* path, const char* type, Text text) {
    server_.Get(path, [type, text](const httplib::Request&, httplib::Response& response) {
      response.set_content(text(), type);
    });
  }

  httplib::Server server_;
  const std::string host_;
  int port_ = -1;
  std::thread thread_;
};

Live::Live(const std::string& address, std::function<std::vector<std::string>()> recordings)
    : watch_(std::make_unique<Watch>(std::move(recordings))) {
  const Endpoint endpoint = parse_endpoint(address);
  server_ = std::make_unique<Server>(endpoint.host, endpoint.port, watch_.get());
}

Live::~Live() = default;

std::string Live::url() const { return server_->url(); }

void Live::start() {
  watch_->start();
  server_->start();
}

}  // namespace cachalot::cli
