// SPDX-License-Identifier: MIT OR Apache-2.0
#include "alloc/native/native_backend.h"

#include <mutex>
#include <utility>

#include "alloc/config/options.h"
#include "alloc/native/device_allocator.h"
#include "alloc/native/device_pools.h"
#include "alloc/native/pool_checkpoints.h"
#include "alloc/native/pool_sleep.h"
#include "alloc/native/pool_wake.h"
#include "base/assert.h"
#include "base/text.h"
#include "device/device_count.h"

namespace cachalot {
namespace {

// One bit for each name, up to the first that is unknown.
uint32_t action_bits(const std::vector<std::string>& names, const Rules& rules,
                     std::string* unknown) {
  uint32_t bits = 0;
  const int known = rules.has_annotations ? kActionCount : static_cast<int>(Action::kAnnotate);
  for (const std::string& name : names) {
    int action = 0;
    while (action < known && name != action_name(static_cast<Action>(action))) action++;
    if (action == known) {
      *unknown = name;
      return bits;
    }
    bits |= uint32_t{1} << action;
  }
  return bits;
}

}  // namespace

// Devices copy the settings, so these are complete before the first device is made.
NativeBackend::NativeBackend(SharedState& shared, const AllocatorOptions& options, HitPath* hits,
                             const MakeCachePolicy& make_policy)
    : shared_(shared),
      hits_(*hits),
      uncached_(shared.driver),
      sharing_(shared, devices_),
      caching_from_start_(options.caching),
      audits_every_call_(options.check_every_call),
      observers_(std::make_shared<const ObserverSet>()) {
  // Held until all devices have their copies, so that no change of settings comes between two of
  // them.
  const auto lock = shared_.settings.lock();
  Settings& settings = shared_.settings.current();
  apply_options(options.config, OptionMoment::kCreation, shared_.rules, &settings,
                shared_.settings.warnings());
  require_possible(settings);
  shared_.settings.advise_of(settings);
  for (int i = 0; i < shared_.driver.device_count(); i++)
    devices_.push_back(std::make_unique<DeviceAllocator>(shared_, i, make_policy));
  hits_.lead_to(devices_.data(), &shared_);
  set_caching_enabled(true);
}

NativeBackend::~NativeBackend() = default;

DeviceAllocator& NativeBackend::existing_device(int index) const {
  require_device(index, static_cast<int>(devices_.size()));
  return *devices_[static_cast<size_t>(index)];
}

DeviceBackend& NativeBackend::device(int index) { return existing_device(index); }

// ---- Blocks

Address NativeBackend::allocate(const Request& request) {
  if (request.at != 0) require_exact_address(request);
  // The switch decides for each request by itself.
  if (!is_caching()) return uncached_.allocate(request);
  if (request.size == 0) return 0;
  CACHALOT_ASSERT(1, static_cast<size_t>(request.device) < devices_.size());
  return devices_[static_cast<size_t>(request.device)]->allocate(request);
}

// R50.
void NativeBackend::require_exact_address(const Request& request) const {
  if (!is_caching()) {
    throw_invalid_state(
        "Exact-address allocation is only supported by the native CUDA caching allocator");
  }
  if (request.size != 0 && request.at % kMinBlockSize != 0) {
    throw_invalid_argument(
        "mallocWithAddress: addr must be aligned to kMinBlockSize (512 bytes), got " +
        hex_address(request.at));
  }
  if (request.size >= kTooLarge) {
    throw_invalid_state("Could not allocate CUDA storage at exact address " +
                        hex_address(request.at));
  }
}

// Ignores the switch: a block goes back the way it was made. A block that falls asleep or wakes between the two
// looks is found by the second one.
void NativeBackend::free(Address address, std::optional<Stream> current_stream) {
  for (int look = 0; look < 2; look++) {
    const auto [shard, block] = shared_.find(address);
    if (shard && shard->device->free(*shard, block, address, current_stream)) return;
    if (look == 0 && uncached_.free(address)) return;
    for (const auto& d : devices_)
      if (PoolSleep(d->state()).free(address)) return;
  }
  throw invalid_pointer(address);
}

// Where no live block begins at the address: no hit comes here.
void NativeBackend::require_awake(Address address) const {
  for (const auto& d : devices_) {
    if (const auto pool = PoolSleep(d->state()).pool_of(address))
      throw_invalid_state("the block at " + hex_address(address) + " sleeps with " +
                          shown_pool_name(*pool));
  }
}

// Ignores an address that no block ever had, as the reference does [core 12.1].
void NativeBackend::record_stream(Address address, Stream stream,
                                  std::optional<Stream> current_stream) {
  const auto [shard, block] = shared_.find(address);
  if (!shard || !shard->device->record_stream(*shard, block, address, stream, current_stream))
    require_awake(address);
}

// Uncached blocks first: the address table may name an earlier block at the same address.
BlockInfo NativeBackend::block(Address address) {
  if (const auto info = uncached_.info(address)) return *info;
  if (const auto info = find_block(address)) return *info;
  require_awake(address);
  if (const auto info = find_block(address)) return *info;  // it has woken since
  throw invalid_pointer(address);
}

std::optional<BlockInfo> NativeBackend::find_block(Address address) {
  const auto [shard, block] = shared_.find(address);
  return shard ? shard->device->info(*shard, block, address) : std::nullopt;
}

// A guess can be of a block that is gone, with others behind it.
std::optional<BlockInfo> NativeBackend::find_block_around(Address address) {
  std::optional<BlockInfo> found;
  shared_.addresses.for_each_down_from(address, [&](uint32_t number) {
    const auto [shard, block] = shared_.arena.locate(number);
    found = shard->device->info(*shard, block, address, DeviceAllocator::Reach::kInside);
    return found.has_value();
  });
  return found;
}

std::pair<Address, uint64_t> NativeBackend::base_allocation(Address address) {
  if (uncached_.info(address)) throw_invalid_state(invalid_pointer(address).message());
  if (!find_block(address)) require_awake(address);
  const auto [shard, block] = shared_.find(address);
  if (!shard) throw invalid_pointer(address);
  return shard->device->base_allocation(*shard, block, address);
}

ContextId NativeBackend::context_of(Address address) {
  const auto [shard, block] = shared_.find(address);
  return shard ? shard->device->context_of(*shard, block, address) : kNoContext;
}

void NativeBackend::annotate(Address address, const std::string& text) {
  if (!find_block(address)) require_awake(address);
  const auto [shard, block] = shared_.find(address);
  if (!shard) throw_invalid_argument(annotation_error(address));
  shard->device->annotate(block, address, text);
}

uint64_t NativeBackend::live_blocks() {
  uint64_t live = uncached_.count();
  for (const auto& d : devices_) live += d->live_blocks();
  return live;
}

void NativeBackend::free_all() {
  for (const auto& d : devices_) d->free_all();
  uncached_.free_all();
}

// ---- The switch of the cache, settings

// A hit cannot run the auditor, so an allocator that audits every call has none.
void NativeBackend::set_caching_enabled(bool enabled) {
  caching_switch_.store(enabled);
  is_caching() && !audits_every_call_ ? hits_.open(devices_.size(), shared_.serving.is_on)
                                      : hits_.close();
}

// R73: before 2.13 only the switch is asked.
bool NativeBackend::is_caching_enabled() const {
  return caching_switch_ && (caching_from_start_ || !shared_.rules.captures_are_marked);
}

void NativeBackend::require_possible(const Settings& settings) const {
  if (settings.expandable_segments && !shared_.driver.supports_virtual_memory()) {
    throw_not_supported(std::string("expandable_segments needs virtual memory, which the driver ") +
                        shared_.driver.name() + " does not have");
  }
}

// ---- History and observers

// The history is taken first, so that a snapshot's own entry shows in later ones only [core 22.5].
Snapshot NativeBackend::snapshot(PoolId pool, bool with_history) {
  Snapshot snapshot;
  for (const auto& d : devices_) {
    snapshot.traces.push_back(with_history ? d->history() : std::vector<TraceEntry>{});
    d->add_to_snapshot(&snapshot, pool);
  }
  return snapshot;
}

// Of a call with an unknown name only the switch and the names before it have an effect, as in the
// reference [core 22.3].
void NativeBackend::record_history(const HistoryOptions& options) {
  std::string unknown;
  const uint32_t skipped = action_bits(options.skip_actions, shared_.rules, &unknown);
  for (const auto& d : devices_) {
    if (unknown.empty()) {
      d->record_history(options, skipped);
    } else {
      d->skip_actions(options.enabled, skipped);
    }
  }
  if (!unknown.empty()) throw_invalid_argument("Unknown TraceEntry action: " + unknown);
}

// Replaces the whole set, so that calls read it without this lock. A former set lives until its last
// reader is done.
template <typename Change>
void NativeBackend::change_observers(Change change, const LiveRowsObserver& live_rows) {
  std::shared_ptr<const ObserverSet> dropped;  // goes unlocked: its observers may call back
  std::lock_guard guard(observers_lock_);
  const std::shared_ptr<const ObserverSet> former = observers_;
  auto changed = std::make_shared<ObserverSet>(*former);
  change(*changed);
  dropped = changed;
  try {
    put_observers(std::move(changed), live_rows);
  } catch (...) {
    put_observers(former, {});
    throw;
  }
  dropped = former;
}

void NativeBackend::put_observers(std::shared_ptr<const ObserverSet> observers,
                                  const LiveRowsObserver& live_rows) {
  observers_ = std::move(observers);
  for (const auto& d : devices_) d->set_observers(observers_, live_rows);
}

template <typename Observer>
uint64_t NativeBackend::attach(Observers<Observer> ObserverSet::*kind, Observer observer,
                               const LiveRowsObserver& live_rows) {
  // One series of ids for all kinds, so that detach() needs no kind.
  const uint64_t id = ++last_observer_;
  change_observers([&](ObserverSet& set) { (set.*kind).emplace(id, std::move(observer)); },
                   live_rows);
  return id;
}

uint64_t NativeBackend::observe_trace(TraceObserver&& observer, const LiveRowsObserver& live_rows) {
  return attach(&ObserverSet::trace, std::move(observer), live_rows);
}

uint64_t NativeBackend::observe_out_of_memory(OutOfMemoryObserver&& observer) {
  return attach(&ObserverSet::out_of_memory, std::move(observer));
}

uint64_t NativeBackend::observe_rejection(RejectionObserver&& observer) {
  return attach(&ObserverSet::rejection, std::move(observer));
}

uint64_t NativeBackend::register_free_memory_callback(FreeMemoryCallback&& callback) {
  return attach(&ObserverSet::free_memory, std::move(callback));
}

void NativeBackend::detach(uint64_t id) {
  bool found = false;
  change_observers([&](ObserverSet& set) {
    found = set.trace.erase(id) + set.out_of_memory.erase(id) + set.rejection.erase(id) +
                set.free_memory.erase(id) !=
            0;
  });
  if (!found) Backend::detach(id);
}

// ---- What needs blocks that are the library's own

// A request of that size fails before it reaches a device [core 3.2]: no state explains it.
Report NativeBackend::report(const Request& request) {
  DeviceAllocator& asked = existing_device(request.device);
  if (request.size >= kTooLarge)
    throw_invalid_argument("requests of 2^60 bytes or more always fail");
  return asked.report(request);
}

void NativeBackend::pool_create(int device, PoolId id, PoolOptions&& options) {
  DevicePools(existing_device(device).state()).create(id, std::move(options));
}

void NativeBackend::pool_set_use_on_oom(int device, PoolId id, bool use) {
  DevicePools(existing_device(device).state()).set_use_on_oom(id, use);
}

void NativeBackend::pool_set_no_split(int device, PoolId id) {
  DevicePools(existing_device(device).state()).set_no_split(id);
}

void NativeBackend::pool_set_pinned(int device, PoolId id, bool is_pinned) {
  DevicePools(existing_device(device).state()).set_pinned(id, is_pinned);
}

void NativeBackend::pool_set_whole_blocks(int device, PoolId id) {
  DevicePools(existing_device(device).state()).set_whole_blocks(id);
}

void NativeBackend::pin(Address part, uint64_t size) {
  for (const auto& d : devices_)
    if (d->pin(part, size)) return;
  require_awake(part);
  throw_invalid_argument(format("%llu bytes at %s do not lie in one live block of the cache",
                                static_cast<unsigned long long>(size), hex_address(part).c_str()));
}

void NativeBackend::unpin(Address part, uint64_t size) {
  for (const auto& d : devices_)
    if (d->unpin(part, size)) return;
  throw_invalid_argument(format("%llu bytes at %s are not pinned",
                                static_cast<unsigned long long>(size), hex_address(part).c_str()));
}

int NativeBackend::pool_use_count(int device, PoolId id) {
  return DevicePools(existing_device(device).state()).use_count(id);
}

bool NativeBackend::pool_has_live(int device, PoolId id, const std::vector<Address>& addresses) {
  return DevicePools(existing_device(device).state()).has_live(id, addresses);
}

Checkpoint NativeBackend::checkpoint_take(int device, PoolId id) {
  return PoolCheckpoints(existing_device(device).state()).take(id);
}

CheckpointChanges NativeBackend::checkpoint_apply(int device, const Checkpoint& checkpoint) {
  return PoolCheckpoints(existing_device(device).state()).apply(checkpoint);
}

// The request names its pool, so that the device alone is looked up here.
uint64_t NativeBackend::pool_sleep(int device, const SleepRequest& request) {
  return PoolSleep(existing_device(device).state()).sleep(request);
}

void NativeBackend::pool_wake(int device, PoolId id, Stream stream) {
  PoolWake(existing_device(device).state(), id, stream).run();
}

void NativeBackend::pool_set_sleep_contents(int device, PoolId id, const std::string& label,
                                            SleepContents contents) {
  PoolSleep(existing_device(device).state()).set_contents(id, label, contents);
}

SleepStats NativeBackend::sleep_stats(int device, PoolId id) {
  return PoolSleep(existing_device(device).state()).stats(id);
}

std::vector<ExpandableSegmentRow> NativeBackend::expandable_segments(int device) {
  return existing_device(device).expandable_segments();
}

// All devices, since a tenant has the same slot on each.
void NativeBackend::start_tenants() {
  for (const auto& d : devices_) d->start_tenants();
}

// ---- The auditor

// What the first device with a finding says; empty: no device has one.
std::string NativeBackend::first_finding(std::string (DeviceAllocator::*look)()) {
  for (const auto& d : devices_) {
    if (std::string found = (*d.*look)(); !found.empty()) return found;
  }
  return "";
}

std::string NativeBackend::check() { return first_finding(&DeviceAllocator::check); }

std::string NativeBackend::check_red_zones() {
  return first_finding(&DeviceAllocator::check_red_zones);
}

}  // namespace cachalot
