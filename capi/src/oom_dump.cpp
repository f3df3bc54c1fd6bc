// SPDX-License-Identifier: MIT OR Apache-2.0
#include "oom_dump.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <string_view>
#include <utility>
#include <vector>

#include "alloc/backend/report.h"
#include "alloc/tools/snapshot_pickle.h"
#include "base/error.h"
#include "base/text.h"
#include "private_file.h"
#include "recorders.h"
#include "replay/event_line.h"
#include "replay/history_recorder.h"
#include "replay/trace_file.h"
#include "replay/trace_header.h"

namespace cachalot::capi {
namespace {

// A program that lives with failures must not fill the disk.
constexpr int kMostDumps = 16;
// Numbers that are tried, where earlier processes with this number have left files.
constexpr int kMostNumbers = 10000;

void require_folder(const std::string& folder) {
  struct stat info {};
  if (stat(folder.c_str(), &info) != 0)
    throw Error(Status::kIo, folder + ": " + std::strerror(errno));
  if (!S_ISDIR(info.st_mode)) throw Error(Status::kIo, folder + ": not a folder");
}

std::string live_trace(const TraceHeader& header, const Snapshot& snapshot) {
  std::string text = format_trace_header(header);
  for_each_live_line(live_lines(snapshot, true),
                     [&](const EventLine& line) { append_event_line(&text, line); });
  return text;
}

}  // namespace

// Shared by the observers, which may be under way while another folder takes its place.
class OomDump::Writer {
 public:
  Writer(Allocator& core, LogSink log, std::string folder, uint64_t events)
      : core_(core), log_(std::move(log)), folder_(std::move(folder)), keeps_events_(events > 0) {
    ring_.set_limit(events, true);
  }

  // Under a device's lock.
  void keep(const TraceEntry& entry) {
    const std::lock_guard guard(lock_);
    TraceEntry& kept = ring_.next();
    kept = entry;
    kept.metadata = nullptr;
  }

  // Each part by itself: the others are as good without it.
  void write(const OutOfMemory& numbers) noexcept {
    if (dumps_.fetch_add(1) >= kMostDumps) return;
    std::string name;
    attempt([&] { name = write_report(numbers); });
    if (name.empty()) return;
    attempt([&] {
      const std::vector<TraceEntry> events = kept_events();
      attempt([&] { write_events(name, events); });
      const Snapshot snapshot = snapshot_with(events);
      attempt([&] { write_blocks(name, snapshot); });
      attempt([&] { write_pickle(name, snapshot); });
    });
  }

 private:
  template <class Act>
  void attempt(Act act) noexcept {
    try {
      act();
    } catch (const std::exception& error) {
      warn(error.what());
    }
  }

  void warn(const char* why) noexcept try {
    const std::string text = std::string("an out-of-memory error is not written down: ") + why;
    if (log_) log_(LogLevel::kWarning, text.c_str());
  } catch (...) {
  }

  // Gives how the names of the other files begin.
  std::string write_report(const OutOfMemory& numbers) {
    const std::string process = folder_ + "/" + std::to_string(getpid()) + "-";
    for (int number = 1;; number++) {
      std::string name = process + std::to_string(number);
      const PrivateFile file(name + ".report.json");
      if (file.is_taken() && number < kMostNumbers) continue;
      file.write("");
      attempt([&] { file.write(report_text_of(numbers)); });
      return name;
    }
  }

  std::string report_text_of(const OutOfMemory& numbers) {
    Request request;
    request.size = numbers.requested;
    request.device = numbers.device;
    request.stream = numbers.stream;
    return report_json(core_.report(request)) + "\n";
  }

  std::vector<TraceEntry> kept_events() {
    const std::lock_guard guard(lock_);
    return ring_.entries();
  }

  void write_events(const std::string& name, const std::vector<TraceEntry>& events) {
    if (!keeps_events_) return;
    TraceHeader header = trace_header_of(core_);
    header.workload = "the last events before an out-of-memory error";
    const PrivateFile file(name + ".events.csv");
    write_trace(header, {events}, [&](std::string_view bytes) { file.write(bytes); });
  }

  // The history where it is on, else the events in its place.
  Snapshot snapshot_with(const std::vector<TraceEntry>& events) {
    Snapshot snapshot = core_.snapshot({}, true);
    const bool has_history = std::any_of(snapshot.traces.begin(), snapshot.traces.end(),
                                         [](const auto& trace) { return !trace.empty(); });
    if (has_history) return snapshot;
    for (const TraceEntry& event : events) {
      const auto device = static_cast<size_t>(event.device);
      if (device >= snapshot.traces.size()) snapshot.traces.resize(device + 1);
      snapshot.traces[device].push_back(event);
    }
    return snapshot;
  }

  void write_blocks(const std::string& name, const Snapshot& snapshot) {
    TraceHeader header = trace_header_of(core_);
    header.format = 2;
    header.workload = "what was live at an out-of-memory error";
    PrivateFile(name + ".trace.csv").write(live_trace(header, snapshot));
  }

  void write_pickle(const std::string& name, const Snapshot& snapshot) {
    const PrivateFile file(name + ".snapshot.pickle");
    write_snapshot_pickle(snapshot, core_.contexts().describe,
                          [&](std::string_view bytes) { file.write(bytes); });
  }

  Allocator& core_;
  const LogSink log_;
  const std::string folder_;
  const bool keeps_events_;
  std::atomic<int> dumps_{0};
  Mutex lock_{LockRank::kHistoryRecorder};
  HistoryRing ring_;
};

void OomDump::start(const std::string& folder, uint64_t events) {
  require_folder(folder);
  const auto writer = std::make_shared<Writer>(core_, log_, folder, events);
  const std::lock_guard guard(lock_);
  const Observers former = std::exchange(observers_, attach(writer, events > 0));
  detach(former);
}

void OomDump::stop() {
  const std::lock_guard guard(lock_);
  detach(std::exchange(observers_, {}));
}

OomDump::Observers OomDump::attach(const std::shared_ptr<Writer>& writer, bool with_events) {
  Observers made;
  made.failures =
      core_.observe_out_of_memory([writer](const OutOfMemory& numbers) { writer->write(numbers); });
  try {
    if (with_events)
      made.events = core_.observe_trace([writer](const TraceEntry& entry) { writer->keep(entry); });
  } catch (...) {
    detach(made);
    throw;
  }
  return made;
}

void OomDump::detach(const Observers& observers) {
  if (observers.failures != 0) core_.detach(observers.failures);
  if (observers.events != 0) core_.detach(observers.events);
}

}  // namespace cachalot::capi
