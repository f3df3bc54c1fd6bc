// SPDX-License-Identifier: MIT OR Apache-2.0
#include "alloc/allocator.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <utility>

#include "alloc/async_allocator.h"
#include "alloc/hot_path.h"
#include "alloc/tenants.h"
#include "alloc/uncached_blocks.h"
#include "base/assert.h"
#include "base/text.h"

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

// Runs the auditor when a call ends, also by an error, where the options ask for it.
class Allocator::Audit {
 public:
  explicit Audit(Allocator& allocator) : allocator_(allocator) {}
  ~Audit() {
    if (allocator_.audits_) look();
  }
  Audit(const Audit&) = delete;
  Audit& operator=(const Audit&) = delete;

 private:
  [[gnu::noinline]] void look() {
    const std::string found = allocator_.check();
    if (found.empty()) return;
    std::fprintf(stderr, "cachalot: the auditor found a defect: %s\n", found.c_str());
    std::abort();
  }

  Allocator& allocator_;
};

Allocator::Allocator(const AllocatorOptions& options)
    : driver_(options.driver),
      rules_(options.rules),
      contexts_(options.context_source),
      shared_(std::make_unique<SharedState>(options)),
      uncached_(std::make_unique<UncachedBlocks>(*driver_)),
      caching_from_start_(options.caching),
      audits_(options.check_every_call),
      observers_(std::make_shared<const ObserverSet>()) {
  if (chooses_async_backend(options.config)) {
    if (!driver_->supports_memory_pools()) {
      throw_not_supported(
          std::string("backend:cudaMallocAsync needs stream-ordered memory, which the driver ") +
          driver_->name() + " does not have");
    }
    if (options.debug.any())
      throw_not_supported("backend:cudaMallocAsync has no blocks of ours to watch: no debugging");
    shared_->settings.is_backend_async = true;
    for (const OptionPart part : {OptionPart::kGeneric, OptionPart::kCuda})
      unread_options_[part] = options.config;
    async_ = std::make_unique<AsyncAllocator>(*shared_);
    return;
  }
  apply_options(options.config, OptionMoment::kCreation, rules_, &shared_->settings,
                [this](const std::string& text) { shared_->warn_of_options(text); });
  require_virtual_memory(shared_->settings);
  {
    const std::lock_guard guard(shared_->settings_lock);
    shared_->advise_of(shared_->settings);
  }
  for (int i = 0; i < driver_->device_count(); i++) {
    devices_.push_back(std::make_unique<DeviceAllocator>(*shared_, i));
  }
  set_caching_enabled(true);
}

Allocator::~Allocator() = default;

void Allocator::require_device(int index) const {
  if (index < 0 || index >= device_count()) [[unlikely]] {
    throw_invalid_argument(
        format("device %d does not exist; the driver has %d", index, device_count()));
  }
}

DeviceAllocator& Allocator::device(int index) const {
  CACHALOT_ASSERT(1, !async_);
  require_device(index);
  return *devices_[static_cast<size_t>(index)];
}

void Allocator::require_native(const char* call) const {
  if (!async_) return;
  throw_not_supported(std::string("cudaMallocAsync does not yet support ") + call +
                      ". If you need it, please file an issue describing your use case.");
}

void Allocator::require_virtual_memory(const Settings& settings) const {
  if (settings.expandable_segments && !async_ && !driver_->supports_virtual_memory()) {
    throw_not_supported(std::string("expandable_segments needs virtual memory, which the driver ") +
                        driver_->name() + " does not have");
  }
}

// ---- Blocks

// Without a call where the handle means the same on each thread.
inline Stream Allocator::resolved(Stream stream) const {
  if (stream != kPerThreadStream) [[likely]]
    return stream;
  return driver_->resolve(stream);
}

inline std::optional<Stream> Allocator::resolved(std::optional<Stream> stream) const {
  if (stream) stream = resolved(*stream);
  return stream;
}

