// SPDX-License-Identifier: MIT OR Apache-2.0
#include "alloc/async/async_device.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "base/error.h"
#include "base/reserve.h"
#include "base/sums.h"
#include "base/text.h"
#include "device/address_range.h"
#include "device/driver_error.h"
#include "device/pool_attributes.h"

namespace cachalot {

// The members that ask for attributes have the names of these.
namespace of_pool = pool_attribute;
namespace of_graph = graph_attribute;

namespace {

// A driver may report more bytes than a signed number holds.
int64_t add_bytes(int64_t shown, uint64_t bytes) {
  return shown + std::min(shown_bytes(bytes), INT64_MAX - shown);
}

}  // namespace

AsyncDevice::AsyncDevice(SharedState& shared, int device, Mutex& lock, AsyncCapture& capture)
    : shared_(shared), driver_(shared.driver), device_(device), lock_(lock), capture_(capture) {}

// ---- The driver

AsyncDevice::DeviceMemory AsyncDevice::device_memory() {
  DeviceMemory memory{};
  require_success(driver_, driver_.memory_info(device_, &memory.available, &memory.total));
  return memory;
}

uint64_t AsyncDevice::pool_attribute(int32_t attribute) {
  uint64_t value = 0;
  require_success(driver_, driver_.pool_get_attribute(device_, attribute, &value));
  return value;
}

uint64_t AsyncDevice::graph_attribute(int32_t attribute) {
  uint64_t value = 0;
  require_success(driver_, driver_.graph_get_attribute(device_, attribute, &value));
  return value;
}

// The stream is made last, so that a failure before it leaves nothing behind.
void AsyncDevice::prepare() {
  lock_.assert_held();
  if (is_prepared_) return;
  // [async 1.2] The pool keeps all that is freed, and reuses it where streams allow.
  constexpr std::pair<int32_t, uint64_t> kSettings[] = {
      {of_pool::kReleaseThreshold, UINT64_MAX},
      {of_pool::kReuseFollowEventDependencies, 1},
      {of_pool::kReuseAllowOpportunistic, 1},
      {of_pool::kReuseAllowInternalDependencies, 1},
  };
  for (const auto& [attribute, value] : kSettings)
    require_success(driver_, driver_.pool_set_attribute(device_, attribute, value));
  require_success(driver_, driver_.stream_create(device_, &unifying_stream_));
  is_prepared_ = true;
}

void AsyncDevice::forget_blocks() {
  free_refused_trials();
  refused_trials_.clear();
  used_ = 0;
}

// Ignores errors of the driver, as all steps of the end do.
void AsyncDevice::close() {
  driver_.device_synchronize(device_);
  driver_.pool_trim(device_, 0);
  driver_.stream_destroy(device_, unifying_stream_);
}

// ---- Blocks

// [async 2.2] The driver is not asked for a request beyond the limit.
void AsyncDevice::require_within_limit(const Request& request) {
  lock_.assert_held();
  if (used_ + request.size > limit_) throw_out_of_memory(request);
}

Address AsyncDevice::allocate(const Request& request) {
  lock_.assert_held();
  CACHALOT_ASSERT(1, is_prepared_ && request.device == device_);
  Address address = 0;
  DriverCode code = ask_driver(request, &address);
  if (code == kDriverOutOfMemory && free_refused_trials()) code = ask_driver(request, &address);
  if (code == kDriverOutOfMemory) throw_out_of_memory(request);
  require_success(driver_, code);
  require_range(request, address);
  return address;
}

DriverCode AsyncDevice::ask_driver(const Request& request, Address* address) {
  const auto ask = [&] {
    const DriverCode code = driver_.pool_allocate(device_, request.size, request.stream, address);
    // The runtime keeps the failure as its last error, which the program must not meet in a later
    // call.
    if (code != kSuccess) driver_.take_pending_error(device_);
    return code;
  };
  const DriverCode code = ask();
  // R70: frees on the stream may be queued, and the pool may keep memory that others could use.
  if (code != kDriverOutOfMemory || !shared_.rules.trims_async_pool_and_retries) return code;
  require_success(driver_, driver_.stream_synchronize(device_, request.stream));
  require_success(driver_, driver_.pool_trim(device_, 0));
  return ask();
}

void AsyncDevice::require_range(const Request& request, Address address) {
  const char* const flaw = flaw_of_range(address, request.size);
  if (flaw == nullptr) return;
  if (address != 0) driver_.pool_free(device_, address, request.stream);
  throw_invalid_state("the driver gave " + range_text(address, request.size) + ": " + flaw);
}

void AsyncDevice::throw_out_of_memory(const Request& request) {
  const DeviceMemory memory = device_memory();
  OutOfMemory numbers;
  numbers.device = device_;
  numbers.stream = request.stream;
  numbers.requested = numbers.segment_size = request.size;
  numbers.device_free = memory.available;
  numbers.device_total = memory.total;
  numbers.limit = limit_ == kUnlimited ? 0 : limit_;
  numbers.allocated = used_;
  // Without an answer the field stays 0: one error at a time.
  driver_.pool_get_attribute(device_, of_pool::kReservedCurrent, &numbers.reserved);
  throw Error(numbers,
              format("Allocation on device %d would exceed allowed memory. (out of memory)\n"
                     "Currently allocated     : %s\n"
                     "Requested               : %s\n"
                     "Device limit            : %s\n"
                     "Free (according to CUDA): %s\n"
                     "%s\n"
                     "                        : %s",
                     device_, format_size(used_).c_str(), format_size(request.size).c_str(),
                     format_size(memory.total).c_str(), format_size(memory.available).c_str(),
                     shared_.rules.wording().async_limit, format_size(limit_).c_str()));
}

// [async 3.3] The unifying stream waits for all of them.
Stream AsyncDevice::stream_after(Stream created_on, const std::vector<Stream>& uses) {
  lock_.assert_held();
  CACHALOT_ASSERT(1, is_prepared_);
  if (uses.empty()) return created_on;
  make_stream_wait(driver_, device_, unifying_stream_, created_on);
  for (const Stream use : uses) make_stream_wait(driver_, device_, unifying_stream_, use);
  return unifying_stream_;
}

// ---- The cache

// Waits for the device: memory of a queued free can go only when the work before it is done.
void AsyncDevice::empty_cache(PoolId, std::optional<Stream>) {
  std::lock_guard guard(lock_);
  if (!is_prepared_) return;
  free_refused_trials();
  require_success(driver_, driver_.device_synchronize(device_));
  require_success(driver_, driver_.pool_trim(device_, 0));
}

void AsyncDevice::release_context() {
  throw_not_supported("backend:cudaMallocAsync keeps the contexts of its devices");
}

// Those that the driver still refuses stay. Whether one has gone back.
bool AsyncDevice::free_refused_trials() {
  const size_t freed = std::erase_if(refused_trials_, [&](const Trial& trial) {
    const bool is_freed = driver_.pool_free(device_, trial.address, trial.stream) == kSuccess;
    if (!is_freed) driver_.take_pending_error(device_);
    return is_freed;
  });
  return freed > 0;
}

// Does not wait for queued work: the driver's pool gives back what is free by now.
void AsyncDevice::trim(const TrimGoal& goal, uint64_t* released) {
  if (goal.min_idle_ns != 0) {
    throw_not_supported(
        "backend:cudaMallocAsync does not know how long memory was idle: min_idle_ns has to be 0");
  }
  std::lock_guard guard(lock_);
  if (!is_prepared_) return;
  const uint64_t before = pool_attribute(of_pool::kReservedCurrent);
  require_success(driver_, driver_.pool_trim(device_, goal.keep_bytes));
  const uint64_t after = pool_attribute(of_pool::kReservedCurrent);
  *released += before - std::min(before, after);
}

// Finds the size by trial, since the driver's pool does not tell it. The reference never ends where the
// limit is below what is used.
uint64_t AsyncDevice::largest_block(uint64_t, Stream current_stream) {
  require_one_stream(current_stream);
  std::lock_guard guard(lock_);
  prepare();
  require_success(driver_, driver_.take_pending_error(device_));
  const uint64_t allowed = limit_ - std::min(limit_, used_);
  uint64_t size = std::min(device_memory().available, allowed);
  // Before the first trial: a block that the driver does not take back must not be forgotten.
  reserve_one_more(refused_trials_);
  for (; size > 0; size /= 2) {
    Address address = 0;
    const DriverCode code = driver_.pool_allocate(device_, size, current_stream, &address);
    if (code == kSuccess) {
      const DriverCode freed = driver_.pool_free(device_, address, current_stream);
      if (freed != kSuccess) refused_trials_.push_back({current_stream, address});
      require_success(driver_, freed);
      return size;
    }
    driver_.take_pending_error(device_);
    if (code != kDriverOutOfMemory) throw runtime_error(driver_, code);
  }
  return 0;
}

// ---- Limits

void AsyncDevice::set_memory_fraction(double fraction) {
  if (!(fraction >= 0 && fraction <= 1)) {
    throw_invalid_argument(format("invalid fraction:%g. Please set within (0, 1).", fraction));
  }
  std::lock_guard guard(lock_);
  prepare();
  limit_ = static_cast<uint64_t>(fraction * static_cast<double>(device_memory().total));
}

double AsyncDevice::memory_fraction() {
  std::lock_guard guard(lock_);
  prepare();
  return static_cast<double>(limit_) / static_cast<double>(device_memory().total);
}

// No device is prepared for it: the driver is not asked anything.
void AsyncDevice::set_memory_limit(uint64_t bytes) {
  std::lock_guard guard(lock_);
  limit_ = bytes;
}

uint64_t AsyncDevice::memory_limit() {
  std::lock_guard guard(lock_);
  return limit_;
}

void AsyncDevice::give_peer_access(int peer) {
  std::lock_guard guard(lock_);
  require_success(driver_, driver_.pool_set_access(device_, peer));
}

// ---- Statistics

// R71: memory of graphs is counted beside the pool's. The sum of two peaks can be above the peak of
// the sum, as in the reference.
Stat AsyncDevice::memory_stat(int32_t pool_current, int32_t pool_high, int32_t graph_current,
                              int32_t graph_high) {
  Stat stat;
  stat.current = shown_bytes(pool_attribute(pool_current));
  stat.peak = shown_bytes(pool_attribute(pool_high));
  if (!shared_.rules.counts_graph_memory) return stat;
  stat.current = add_bytes(stat.current, graph_attribute(graph_current));
  stat.peak = add_bytes(stat.peak, graph_attribute(graph_high));
  return stat;
}

// [async 6.1, 6.2]
Stats AsyncDevice::stats() {
  std::lock_guard guard(lock_);
  Stats stats;
  stats.max_split_size = 0;
  if (!is_prepared_) return stats;
  stats.allocated_bytes.all = stats.active_bytes.all = memory_stat(
      of_pool::kUsedCurrent, of_pool::kUsedHigh, of_graph::kUsedCurrent, of_graph::kUsedHigh);
  stats.reserved_bytes.all = memory_stat(of_pool::kReservedCurrent, of_pool::kReservedHigh,
                                         of_graph::kReservedCurrent, of_graph::kReservedHigh);
  return stats;
}

void AsyncDevice::reset_peak_stats() {
  std::lock_guard guard(lock_);
  // The driver wants reserved before used memory [async 5].
  require_success(driver_, driver_.pool_set_attribute(device_, of_pool::kReservedHigh, 0));
  require_success(driver_, driver_.pool_set_attribute(device_, of_pool::kUsedHigh, 0));
  if (!shared_.rules.counts_graph_memory) return;
  require_success(driver_, driver_.graph_set_attribute(device_, of_graph::kReservedHigh, 0));
  require_success(driver_, driver_.graph_set_attribute(device_, of_graph::kUsedHigh, 0));
}

void AsyncDevice::reset_accumulated_stats() {
  shared_.log.warn_once("cudaMallocAsync resetAccumulatedStats",
                        "For backend:cudaMallocAsync, resetAccumulatedStats has no effect.");
}

DeviceTotals AsyncDevice::totals() {
  std::lock_guard guard(lock_);
  // A question must not prepare the device, which would create a stream.
  const uint64_t reserved = is_prepared_ ? pool_attribute(of_pool::kReservedCurrent) : 0;
  return totals_of(driver_, device_, reserved);
}

// ---- The capture

// The pool and its filter are ignored: the driver's pool serves all requests.
void AsyncDevice::pool_begin(PoolId, PoolFilter) {
  std::lock_guard guard(lock_);
  capture_.begin();
}

void AsyncDevice::pool_end(PoolId, std::optional<Stream> current_stream) {
  if (current_stream) require_one_stream(*current_stream);
  std::lock_guard guard(lock_);
  capture_.end(current_stream);
}

}  // namespace cachalot
