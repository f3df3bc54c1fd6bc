// SPDX-License-Identifier: MIT OR Apache-2.0
#include "alloc/async_allocator.h"

#include <algorithm>

#include "base/error.h"
#include "base/reserve.h"
#include "base/text.h"
#include "device/address_range.h"
#include "device/driver_error.h"
#include "device/pool_attributes.h"

namespace cachalot {

// The members that ask for attributes have the names of these.
namespace of_pool = pool_attribute;
namespace of_graph = graph_attribute;

namespace {

// A driver may say what no device has.
int64_t shown_bytes(uint64_t bytes) {
  return static_cast<int64_t>(std::min<uint64_t>(bytes, INT64_MAX));
}
int64_t add_bytes(int64_t shown, uint64_t bytes) {
  return shown + std::min(shown_bytes(bytes), INT64_MAX - shown);
}

}  // namespace

AsyncAllocator::AsyncAllocator(SharedState& shared)
    : shared_(shared),
      driver_(shared.driver),
      devices_(static_cast<size_t>(shared.driver.device_count())) {
  CACHALOT_ASSERT(1, driver_.supports_memory_pools());
  blocks_.reserve(16);  // an empty table has room for none, whatever reserve_row() is told
}

AsyncAllocator::~AsyncAllocator() {
  const auto on_prepared = [this](auto&& action) {
    for (int device = 0; device < driver_.device_count(); device++)
      if (at(device).is_prepared) action(device);
  };
  on_prepared([this](int device) { driver_.device_synchronize(device); });
  free_quietly();
  on_prepared([this](int device) {
    driver_.device_synchronize(device);
    driver_.pool_trim(device, 0);
    driver_.stream_destroy(device, at(device).unifying_stream);
  });
}

// ---- The driver

void AsyncAllocator::require_success(DriverCode code) {
  if (code != kSuccess) throw runtime_error(driver_, code);
}

void AsyncAllocator::raise_pending_error(int device) {
  require_success(driver_.take_pending_error(device));
}

AsyncAllocator::DeviceMemory AsyncAllocator::device_memory(int device) {
  DeviceMemory memory{};
  require_success(driver_.memory_info(device, &memory.available, &memory.total));
  return memory;
}

uint64_t AsyncAllocator::pool_attribute(int device, int32_t attribute) {
  uint64_t value = 0;
  require_success(driver_.pool_get_attribute(device, attribute, &value));
  return value;
}

uint64_t AsyncAllocator::graph_attribute(int device, int32_t attribute) {
  uint64_t value = 0;
  require_success(driver_.graph_get_attribute(device, attribute, &value));
  return value;
}

// The stream is made last, so that a failure before it leaves nothing behind.
void AsyncAllocator::prepare(int device) {
  lock_.assert_held();
  Device& target = at(device);
  if (target.is_prepared) return;
  constexpr std::pair<int32_t, uint64_t> kSettings[] = {
      {of_pool::kReleaseThreshold, UINT64_MAX},
      {of_pool::kReuseFollowEventDependencies, 1},
      {of_pool::kReuseAllowOpportunistic, 1},
      {of_pool::kReuseAllowInternalDependencies, 1},
  };
  for (const auto& [attribute, value] : kSettings)
    require_success(driver_.pool_set_attribute(device, attribute, value));
  require_success(driver_.stream_create(device, &target.unifying_stream));
  target.is_prepared = true;
}

// ---- Allocate

Address AsyncAllocator::allocate(const Request& request) {
  if (request.size == 0) return 0;
  std::lock_guard guard(lock_);
  prepare(request.device);
  if (!is_capturing_) issue_deferred_frees();
  raise_pending_error(request.device);
  Device& device = at(request.device);
  if (device.used + request.size > device.limit) throw_out_of_memory(request);
  Blocks made;  // a row that is ready, so that nothing can fail once the driver has given memory
  made.emplace(0, Block{request.size, request.stream, request.device, is_capturing_, false, {}});
  auto row = made.extract(made.begin());
  reserve_row();
  const DriverCode code = ask_driver(request, &row.key());
  if (code == kDriverOutOfMemory) throw_out_of_memory(request);
  require_success(code);
  const Address address = row.key();
  require_range(request, address);
  if (is_capturing_ && !capture_stream_) capture_stream_ = request.current_stream;
  const auto inserted = blocks_.insert(std::move(row));
  if (!inserted.inserted) throw_handed_out_twice(address, inserted.position->second);
  device.used += request.size;
  return address;
}

void AsyncAllocator::require_range(const Request& request, Address address) {
  const char* const flaw = flaw_of_range(address, request.size);
  if (flaw == nullptr) return;
  if (address != 0) driver_.pool_free(request.device, address, request.stream);
  throw_invalid_state("the driver gave " + range_text(address, request.size) + ": " + flaw);
}

// Doubles, so that rows are rarely moved: reserve() alone makes just enough room.
void AsyncAllocator::reserve_row() {
  const auto room =
      static_cast<size_t>(static_cast<double>(blocks_.bucket_count()) * blocks_.max_load_factor());
  if (blocks_.size() + 1 > room) blocks_.reserve(2 * (blocks_.size() + 1));
}

// Memory of a graph that is gone, and that nobody gave back here. The row stands for it from now on.
void AsyncAllocator::throw_handed_out_twice(Address address, const Block& block) {
  throw_invalid_state("the driver handed out " + hex_address(address) +
                      format(" again, while its block of %llu bytes is live",
                             static_cast<unsigned long long>(block.size)));
}

DriverCode AsyncAllocator::ask_driver(const Request& request, Address* address) {
  lock_.assert_held();
  const auto ask = [&] {
    const DriverCode code =
        driver_.pool_allocate(request.device, request.size, request.stream, address);
    if (code != kSuccess) driver_.take_pending_error(request.device);
    return code;
  };
  const DriverCode code = ask();
  if (code != kDriverOutOfMemory || !shared_.rules.trims_async_pool_and_retries) return code;
  require_success(driver_.stream_synchronize(request.device, request.stream));
  require_success(driver_.pool_trim(request.device, 0));
  return ask();
}

void AsyncAllocator::throw_out_of_memory(const Request& request) {
  const Device& device = at(request.device);
  const DeviceMemory memory = device_memory(request.device);
  OutOfMemory numbers;
  numbers.device = request.device;
  numbers.stream = request.stream;
  numbers.requested = numbers.segment_size = request.size;
  numbers.device_free = memory.available;
  numbers.device_total = memory.total;
  numbers.limit = device.limit == kUnlimited ? 0 : device.limit;
  numbers.allocated = device.used;
  driver_.pool_get_attribute(request.device, of_pool::kReservedCurrent, &numbers.reserved);
  throw Error(numbers,
              format("Allocation on device %d would exceed allowed memory. (out of memory)\n"
                     "Currently allocated     : %s\n"
                     "Requested               : %s\n"
                     "Device limit            : %s\n"
                     "Free (according to CUDA): %s\n"
                     "PyTorch limit (set by user-supplied memory fraction)\n"
                     "                        : %s",
                     request.device, format_size(device.used).c_str(),
                     format_size(request.size).c_str(), format_size(memory.total).c_str(),
                     format_size(memory.available).c_str(), format_size(device.limit).c_str()));
}

// ---- Free

AsyncAllocator::Blocks::iterator AsyncAllocator::find_live(Address address) {
  lock_.assert_held();
  const auto found = blocks_.find(address);
  if (found == blocks_.end() || found->second.is_deferred) throw invalid_pointer(address);
  return found;
}

void AsyncAllocator::free(Address address) {
  std::lock_guard guard(lock_);
  const auto known = blocks_.find(address);
  raise_pending_error(known == blocks_.end() ? 0 : known->second.device);
  const auto found = find_live(address);
  Block& block = found->second;
  if (is_capturing_ && !block.was_captured) return defer_free(address, block);
  if (!is_capturing_ && block.was_captured) {
    shared_.warn("Attempting uncaptured free of a captured allocation with address " +
                 hex_address(address));
  }
  issue_free(found);
}

// 3.5.
void AsyncAllocator::defer_free(Address address, Block& block) {
  CACHALOT_ASSERT(1, is_capturing_ && !block.was_captured && !block.is_deferred);
  shared_.warn_once(
      "cudaMallocAsync uncaptured",
      "freeAsync() was called on an uncaptured allocation during graph capture (address = " +
          hex_address(address) +
          "). This may be benign, for example, a Python tensor in the capture might happen to "
          "shadow (use the same name as) an unrelated temporary tensor from somewhere before "
          "capture, pushing the earlier tensor out of scope. However, if the tensor we're freeing "
          "here IS used by the capture, freeing it is an error, and may cause illegal memory "
          "accesses or memory corruption during graph replay.");
  deferred_.push_back(address);
  block.is_deferred = true;
}

// One that fails stays first in the line.
void AsyncAllocator::issue_deferred_frees() {
  CACHALOT_ASSERT(1, !is_capturing_);
  for (; !deferred_.empty(); deferred_.pop_front()) {
    const auto found = blocks_.find(deferred_.front());
    CACHALOT_ASSERT(1, found != blocks_.end() && found->second.is_deferred);
    issue_free(found);
  }
}

void AsyncAllocator::issue_free(Blocks::iterator found) {
  lock_.assert_held();
  const Block& block = found->second;
  const Stream stream = wait_for_uses(block);
  const bool is_first = is_capturing_ && freed_on_.insert({block.device, stream}).second;
  const DriverCode code = driver_.pool_free(block.device, found->first, stream);
  if (code != kSuccess && is_first) freed_on_.erase({block.device, stream});
  require_success(code);
  CACHALOT_ASSERT(1, block.size <= at(block.device).used);
  at(block.device).used -= block.size;
  blocks_.erase(found);
}

// The stream on which the block can be freed: its own, or one that waits for all that used it
// (3.3).
Stream AsyncAllocator::wait_for_uses(const Block& block) {
  CACHALOT_ASSERT(1, at(block.device).is_prepared);
  const std::vector<Stream> uses = block.uses.keys();
  if (uses.empty()) return block.stream;
  const Stream unifying = at(block.device).unifying_stream;
  make_wait(block.device, unifying, block.stream);
  for (const Stream use : uses) make_wait(block.device, unifying, use);
  return unifying;
}

void AsyncAllocator::make_wait(int device, Stream waiting, Stream awaited) {
  uint64_t event = 0;
  require_success(driver_.event_create(device, &event));
  DriverCode code = driver_.event_record(device, event, awaited);
  if (code == kSuccess) code = driver_.stream_wait_event(device, waiting, event);
  driver_.event_destroy(device, event);
  require_success(code);
}

void AsyncAllocator::free_quietly() {
  for (const auto& [address, block] : blocks_)
    driver_.pool_free(block.device, address, block.stream);
  for (const Trial& trial : refused_trials_)
    driver_.pool_free(trial.device, trial.address, trial.stream);
  refused_trials_.clear();
  for (Device& device : devices_) device.used = 0;
  blocks_.clear();
  deferred_.clear();
}

// ---- Blocks

void AsyncAllocator::record_stream(Address address, Stream stream) {
  if (address == 0) return;
  std::lock_guard guard(lock_);
  const auto found = blocks_.find(address);
  if (found == blocks_.end() || found->second.is_deferred)
    throw_invalid_state(hex_address(address) + " is not a live block");
  Block& block = found->second;
  if (stream != block.stream)
    return block.uses.insert(stream, stream + static_cast<uint64_t>(block.device));
  shared_.warn_once("cudaMallocAsync record_stream",
                    "Called record_stream on tensor whose original creation stream matches the "
                    "recorded stream. This is unnecessary and has no effect.");
}

BlockInfo AsyncAllocator::block(Address address) {
  std::lock_guard guard(lock_);
  const Block& block = find_live(address)->second;
  return {address, block.size, block.size, block.stream, {}, block.device};
}

uint64_t AsyncAllocator::live_blocks() {
  std::lock_guard guard(lock_);
  return blocks_.size() - deferred_.size();
}

// A device that is lost has no work to wait for, so its errors are passed over.
void AsyncAllocator::free_all() {
  std::lock_guard guard(lock_);
  std::unordered_set<int> waited_for;
  for (const auto& [address, block] : blocks_) {
    if (waited_for.insert(block.device).second) driver_.device_synchronize(block.device);
  }
  free_quietly();
  is_capturing_ = false;
  freed_on_.clear();
}

// ---- The cache and limits

void AsyncAllocator::empty_cache(int device) {
  std::lock_guard guard(lock_);
  if (!at(device).is_prepared) return;
  require_success(driver_.device_synchronize(device));
  require_success(driver_.pool_trim(device, 0));
}

// The driver's pool does not wait, and gives back what it has free by then.
void AsyncAllocator::trim(int device, const TrimGoal& goal, uint64_t* released) {
  if (goal.min_idle_ns != 0) {
    throw_not_supported(
        "backend:cudaMallocAsync does not know how long memory was idle: min_idle_ns has to be 0");
  }
  std::lock_guard guard(lock_);
  if (!at(device).is_prepared) return;
  const uint64_t before = pool_attribute(device, of_pool::kReservedCurrent);
  require_success(driver_.pool_trim(device, goal.keep_bytes));
  const uint64_t after = pool_attribute(device, of_pool::kReservedCurrent);
  *released += before - std::min(before, after);
}

// By trial. The reference never ends where the limit is below what is used.
uint64_t AsyncAllocator::largest_block(int index, Stream current_stream) {
  std::lock_guard guard(lock_);
  prepare(index);
  raise_pending_error(index);
  const Device& device = at(index);
  const uint64_t allowed = device.limit - std::min(device.limit, device.used);
  uint64_t size = std::min(device_memory(index).available, allowed);
  reserve_one_more(refused_trials_);
  for (; size > 0; size /= 2) {
    Address address = 0;
    const DriverCode code = driver_.pool_allocate(index, size, current_stream, &address);
    if (code == kSuccess) {
      const DriverCode freed = driver_.pool_free(index, address, current_stream);
      if (freed != kSuccess) refused_trials_.push_back({index, current_stream, address});
      require_success(freed);
      return size;
    }
    driver_.take_pending_error(index);
    if (code != kDriverOutOfMemory) throw runtime_error(driver_, code);
  }
  return 0;
}

void AsyncAllocator::set_memory_fraction(int device, double fraction) {
  if (!(fraction >= 0 && fraction <= 1)) {
    throw_invalid_argument(format("invalid fraction:%g. Please set within (0, 1).", fraction));
  }
  std::lock_guard guard(lock_);
  prepare(device);
  at(device).limit =
      static_cast<uint64_t>(fraction * static_cast<double>(device_memory(device).total));
}

double AsyncAllocator::memory_fraction(int device) {
  std::lock_guard guard(lock_);
  prepare(device);
  return static_cast<double>(at(device).limit) / static_cast<double>(device_memory(device).total);
}

void AsyncAllocator::set_memory_limit(int device, uint64_t bytes) {
  std::lock_guard guard(lock_);
  at(device).limit = bytes;
}

uint64_t AsyncAllocator::memory_limit(int device) {
  std::lock_guard guard(lock_);
  return at(device).limit;
}

// ---- Statistics

Stat AsyncAllocator::memory_stat(int device, int32_t pool_current, int32_t pool_high,
                                 int32_t graph_current, int32_t graph_high) {
  Stat stat;
  stat.current = shown_bytes(pool_attribute(device, pool_current));
  stat.peak = shown_bytes(pool_attribute(device, pool_high));
  if (!shared_.rules.counts_graph_memory) return stat;
  stat.current = add_bytes(stat.current, graph_attribute(device, graph_current));
  stat.peak = add_bytes(stat.peak, graph_attribute(device, graph_high));
  return stat;
}

Stats AsyncAllocator::stats(int device) {
  std::lock_guard guard(lock_);
  Stats stats;
  stats.max_split_size = 0;
  if (!at(device).is_prepared) return stats;
  stats.allocated_bytes.all = stats.active_bytes.all =
      memory_stat(device, of_pool::kUsedCurrent, of_pool::kUsedHigh, of_graph::kUsedCurrent,
                  of_graph::kUsedHigh);
  stats.reserved_bytes.all = memory_stat(device, of_pool::kReservedCurrent, of_pool::kReservedHigh,
                                         of_graph::kReservedCurrent, of_graph::kReservedHigh);
  return stats;
}

void AsyncAllocator::reset_peak_stats(int device) {
  std::lock_guard guard(lock_);
  require_success(driver_.pool_set_attribute(device, of_pool::kReservedHigh, 0));
  require_success(driver_.pool_set_attribute(device, of_pool::kUsedHigh, 0));
  if (!shared_.rules.counts_graph_memory) return;
  require_success(driver_.graph_set_attribute(device, of_graph::kReservedHigh, 0));
  require_success(driver_.graph_set_attribute(device, of_graph::kUsedHigh, 0));
}

void AsyncAllocator::reset_accumulated_stats() {
  shared_.warn_once("cudaMallocAsync resetAccumulatedStats",
                    "For backend:cudaMallocAsync, resetAccumulatedStats has no effect.");
}

DeviceTotals AsyncAllocator::totals(int device) {
  std::lock_guard guard(lock_);
  const uint64_t reserved =
      at(device).is_prepared ? pool_attribute(device, of_pool::kReservedCurrent) : 0;
  return totals_of(driver_, device, reserved);
}

// ---- Captures

void AsyncAllocator::capture_begin() {
  std::lock_guard guard(lock_);
  if (is_capturing_) throw_invalid_state("Only one capture at a time is allowed in a process.");
  CACHALOT_ASSERT(1, freed_on_.empty());
  is_capturing_ = true;
  capture_stream_.reset();
}

// The capture is over whatever the driver says: its graph is lost after an error.
void AsyncAllocator::capture_end(std::optional<Stream> current_stream) {
  std::lock_guard guard(lock_);
  if (!is_capturing_) {
    throw_invalid_state(
        "CudaMallocAsync::notifyCaptureAboutToEnd called, but CudaMallocAsync::capture_underway is "
        "false.");
  }
  const std::vector<DeviceStream> freed_on(freed_on_.begin(), freed_on_.end());
  is_capturing_ = false;
  const Stream joining = current_stream ? *current_stream : capture_stream_.value_or(0);
  freed_on_.clear();
  for (const DeviceStream& freed : freed_on) make_wait(freed.device, joining, freed.stream);
}

// ---- The rest

void AsyncAllocator::enable_peer_access(int device, int peer) {
  std::lock_guard guard(lock_);
  require_success(driver_.pool_set_access(peer, device));
}

void AsyncAllocator::warn_of_annotation() {
  shared_.warn_once("cudaMallocAsync annotation",
                    "cudaMallocAsync does not support memory annotations; the value passed to "
                    "torch.cuda.memory._annotate_memory is ignored and will not appear in memory "
                    "snapshots. Query torch._C._cuda_memoryMetadataSupported() to check support.");
}

std::string AsyncAllocator::check() {
  std::lock_guard guard(lock_);
  std::vector<uint64_t> used(devices_.size());
  size_t deferred = 0;
  for (const auto& [address, block] : blocks_) {
    used[static_cast<size_t>(block.device)] += block.size;
    deferred += block.is_deferred ? 1 : 0;
  }
  for (size_t i = 0; i < devices_.size(); i++) {
    if (used[i] == devices_[i].used) continue;
    return format("device %zu counts %llu bytes as used, its blocks have %llu", i,
                  static_cast<unsigned long long>(devices_[i].used),
                  static_cast<unsigned long long>(used[i]));
  }
  if (deferred != deferred_.size())
    return format("%zu blocks are put off, and %zu frees", deferred, deferred_.size());
  if (!is_capturing_ && !freed_on_.empty()) return "streams wait to be joined without a capture";
  return "";
}

}  // namespace cachalot