Address Allocator::allocate(uint64_t size, int index, Stream stream) {
  return allocate({size, index, stream, stream});
}

Address Allocator::allocate(const Request& asked) {
  Request request = asked;
  request.stream = resolved(asked.stream);
  request.current_stream = resolved(asked.current_stream);
  require_device(request.device);
  const Audit audit(*this);
  if (request.at != 0) require_exact_address(request);
  if (request.size >= kTooLarge && request.at == 0) {
    OutOfMemory numbers;
    numbers.device = request.device;
    numbers.stream = request.stream;
    numbers.requested = request.size;
    throw Error(numbers, "CUDA out of memory. Tried to allocate more than 1EB memory.");
  }
  if (async_) return async_->allocate(request);
  if (!is_caching()) return uncached_->allocate(request);
  if (request.size == 0) return 0;
  return device(request.device).allocate(request);
}

// R50.
void Allocator::require_exact_address(const Request& request) const {
  if (!rules_.allocates_at_addresses)
    throw_not_supported("allocation at an address needs release 2.13 or newer");
  require_native("allocateWithAddress");
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

void Allocator::free(Address address) { free(address, {}); }

void Allocator::free(Address address, std::optional<Stream> current_stream) {
  if (address == 0) return;
  const Audit audit(*this);
  if (async_) return async_->free(address);
  const auto [shard, block] = find(address);
  if (shard && shard->device->free(*shard, block, address, resolved(current_stream))) return;
  if (!uncached_->free(address)) throw invalid_pointer(address);
}

void Allocator::record_stream(Address address, Stream stream,
                              std::optional<Stream> current_stream) {
  if (async_) return async_->record_stream(address, resolved(stream));
  const auto [shard, block] = find(address);
  if (!shard) return;
  const Audit audit(*this);
  shard->device->record_stream(*shard, block, address, resolved(stream), resolved(current_stream));
}

BlockInfo Allocator::block(Address address) {
  if (async_) return async_->block(address);
  if (const auto info = uncached_->info(address)) return *info;
  const auto [shard, block] = find(address);
  if (shard) {
    if (const auto info = shard->device->info(*shard, block, address)) return *info;
  }
  throw invalid_pointer(address);
}

std::pair<Address, uint64_t> Allocator::base_allocation(Address address) {
  if (async_) return {address, async_->block(address).size};
  if (uncached_->info(address)) throw_invalid_state(invalid_pointer(address).message());
  const auto [shard, block] = find(address);
  if (!shard) throw invalid_pointer(address);
  return shard->device->base_allocation(*shard, block, address);
}

uint64_t Allocator::live_blocks() {
  uint64_t live = async_ ? async_->live_blocks() : uncached_->count();
  for (const auto& d : devices_) live += d->live_blocks();
  return live;
}

void Allocator::free_all() {
  if (async_) async_->free_all();
  for (const auto& d : devices_) d->free_all();
  uncached_->free_all();
}

void Allocator::empty_cache(int index, PoolId pool, std::optional<Stream> current_stream) {
  const Audit audit(*this);
  require_device(index);
  if (async_) return async_->empty_cache(index);
  device(index).empty_cache(pool, resolved(current_stream));
}

uint64_t Allocator::largest_block(int index, uint64_t at_least, Stream current_stream) {
  require_device(index);
  return async_ ? async_->largest_block(index, resolved(current_stream))
                : device(index).largest_block(at_least);
}

void Allocator::trim(int index, const TrimGoal& goal, uint64_t* released) {
  const Audit audit(*this);
  require_device(index);
  async_ ? async_->trim(index, goal, released) : device(index).trim(goal, released);
}

void Allocator::set_caching_enabled(bool enabled) {
  caching_switch_.store(enabled);
  devices_with_hits_.store(is_caching() && !audits_ ? static_cast<uint32_t>(devices_.size()) : 0);
}

// R73: before 2.13 only the switch is asked.
bool Allocator::is_caching_enabled() const {
  if (async_) return true;
  return caching_switch_ && (caching_from_start_ || !rules_.captures_are_marked);
}

// ---- Limits and settings

void Allocator::set_memory_fraction(int index, double fraction) {
  require_device(index);
  async_ ? async_->set_memory_fraction(index, fraction)
         : device(index).set_memory_fraction(fraction);
}

double Allocator::memory_fraction(int index) {
  require_device(index);
  return async_ ? async_->memory_fraction(index) : device(index).memory_fraction();
}

void Allocator::set_memory_limit(int index, uint64_t bytes) {
  require_device(index);
  async_ ? async_->set_memory_limit(index, bytes) : device(index).set_memory_limit(bytes);
}

uint64_t Allocator::memory_limit(int index) {
  require_device(index);
  return async_ ? async_->memory_limit(index) : device(index).memory_limit();
}

// One that is faulty stays unread.
void Allocator::read_unread_options(OptionPart part, UnreadOptions* unread, Settings* settings) {
  const auto found = unread->find(part);
  if (found == unread->end()) return;
  apply_option_part(found->second, part, rules_, settings,
                    [this](const std::string& text) { shared_->warn_of_options(text); });
  unread->erase(found);
}

// All or nothing: what can fail comes first.
void Allocator::commit(Settings changed, UnreadOptions unread) {
  shared_->settings_lock.assert_held();
  std::vector<Settings> copies(devices_.size(), changed);
  shared_->advise_of(changed);
  shared_->settings = std::move(changed);
  unread_options_ = std::move(unread);
  for (size_t i = 0; i < devices_.size(); i++) devices_[i]->set_settings(std::move(copies[i]));
}

// What stands before an error has been applied, as in the reference (1.10).
void Allocator::configure(const std::string& config) {
  const Audit audit(*this);
  std::lock_guard guard(shared_->settings_lock);
  Settings changed = shared_->settings;
  UnreadOptions unread = unread_options_;
  try {
    for (const OptionPart part : {OptionPart::kGeneric, OptionPart::kCuda}) {
      read_unread_options(part, &unread, &changed);
      apply_option_part(config, part, rules_, &changed,
                        [this](const std::string& text) { shared_->warn_of_options(text); });
    }
    require_virtual_memory(changed);
  } catch (const Error&) {
    if (!driver_->supports_virtual_memory())
      changed.expandable_segments = shared_->settings.expandable_segments;
    commit(std::move(changed), std::move(unread));
    throw;
  }
  commit(std::move(changed), std::move(unread));
}

Settings Allocator::settings() {
  std::lock_guard guard(shared_->settings_lock);
  for (const OptionPart part : {OptionPart::kGeneric, OptionPart::kCuda})
    read_unread_options(part, &unread_options_, &shared_->settings);
  return shared_->settings;
}

void Allocator::change_settings(const std::function<void(Settings&)>& change) {
  const Audit audit(*this);
  std::lock_guard guard(shared_->settings_lock);
  Settings changed = shared_->settings;
  UnreadOptions unread = unread_options_;
  for (const OptionPart part : {OptionPart::kGeneric, OptionPart::kCuda})
    read_unread_options(part, &unread, &changed);
  change(changed);
  check_settings(changed, rules_);
  require_virtual_memory(changed);
  commit(std::move(changed), std::move(unread));
}

void Allocator::update_config(const std::string& config) {
  change_settings([&](Settings& changed) {
    update_options(config, rules_, &changed,
                   [this](const std::string& text) { shared_->warn_of_options(text); });
  });
}

// ---- Statistics

Stats Allocator::stats(int index) {
  require_device(index);
  return async_ ? async_->stats(index) : device(index).stats();
}

void Allocator::reset_peak_stats(int index) {
  require_device(index);
  async_ ? async_->reset_peak_stats(index) : device(index).reset_peak_stats();
}

void Allocator::reset_accumulated_stats(int index) {
  require_device(index);
  async_ ? async_->reset_accumulated_stats() : device(index).reset_accumulated_stats();
}

std::vector<std::pair<PoolId, StatArray>> Allocator::pool_stats(int index) {
  require_device(index);
  if (async_) return {};
  return device(index).pool_stats();
}

std::vector<std::pair<PoolId, StatArray>> Allocator::stats_of_existing_pools(int index) {
  require_device(index);
  if (async_) return {};
  return device(index).stats_of_existing_pools();
}

std::vector<LabelStats> Allocator::label_stats(int index) {
  require_device(index);
  if (async_) return {};
  return device(index).label_stats();
}

// All but what belongs to this process.
DeviceTotals Allocator::memory_totals(int index) {
  return async_ ? async_->totals(index) : device(index).totals();
}

DeviceTotals Allocator::device_totals(int index) {
  require_device(index);
  DeviceTotals totals = memory_totals(index);
  totals.used_by_process = bytes_by_process(*driver_, index)[static_cast<uint64_t>(getpid())];
  return totals;
}

DeviceUse Allocator::device_use(int index) {
  require_device(index);
  DeviceUse use;
  try {
    use.totals = memory_totals(index);
  } catch (const Error&) {
    // It does not tell.
  }
  use.processes = bytes_by_process(*driver_, index);
  return use;
}

// The history is taken first, so that a snapshot's own entry shows in later ones only (22.5).
Snapshot Allocator::snapshot(PoolId pool, bool with_history) {
  if (async_) {
    throw_not_supported(
        "Calling snapshot with backend:cudaMallocAsync is not meaningful. (For backend:native, "
        "snapshot returns a detailed summary of all blocks tracked by the allocator, but the "
        "cudaMallocAsync backend does not track individual blocks.)");
  }
  const Audit audit(*this);
  Snapshot snapshot;
  snapshot.settings = settings();
  snapshot.release = rules_.release;
  for (const auto& d : devices_) {
    snapshot.traces.push_back(with_history ? d->history() : std::vector<TraceEntry>{});
    d->add_to_snapshot(&snapshot, pool);
  }
  return snapshot;
}

Report Allocator::report(const Request& asked) {
  if (async_) {
    throw_not_supported(
        "there are no reports with backend:cudaMallocAsync: the driver's pool keeps its blocks to "
        "itself");
  }
  require_device(asked.device);
  if (asked.size >= kTooLarge) throw_invalid_argument("requests of 2^60 bytes or more always fail");
  const Audit audit(*this);
  Request request = asked;
  request.stream = request.current_stream = resolved(asked.stream);
  return device(request.device).report(request);
}

// ---- History and observers

// An unknown name: only the switch and the names before it have an effect, as in the reference
// (22.3).
void Allocator::record_history(const HistoryOptions& options) {
  require_native("recordHistory");
  std::string unknown;
  const uint32_t skipped = action_bits(options.skip_actions, rules_, &unknown);
  for (const auto& d : devices_) {
    if (unknown.empty()) {
      d->record_history(options, skipped);
    } else {
      d->skip_actions(options.enabled, skipped);
    }
  }
  if (!unknown.empty()) throw_invalid_argument("Unknown TraceEntry action: " + unknown);
}

ContextId Allocator::context_of(Address address) {
  if (!rules_.has_context_of)
    throw_not_supported("the context of an address needs release 2.12 or newer");
  const auto [shard, block] = find(address);
  return shard ? shard->device->context_of(*shard, block, address) : kNoContext;
}

void Allocator::annotate(Address address, const std::string& text) {
  if (!rules_.has_annotations) throw_not_supported("annotations need release 2.14 or newer");
  if (async_) return async_->warn_of_annotation();
  const auto [shard, block] = find(address);
  if (!shard) throw_invalid_argument(annotation_error(address));
  shard->device->annotate(block, address, text);
}

// Devices hold the set that is in force; one that is replaced lives until its last reader is done.
template <typename Change>
void Allocator::change_observers(Change change) {
  std::shared_ptr<const ObserverSet> former;
  {
    std::lock_guard guard(observers_lock_);
    auto changed = std::make_shared<ObserverSet>(*observers_);
    change(*changed);
    former = std::exchange(observers_, std::move(changed));
    for (const auto& d : devices_) d->set_observers(observers_);
  }
}

uint64_t Allocator::observe_trace(TraceObserver observer) {
  require_native("attachAllocatorTraceTracker");
  const uint64_t id = ++last_observer_;
  change_observers([&](ObserverSet& set) { set.trace.emplace(id, std::move(observer)); });
  return id;
}

uint64_t Allocator::observe_out_of_memory(OutOfMemoryObserver observer) {
  require_native("attachOutOfMemoryObserver");
  const uint64_t id = ++last_observer_;
  change_observers([&](ObserverSet& set) { set.out_of_memory.emplace(id, std::move(observer)); });
  return id;
}

uint64_t Allocator::observe_rejection(RejectionObserver observer) {
  require_native("attachOomRejectionObserver");
  const uint64_t id = ++last_observer_;
  change_observers([&](ObserverSet& set) { set.rejection.emplace(id, std::move(observer)); });
  return id;
}

uint64_t Allocator::register_free_memory_callback(FreeMemoryCallback callback) {
  if (async_) throw_not_supported("backend:cudaMallocAsync never calls free-memory callbacks");
  const uint64_t id = ++last_observer_;
  change_observers([&](ObserverSet& set) { set.free_memory.emplace(id, std::move(callback)); });
  return id;
}

void Allocator::detach(uint64_t id) {
  bool found = false;
  change_observers([&](ObserverSet& set) {
    found = set.trace.erase(id) + set.out_of_memory.erase(id) + set.rejection.erase(id) +
                set.free_memory.erase(id) !=
            0;
  });
  if (!found)
    throw_invalid_argument(
        format("no observer has the id %llu", static_cast<unsigned long long>(id)));
}

// ---- Pools

PoolId Allocator::new_pool_id(bool for_graph) {
  return for_graph ? PoolId{++last_graph_pool_, 0} : PoolId{0, ++last_user_pool_};
}

void Allocator::require_pool_id(PoolId id) {
  if ((id.first == 0) == (id.second == 0)) {
    throw_invalid_argument(format(
        "(%llu, %llu) names no private pool: exactly one half must not be 0",
        static_cast<unsigned long long>(id.first), static_cast<unsigned long long>(id.second)));
  }
}

void Allocator::pool_create(int index, PoolId id, PoolOptions options) {
  require_pool_id(id);
  require_native("createOrIncrefPool");
  const Audit audit(*this);
  device(index).pool_create(id, std::move(options));
}

void Allocator::pool_begin(int index, PoolId id, PoolFilter filter) {
  require_pool_id(id);
  require_device(index);
  const Audit audit(*this);
  if (async_) return async_->capture_begin();
  device(index).pool_begin(id, std::move(filter));
}

void Allocator::pool_end(int index, PoolId id, std::optional<Stream> current_stream) {
  require_device(index);
  const Audit audit(*this);
  if (async_) return async_->capture_end(current_stream);
  device(index).pool_end(id);
}

void Allocator::pool_release(int index, PoolId id) {
  require_device(index);
  if (!async_) device(index).pool_release(id);
}

void Allocator::pool_set_use_on_oom(int index, PoolId id, bool use) {
  require_native("setUseOnOOM");
  device(index).pool_set_use_on_oom(id, use);
}

void Allocator::pool_set_no_split(int index, PoolId id) {
  require_native("setNoSplit");
  device(index).pool_set_no_split(id);
}

int Allocator::pool_use_count(int index, PoolId id) {
  require_native("getPoolUseCount");
  return device(index).pool_use_count(id);
}

bool Allocator::pool_has_live(int index, PoolId id, const std::vector<Address>& addresses) {
  require_native("checkPoolLiveAllocations");
  return device(index).pool_has_live(id, addresses);
}

// Under backend:cudaMallocAsync the routing is the capture.
void Allocator::capture_begin(int index) {
  require_device(index);
  if (!async_) device(index).capture_begin();
}

void Allocator::capture_end(int index) {
  require_device(index);
  if (!async_) device(index).capture_end();
}

// ---- Tenants

const std::shared_ptr<Tenants>& Allocator::tenants() const { return shared_->tenants; }

std::shared_ptr<Tenant> Allocator::tenant_create(TenantOptions options) {
  if (async_)
    throw_not_supported("backend:cudaMallocAsync has no blocks of ours to count: no tenants");
  for (const auto& d : devices_) d->start_tenants();
  return shared_->tenants->create(std::move(options));
}

Address Allocator::allocate_for(const Tenant& tenant, uint64_t size, int index, Stream stream) {
  if (tenant.owner != shared_->tenants.get())
    throw_invalid_argument("tenant '" + tenant.name + "' is of another allocator");
  if (!is_caching())
    throw_invalid_state("caching is off: only blocks of the cache count for tenants");
  return allocate({size, index, stream, stream, 0, tenant.slot});
}

// ---- Devices and expandable segments

void Allocator::enable_peer_access(int index, int peer) {
  require_device(index);
  require_device(peer);
  async_ ? async_->enable_peer_access(index, peer) : device(peer).give_peer_access(index);
}

std::vector<ExpandableSegmentRow> Allocator::expandable_segments(int index) {
  if (async_) {
    throw_not_supported("CUDAMallocAsyncAllocator does not yet support getExpandableSegmentSizes.");
  }
  return device(index).expandable_segments();
}

std::pair<uint64_t, uint64_t> Allocator::expandable_totals() {
  std::pair<uint64_t, uint64_t> totals{0, 0};
  for (const auto& d : devices_) {
    const auto [bytes, count] = d->expandable_totals();
    totals.first += bytes;
    totals.second += count;
  }
  return totals;
}

void Allocator::require_reserves() const {
  if (!rules_.has_reserves)
    throw_not_supported("expandable-segment reserves need release 2.15 or newer");
}

void Allocator::set_reserve_class(Stream stream, const std::string& name) {
  require_reserves();
  shared_->set_reserve_class(resolved(stream), name);
}

std::string Allocator::reserve_class(Stream stream) {
  require_reserves();
  return shared_->reserve_class(resolved(stream));
}

// R67: an option that says something of the class, or of all, goes before a default.
void Allocator::set_default_reserve(const std::string& name, double fraction) {
  require_reserves();
  if (name.empty()) throw_invalid_argument("the name of a reserve class is empty");
  if (!(fraction > 0) || fraction > 1e18)
    throw_invalid_argument(format("invalid reserve fraction: %g", fraction));
  std::lock_guard guard(shared_->settings_lock);
  Settings changed = shared_->settings;
  UnreadOptions unread = unread_options_;
  read_unread_options(OptionPart::kCuda, &unread, &changed);
  if (!changed.expandable_segments_reserve)
    changed.expandable_segments_reserve_by_class.try_emplace(name, Reserve{true, fraction});
  commit(std::move(changed), std::move(unread));
}

ReserveDecision Allocator::reserve(int index, const std::string& name) {
  require_reserves();
  const uint64_t total = device_totals(index).total;
  return decide_reserve(settings(), name, total);
}

std::string Allocator::check() {
  if (async_) return async_->check();
  for (const auto& d : devices_) {
    if (std::string found = d->check(); !found.empty()) return found;
  }
  return "";
}

std::string Allocator::check_red_zones() {
  for (const auto& d : devices_) {
    if (std::string found = d->check_red_zones(); !found.empty()) return found;
  }
  return "";
}

}  // namespace cachalot
