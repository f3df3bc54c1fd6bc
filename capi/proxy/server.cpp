// SPDX-License-Identifier: MIT OR Apache-2.0
#include "server.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <thread>

#include "base/text.h"
#include "captures.h"
#include "of_process.h"
#include "process_files.h"
#include "real_driver.h"
#include "streams.h"

namespace cachalot::proxy {
namespace {

const char* reason(NotServed what) {
  switch (what) {
    case NotServed::kOtherContext:
      return "memory in contexts that the program makes itself (cuCtxCreate)";
    case NotServed::kVirtualMemory:
      return "memory that the program maps itself (cuMemCreate)";
    case NotServed::kPool:
      return "memory from pools that the program makes itself (cuMemAllocFromPoolAsync)";
    case NotServed::kAsync:
      return "cuMemAllocAsync, which the driver's pool serves (--async cachalot)";
    case NotServed::kExport:
      return "a handle for other processes (CUDA IPC) of a block within a segment, where they "
             "would find other data "
             "(--whole)";
  }
  return "";
}

std::string line_of_end(int64_t process, DeviceOrdinal device, const cachalot_stats& stats,
                        uint64_t served, uint64_t not_served) {
  return format("end %lld %d %llu %llu %lld %lld %lld %lld\n", static_cast<long long>(process),
                device, static_cast<unsigned long long>(served),
                static_cast<unsigned long long>(not_served),
                static_cast<long long>(stats.requested_bytes.all.peak),
                static_cast<long long>(stats.reserved_bytes.all.peak),
                static_cast<long long>(stats.num_device_alloc),
                static_cast<long long>(stats.num_device_free));
}

OfProcess<Server> server_of_process;

}  // namespace

Server* Server::get() noexcept {
  static const bool is_asked_for = is_serving_asked_for();
  if (!is_asked_for) return nullptr;
  try {
    return server_of_process.get([](Server*) { return make(); });
  } catch (...) {
    return nullptr;
  }
}

Server* Server::make() {
  const auto options = run_options_of_environment();
  return options ? new Server(*options) : nullptr;
}

Server::Server(const RunOptions& options) : options_(options), process_(getpid()) {}

// A hook is a function of C. Where something fails, the driver is asked.
template <class Act>
auto Server::attempt(Act act) noexcept -> decltype(act()) {
  try {
    return act();
  } catch (const std::exception& error) {
    if (is_first(kFailure))
      std::fprintf(stderr, "cachalot: process %lld is not served, or not as a whole: %s\n",
                   static_cast<long long>(process_), error.what());
  } catch (...) {
  }
  return decltype(act())();
}

bool Server::is_first(unsigned remark) {
  const uint32_t bit = 1u << remark;
  return (remarks_.fetch_or(bit) & bit) == 0;
}

void Server::not_served(NotServed what) noexcept {
  not_served_.fetch_add(1, std::memory_order_relaxed);
  if (!is_first(static_cast<unsigned>(what))) return;
  std::fprintf(stderr, "cachalot: process %lld: not served: %s\n", static_cast<long long>(process_),
               reason(what));
}

// ---- Devices

ServedDevice* Server::current() {
  DriverContext* const context = contexts_.current();
  return context != nullptr ? device_of(context) : nullptr;
}

ServedDevice* Server::current_for_request() {
  DriverContext* const context = contexts_.current();
  if (context == nullptr) return nullptr;
  ServedDevice* const device = device_of(context);
  if (device == nullptr)
    not_served(NotServed::kOtherContext);
  else
    served_.fetch_add(1, std::memory_order_relaxed);
  return device;
}

// The life of a context that has ended has left its place.
ServedDevice* Server::device_of(DriverContext* context) {
  if (!context->is_primary) return nullptr;
  const auto index = static_cast<size_t>(context->device);
  if (index >= kMostDevices) return nullptr;
  ServedDevice* const device = devices_[index].load(std::memory_order_acquire);
  return device != nullptr && device->context() == context ? device : make_device(context);
}

ServedDevice* Server::make_device(DriverContext* context) {
  const std::lock_guard guard(making_);
  auto& place = devices_[static_cast<size_t>(context->device)];
  ServedDevice* device = place.load(std::memory_order_acquire);
  if (device != nullptr && device->context() == context) return device;
  // No capture begins or ends before it is in its place, where it is told of them.
  Captures::get().holding([&](size_t captures) {
    device = new ServedDevice(context, options_, captures);
    place.store(device, std::memory_order_release);
    devices_end_.store(std::max(devices_end_.load(), static_cast<size_t>(context->device) + 1),
                       std::memory_order_release);
  });

  for (const auto& [of, accessing] : peers_)
    if (of == context->handle) device->give_access_to(accessing);
  append_line(options_.list,
              format("begin %lld %d\n", static_cast<long long>(process_), context->device));
  start_keeping_up();
  return device;
}

template <class Act>
void Server::for_each_device(Act act) {
  const size_t end = devices_end_.load(std::memory_order_acquire);
  for (size_t i = 0; i < end; i++)
    if (ServedDevice* const device = devices_[i].load(std::memory_order_acquire)) act(*device);
}

void Server::context_ended(const DriverContext* context) {
  const auto index = static_cast<size_t>(context->device);
  if (!context->is_primary || index >= kMostDevices) return;
  ServedDevice* device = devices_[index].load(std::memory_order_acquire);
  if (device == nullptr || device->context() != context) return;
  tell_end(*device);
  devices_[index].store(nullptr, std::memory_order_release);
  Captures::get().end_all_of(context->handle, [&] { capture_ended(); });
}

std::pair<ServedDevice*, BlockInfo> Server::find(DeviceAddress address) {
  std::pair<ServedDevice*, BlockInfo> found{nullptr, {}};
  for_each_device([&](ServedDevice& device) {
    if (found.first != nullptr) return;
    if (const auto block = device.find(address)) found = {&device, *block};
  });
  return found;
}

// ---- Blocks

std::optional<Result> Server::allocate(uint64_t size, DeviceAddress* out) noexcept {
  return attempt([&]() -> std::optional<Result> {
    if (size == 0 || out == nullptr) return {};  // the driver's own error
    ServedDevice* const device = current_for_request();
    if (device == nullptr) return {};
    return device->allocate(size, CACHALOT_STREAM_ALL, out);
  });
}

std::optional<Result> Server::allocate_on(uint64_t size, StreamHandle stream,
                                          DeviceAddress* out) noexcept {
  return attempt([&]() -> std::optional<Result> {
    if (size == 0 || out == nullptr) return {};
    if (!options_.serves_async) {
      not_served(NotServed::kAsync);
      return {};
    }
    ServedDevice* const device = current_for_request();
    if (device == nullptr) return {};
    return device->allocate(size, reinterpret_cast<Stream>(stream), out);
  });
}

std::optional<Result> Server::free(DeviceAddress address) noexcept {
  return attempt([&]() -> std::optional<Result> {
    const auto [device, block] = find(address);
    if (device == nullptr) return free_other(address);
    return device->free(block);
  });
}

std::optional<Result> Server::free_on(DeviceAddress address, StreamHandle stream) noexcept {
  return attempt([&]() -> std::optional<Result> {
    const auto [device, block] = find(address);
    if (device == nullptr) return free_other(address);
    // What a graph does with the block later is no work that an event would tell of.
    const bool is_node = Captures::get().any() && is_captured(stream, DefaultStream::kLegacy);
    return device->free_on(block, is_node ? kAllStreams : reinterpret_cast<Stream>(stream));
  });
}

void Server::passed_on(DeviceAddress address) noexcept {
  attempt([&] {
    const std::lock_guard guard(passed_on_mutex_);
    passed_on_.insert(address);
  });
}

// To look into the caches is for programs that free what they do not have.
std::optional<Result> Server::free_other(DeviceAddress address) {
  {
    const std::lock_guard guard(passed_on_mutex_);
    const auto found = passed_on_.find(address);
    if (found != passed_on_.end()) {
      passed_on_.erase(found);
      return {};
    }
  }
  bool is_ours = false;
  if (address != 0)
    for_each_device([&](ServedDevice& device) { is_ours = is_ours || device.has_cached(address); });
  return is_ours ? std::optional<Result>(kInvalidValue) : std::nullopt;
}

std::optional<BlockInfo> Server::find_around(DeviceAddress address) noexcept {
  return attempt([&] {
    std::optional<BlockInfo> found;
    for_each_device([&](ServedDevice& device) {
      if (!found) found = device.find_around(address);
    });
    return found;
  });
}

bool Server::can_be_exported(DeviceAddress address) noexcept {
  std::optional<bool> begins = attempt([&]() -> std::optional<bool> {
    const auto [device, block] = find(address);
    if (device == nullptr) return find_around(address) ? false : true;
    return device->segment_of(address).first == address;
  });
  return begins.value_or(false);
}

// The cache is as good as free memory.
void Server::adjust_memory_info(size_t* available, size_t* total) noexcept {
  attempt([&] {
    ServedDevice* const device = current();
    if (device == nullptr || available == nullptr || total == nullptr) return;
    *available = std::min(*total, *available + device->cached_bytes());
    if (options_.limit == 0) return;
    const cachalot_stats stats = device->stats();
    const auto used = static_cast<uint64_t>(stats.allocated_bytes.all.current);
    const uint64_t left = options_.limit - std::min(options_.limit, used);
    *total = std::min<size_t>(*total, options_.limit);
    *available = std::min<size_t>(*available, left);
  });
}

bool Server::make_room() noexcept {
  return attempt([&] {
    DriverContext* const context = contexts_.current();
    if (context == nullptr || !context->is_primary) return false;
    ServedDevice* const device = device_of(context);
    const uint64_t before = device->cached_bytes();
    if (before == 0) return false;
    device->empty_cache();
    return device->cached_bytes() < before;
  });
}

// ---- What the program does beside

void Server::stream_ends(StreamHandle stream) noexcept {
  if (options_.serves_async && !is_captured(stream, DefaultStream::kLegacy))
    call_real(real().cuStreamSynchronize, stream);
}

void Server::peer_enabled(Context of) noexcept {
  attempt([&] {
    DeviceOrdinal accessing = 0;
    if (call_real(real().cuCtxGetDevice, &accessing) != 0) return;
    const std::lock_guard guard(making_);
    peers_.emplace_back(of, accessing);
    for_each_device([&](ServedDevice& device) {
      if (device.context()->handle == of) device.give_access_to(accessing);
    });
  });
}

void Server::waited() noexcept {
  if (!options_.frees_by_event) return;
  attempt([&] {
    DriverContext* const context = contexts_.current();
    for_each_device([&](ServedDevice& device) {
      if (device.context() == context) device.waited();
    });
  });
}

void Server::capture_begun() noexcept {
  attempt([&] { for_each_device([](ServedDevice& device) { device.capture_begun(); }); });
}

void Server::capture_ended() noexcept {
  attempt([&] { for_each_device([](ServedDevice& device) { device.capture_ended(); }); });
}

void Server::destroying(Context context) noexcept {
  attempt([&] { contexts_.destroyed(context); });
}

// Memory that is mapped outlives its context.
void Server::resetting(DeviceOrdinal ordinal) noexcept {
  attempt([&] {
    for_each_device([&](ServedDevice& device) {
      if (device.context()->device == ordinal) device.give_all_back();
    });
  });
}

void Server::look_after_primary(DeviceOrdinal device) noexcept {
  attempt([&] { contexts_.look_after_primary(device); });
}

// ---- Upkeep

// A thread that the program does not know takes none of its signals.
void Server::start_keeping_up() {
  if (keeps_up_ || (options_.trim_idle_seconds == 0 && options_.metrics.empty())) return;
  keeps_up_ = true;
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread([this] {
    const uint64_t idle = options_.trim_idle_seconds;
    const auto turn =
        std::chrono::seconds(idle != 0 && idle < 20 ? std::max<uint64_t>(idle / 2, 1) : 10);
    for (;;) {
      std::this_thread::sleep_for(turn);
      keep_up();
    }
  }).detach();
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void Server::keep_up() noexcept {
  attempt([&] {
    if (options_.trim_idle_seconds != 0)
      for_each_device([&](ServedDevice& device) { device.trim(options_.trim_idle_seconds); });
    write_metrics();
  });
}

// Each device has an allocator of its own.
std::string Server::metrics() {
  Metrics all;
  for_each_device([&](ServedDevice& device) {
    Metrics one = device.metrics();
    const auto index = static_cast<size_t>(device.context()->device);
    auto devices = std::move(all.devices);
    devices.push_back(one.devices.at(index));
    all = std::move(one);
    all.devices = std::move(devices);
  });
  return all.devices.empty() ? "" : metrics_text(all);
}

void Server::write_metrics() {
  if (options_.metrics.empty()) return;
  const std::string path = path_of_process(options_.metrics, process_);
  const std::string fresh = path + "." + std::to_string(process_);
  std::FILE* const file = std::fopen(fresh.c_str(), "we");
  if (file == nullptr) return;
  std::fputs(metrics().c_str(), file);
  std::fclose(file);
  rename(fresh.c_str(), path.c_str());
}

// The CUDA runtime ends the contexts that it has made before the process ends.
void Server::tell_end(ServedDevice& device) {
  append_line(options_.list, line_of_end(process_, device.context()->device, device.stats(),
                                         served_, not_served_));
  write_metrics();
}

void Server::finish() noexcept {
  attempt([&] { for_each_device([&](ServedDevice& device) { tell_end(device); }); });
}

namespace {

// Behind the exit handlers of the program, before those of the driver.
[[gnu::destructor]] void finish_serving() {
  if (Server* const server = server_of_process.if_made()) server->finish();
}

}  // namespace

}  // namespace cachalot::proxy
