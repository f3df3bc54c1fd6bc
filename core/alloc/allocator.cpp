// SPDX-License-Identifier: MIT OR Apache-2.0
#include "alloc/allocator.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <utility>

#include "alloc/async/async_backend.h"
#include "alloc/backend/shared_state.h"
#include "alloc/config/options.h"
#include "alloc/configuration.h"
#include "alloc/native/block_exchange.h"
#include "alloc/native/memory_sharing.h"
#include "alloc/native/native_backend.h"
#include "alloc/pinned/pinned_allocator.h"
#include "alloc/serving/serving_policy.h"
#include "alloc/tenants/tenants.h"
#include "base/text.h"
#include "device/device_count.h"

namespace cachalot {
namespace {

void require_pool_id(PoolId id) {
  if ((id.first == 0) == (id.second == 0)) {
    throw_invalid_argument(format(
        "(%llu, %llu) names no private pool: exactly one half must not be 0",
        static_cast<unsigned long long>(id.first), static_cast<unsigned long long>(id.second)));
  }
}

AllocatorOptions with_page_size(AllocatorOptions options) {
  if (!options.serving.is_on && options.serving.page_bytes == 0) return options;
  // The reference chooses the backend before it checks any option [opt 4.9].
  if (chooses_async_backend(options.config))
    throw_invalid_argument(
        "the serving policy and pages need a cache, and backend:cudaMallocAsync leaves it to the "
        "driver");
  options.serving = resolve_page_size(options.serving, *options.driver);
  return options;
}

MakeCachePolicy policy_of(const AllocatorOptions& options) {
  if (!options.serving.is_on) return {};
  return [](DeviceState& device) { return std::make_unique<ServingPolicy>(device); };
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
    // Ends the program where it stands: with a defect its state is worth a core file, not an error.
    std::fprintf(stderr, "cachalot: the auditor found a defect: %s\n", found.c_str());
    std::abort();
  }

  Allocator& allocator_;
};

Allocator::Allocator(const AllocatorOptions& options) : Allocator(options, policy_of(options)) {}

Allocator::Allocator(const AllocatorOptions& options, const MakePolicy& make_policy)
    : audits_(options.check_every_call),
      serves_tenants_uncached_(options.serves_tenants_uncached),
      driver_(options.driver),
      rules_(options.rules),
      contexts_(options.context_source),
      shared_(std::make_unique<SharedState>(with_page_size(options))) {
  Configuration::Unread unread;
  if (chooses_async_backend(options.config)) {
    backend_ = std::make_unique<AsyncBackend>(*shared_);
    unread = Configuration::unread(options.config);
  } else {
    backend_ = std::make_unique<NativeBackend>(*shared_, options, &hits_, make_policy);
  }
  if (MemorySharing* const sharing = backend_->find_sharing()) {
    exchange_ = std::make_shared<BlockExchange>(
        *driver_, *sharing, [this](Address address) { free_shared_block(address); });
  }
  configuration_ = std::make_unique<Configuration>(
      *shared_, *backend_, std::move(unread), [this](const Settings& changed) {
        if (pinned_) pinned_->set_settings(pinned_settings_of(changed));
      });
}

// An option that nothing used is likely a mistake, and says nothing anywhere else.
Allocator::~Allocator() {
  if (exchange_) exchange_->stop();  // its thread frees blocks
  if (pinned_ || !shared_->log.is_open()) return;
  try {
    const std::string unused = pinned_options_in(configuration_->settings());
    if (!unused.empty())
      shared_->log.advise(unused +
                          " had no effect: no pinned memory was allocated through this allocator");
  } catch (const std::exception&) {
    // A faulty string that was never read had no effect either, and says so when it is read.
  }
}

const char* Allocator::backend_name() const { return backend_->name(); }

const ServingOptions& Allocator::serving() const { return shared_->serving; }

DeviceBackend& Allocator::device(int index) const { return backend_->device(index); }

// ---- Blocks

// Only one handle means another stream on each thread, so the driver is asked for that one alone.
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
  require_device(request.device, device_count());
  const Audit audit(*this);
  if (request.at != 0 && !rules_.allocates_at_addresses)
    throw_not_supported("allocation at an address needs release 2.13 or newer");
  // Before any lock: such a request moves no counter and leaves no entry [core 3.2].
  if (request.size >= kTooLarge && request.at == 0) {
    OutOfMemory numbers;
    numbers.device = request.device;
    numbers.stream = request.stream;
    numbers.requested = request.size;
    throw Error(numbers, "CUDA out of memory. Tried to allocate more than 1EB memory.");
  }
  return backend_->allocate(request);
}

void Allocator::free(Address address) { free(address, {}); }

void Allocator::free(Address address, std::optional<Stream> current_stream) {
  // A free of nothing is no call: no event is looked at.
  if (address == 0) return;
  const Audit audit(*this);
  backend_->free(address, resolved(current_stream));
}

void Allocator::record_stream(Address address, Stream stream,
                              std::optional<Stream> current_stream) {
  const Audit audit(*this);
  backend_->record_stream(address, resolved(stream), resolved(current_stream));
}

BlockInfo Allocator::block(Address address) { return backend_->block(address); }

std::optional<BlockInfo> Allocator::find_block(Address address) {
  return backend_->find_block(address);
}

std::optional<BlockInfo> Allocator::find_block_around(Address address) {
  return backend_->find_block_around(address);
}

std::pair<Address, uint64_t> Allocator::base_allocation(Address address) {
  return backend_->base_allocation(address);
}

uint64_t Allocator::live_blocks() {
  PinnedAllocator* const pinned = pinned_if_used();
  return backend_->live_blocks() + (pinned != nullptr ? pinned->live_blocks() : 0);
}

void Allocator::free_all() {
  if (exchange_) {
    exchange_->stop();
    backend_->find_sharing()->opened().close_all();
  }
  backend_->free_all();  // first: pools that sleep have contents in pinned memory
  if (PinnedAllocator* const pinned = pinned_if_used()) pinned->free_all();
}

// ---- Pinned memory

void Allocator::require_host_memory() const {
  if (!driver_->has_host_memory())
    throw_not_supported(std::string("the driver '") + driver_->name() + "' has no pinned memory");
}

PinnedAllocator& Allocator::make_pinned() {
  require_host_memory();
  configuration_->look([this](const Settings& settings) {
    if (pinned_) return;
    pinned_ = std::make_unique<PinnedAllocator>(*driver_, rules_, shared_->log,
                                                pinned_settings_of(settings));
    used_pinned_.store(pinned_.get(), std::memory_order_release);
  });
  return *pinned_;
}

// ---- Memory between processes

MemorySharing& Allocator::sharing(const char* call) { return backend_->sharing(call); }

const std::shared_ptr<BlockExchange>& Allocator::exchange(const char* call) {
  backend_->sharing(call);
  return exchange_;
}

// On the thread of its owner, or of the server. A block that the driver does not take back is its caller's again.
void Allocator::free_shared_block(Address address) {
  try {
    if (backend_->sharing("shareIpcHandle").end_hold(address)) free(address);
  } catch (const std::exception& error) {
    shared_->log.advise("the shared block at " + hex_address(address) +
                        " was not freed: " + error.what());
  }
}

uint64_t Allocator::opened_count() {
  MemorySharing* const sharing = backend_->find_sharing();
  return sharing != nullptr ? sharing->opened().count() : 0;
}

// ---- The cache

void Allocator::empty_cache(int index, PoolId pool, std::optional<Stream> current_stream) {
  const Audit audit(*this);
  device(index).empty_cache(pool, resolved(current_stream));
}

uint64_t Allocator::largest_block(int index, uint64_t at_least, Stream current_stream) {
  return device(index).largest_block(at_least, resolved(current_stream));
}

void Allocator::trim(int index, const TrimGoal& goal, uint64_t* released) {
  const Audit audit(*this);
  device(index).trim(goal, released);
}

void Allocator::pin(Address address, uint64_t size) {
  if (size == 0) throw_invalid_argument("0 bytes cannot be pinned");
  backend_->pin(address, size);
}

void Allocator::unpin(Address address, uint64_t size) { backend_->unpin(address, size); }

void Allocator::stream_ended(int index, Stream stream) {
  if (stream == kAllStreams)
    throw_invalid_argument("CACHALOT_STREAM_ALL is no stream that can end");
  const Audit audit(*this);
  device(index).stream_ended(resolved(stream));
}

void Allocator::release_context(int index) {
  const Audit audit(*this);
  DeviceBackend& of = device(index);  // before anything changes
  if (PinnedAllocator* const pinned = pinned_if_used()) pinned->release_context(index);
  of.release_context();
}

void Allocator::set_caching_enabled(bool enabled) { backend_->set_caching_enabled(enabled); }

bool Allocator::is_caching_enabled() const { return backend_->is_caching_enabled(); }

// ---- Limits and settings

void Allocator::set_memory_fraction(int index, double fraction) {
  device(index).set_memory_fraction(fraction);
}

double Allocator::memory_fraction(int index) { return device(index).memory_fraction(); }

void Allocator::set_memory_limit(int index, uint64_t bytes) {
  device(index).set_memory_limit(bytes);
}

uint64_t Allocator::memory_limit(int index) { return device(index).memory_limit(); }

void Allocator::configure(const std::string& config) {
  const Audit audit(*this);
  configuration_->configure(config);
}

Settings Allocator::settings() { return configuration_->settings(); }

void Allocator::change_settings(const std::function<void(Settings&)>& change) {
  const Audit audit(*this);
  configuration_->change(change);
}

void Allocator::update_config(const std::string& config) {
  change_settings([&](Settings& changed) {
    update_options(config, rules_, &changed, shared_->settings.warnings());
  });
}

// ---- Statistics

Stats Allocator::stats(int index) { return device(index).stats(); }

PolicyStats Allocator::policy_stats(int index) { return device(index).policy_stats(); }

void Allocator::reset_peak_stats(int index) { device(index).reset_peak_stats(); }

void Allocator::reset_accumulated_stats(int index) { device(index).reset_accumulated_stats(); }

std::vector<std::pair<PoolId, StatArray>> Allocator::pool_stats(int index) {
  return device(index).pool_stats();
}

std::vector<std::pair<PoolId, StatArray>> Allocator::stats_of_existing_pools(int index) {
  return device(index).stats_of_existing_pools();
}

std::vector<LabelStats> Allocator::label_stats(int index) { return device(index).label_stats(); }

DeviceTotals Allocator::device_totals(int index) {
  DeviceTotals totals = device(index).totals();
  // 0 where the management library does not list this process.
  totals.used_by_process = bytes_by_process(*driver_, index)[static_cast<uint64_t>(getpid())];
  return totals;
}

DeviceUse Allocator::device_use(int index) {
  DeviceBackend& asked = device(index);
  DeviceUse use;
  try {
    use.totals = asked.totals();
  } catch (const Error&) {
    // A driver that does not tell its memory may still tell its processes.
  }
  use.processes = bytes_by_process(*driver_, index);
  use.identity = driver_->identity(index);
  return use;
}

// The settings are those of a later moment than the blocks: no rule links the two.
Snapshot Allocator::snapshot(PoolId pool, bool with_history) {
  const Audit audit(*this);
  Snapshot snapshot = backend_->snapshot(pool, with_history);
  snapshot.settings = settings();
  snapshot.release = rules_.release;
  return snapshot;
}

Report Allocator::report(const Request& asked) {
  const Audit audit(*this);
  Request request = asked;
  request.stream = request.current_stream = resolved(asked.stream);
  return backend_->report(request);
}

// ---- History and observers

void Allocator::record_history(const HistoryOptions& options) { backend_->record_history(options); }

ContextId Allocator::context_of(Address address) {
  if (!rules_.has_context_of)
    throw_not_supported("the context of an address needs release 2.12 or newer");
  return backend_->context_of(address);
}

void Allocator::annotate(Address address, const std::string& text) {
  if (!rules_.has_annotations) throw_not_supported("annotations need release 2.14 or newer");
  backend_->annotate(address, text);
}

uint64_t Allocator::observe_trace(TraceObserver observer, const LiveRowsObserver& live_rows) {
  return backend_->observe_trace(std::move(observer), live_rows);
}

uint64_t Allocator::observe_out_of_memory(OutOfMemoryObserver observer) {
  return backend_->observe_out_of_memory(std::move(observer));
}

uint64_t Allocator::observe_rejection(RejectionObserver observer) {
  return backend_->observe_rejection(std::move(observer));
}

uint64_t Allocator::register_free_memory_callback(FreeMemoryCallback callback) {
  return backend_->register_free_memory_callback(std::move(callback));
}

void Allocator::detach(uint64_t id) { backend_->detach(id); }

// ---- Pools

PoolId Allocator::new_pool_id(bool for_graph) {
  return for_graph ? PoolId{++last_graph_pool_, 0} : PoolId{0, ++last_user_pool_};
}

// (0, 0) names the default pools, which no caller creates.
void Allocator::pool_create(int index, PoolId id, PoolOptions options) {
  require_pool_id(id);
  const Audit audit(*this);
  backend_->pool_create(index, id, std::move(options));
}

void Allocator::pool_begin(int index, PoolId id, PoolFilter filter) {
  require_pool_id(id);
  const Audit audit(*this);
  device(index).pool_begin(id, std::move(filter));
}

void Allocator::pool_end(int index, PoolId id, std::optional<Stream> current_stream) {
  const Audit audit(*this);
  device(index).pool_end(id, resolved(current_stream));
}

void Allocator::pool_release(int index, PoolId id) { device(index).pool_release(id); }

void Allocator::pool_set_use_on_oom(int index, PoolId id, bool use) {
  backend_->pool_set_use_on_oom(index, id, use);
}

void Allocator::pool_set_no_split(int index, PoolId id) { backend_->pool_set_no_split(index, id); }

void Allocator::pool_set_pinned(int index, PoolId id, bool pinned) {
  backend_->pool_set_pinned(index, id, pinned);
}

void Allocator::pool_set_whole_blocks(int index, PoolId id) {
  backend_->pool_set_whole_blocks(index, id);
}

int Allocator::pool_use_count(int index, PoolId id) { return backend_->pool_use_count(index, id); }

Checkpoint Allocator::checkpoint_take(int index, PoolId id) {
  return backend_->checkpoint_take(index, id);
}

CheckpointChanges Allocator::checkpoint_apply(int index, const Checkpoint& checkpoint) {
  return backend_->checkpoint_apply(index, checkpoint);
}

// Streams are resolved here, as for every call: the backend knows numbers that mean the same on each thread.
uint64_t Allocator::pool_sleep(int index, const SleepRequest& asked) {
  const Audit audit(*this);
  if (asked.stream == kAllStreams) throw_invalid_argument("a pool falls asleep on one stream");
  SleepRequest request = asked;
  request.stream = resolved(asked.stream);
  return backend_->pool_sleep(index, request);
}

// A wake that fails may be tried again, also by another thread.
void Allocator::pool_wake(int index, PoolId id, Stream stream) {
  const Audit audit(*this);
  if (stream == kAllStreams) throw_invalid_argument("a pool wakes on one stream");
  backend_->pool_wake(index, id, resolved(stream));
}

void Allocator::pool_set_sleep_contents(int index, PoolId id, const std::string& label,
                                        SleepContents contents) {
  backend_->pool_set_sleep_contents(index, id, label, contents);
}

SleepStats Allocator::sleep_stats(int index, PoolId id) {
  require_device(index, device_count());
  return backend_->sleep_stats(index, id);
}

bool Allocator::pool_has_live(int index, PoolId id, const std::vector<Address>& addresses) {
  return backend_->pool_has_live(index, id, addresses);
}

void Allocator::capture_begin(int index) { device(index).capture_begin(); }

void Allocator::capture_end(int index) { device(index).capture_end(); }

// ---- Tenants

const std::shared_ptr<Tenants>& Allocator::tenants() const { return shared_->tenants; }

std::shared_ptr<Tenant> Allocator::tenant_create(TenantOptions options) {
  // First, so that all live blocks are counted for the default tenant before another one exists.
  backend_->start_tenants();
  return shared_->tenants->create(std::move(options));
}

void Allocator::require_own(const Tenant& tenant) const {
  if (tenant.owner != shared_->tenants.get())
    throw_invalid_argument("tenant '" + tenant.name + "' is of another allocator");
}

void Allocator::tenant_set_sleep(const Tenant& tenant, int index, PoolId id,
                                 std::function<uint64_t()> fall_asleep) {
  require_own(tenant);
  require_device(index, device_count());
  shared_->tenants->set_sleep(tenant, index, id, std::move(fall_asleep));
}

Address Allocator::allocate_for(const Tenant& tenant, uint64_t size, int index, Stream stream) {
  require_own(tenant);
  // A block that the cache does not have would be missing from the tenant's ledger.
  if (!backend_->is_caching() && !serves_tenants_uncached_)
    throw_invalid_state("caching is off: only blocks of the cache count for tenants");
  return allocate({size, index, stream, stream, 0, tenant.slot});
}

// ---- Devices and expandable segments

// Asks the peer's device, since the access is to the peer's memory.
void Allocator::enable_peer_access(int index, int peer) {
  require_device(index, device_count());
  device(peer).give_peer_access(index);
}

// Expandable memory can only be reached by devices that were given access. The driver finds a way for all
// other memory.
bool Allocator::needs_peer_copy(int to_device, int from_device) {
  if (to_device == from_device || device(from_device).gives_access_to(to_device)) return false;
  return device(to_device).has_expandable_segments() ||
         device(from_device).has_expandable_segments();
}

void Allocator::copy(Address to, int to_device, Address from, int from_device, uint64_t size,
                     Stream stream) {
  require_device(to_device, device_count());
  require_device(from_device, device_count());
  if (stream == kAllStreams) throw_invalid_argument("a copy is queued on one stream");
  MemoryCopies* const copies = driver_->copies();
  if (copies == nullptr)
    throw_not_supported(std::string("the driver '") + driver_->name() + "' has no copies");
  if (size == 0) return;
  if (to == 0 || from == 0) throw_invalid_argument(to == 0 ? "to is 0" : "from is 0");
  stream = resolved(stream);
  const DriverCode code = needs_peer_copy(to_device, from_device)
                              ? copies->copy_peer(to_device, to, from_device, from, size, stream)
                              : copies->copy(to_device, to, from, size, stream);
  if (code != kSuccess) throw runtime_error(*driver_, code);
}

std::vector<ExpandableSegmentRow> Allocator::expandable_segments(int index) {
  return backend_->expandable_segments(index);
}

std::pair<uint64_t, uint64_t> Allocator::expandable_totals() {
  std::pair<uint64_t, uint64_t> totals{0, 0};
  for (int i = 0; i < device_count(); i++) {
    const auto [bytes, count] = device(i).expandable_totals();
    totals.first += bytes;
    totals.second += count;
  }
  if (MemorySharing* const sharing = backend_->find_sharing()) {
    const auto [bytes, count] = sharing->opened().expandable_totals();
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
  shared_->reserve_classes.set(resolved(stream), name);
}

std::string Allocator::reserve_class(Stream stream) {
  require_reserves();
  return shared_->reserve_classes.of(resolved(stream));
}

void Allocator::set_default_reserve(const std::string& name, double fraction) {
  require_reserves();
  if (name.empty()) throw_invalid_argument("the name of a reserve class is empty");
  if (!(fraction > 0) || fraction > 1e18)
    throw_invalid_argument(format("invalid reserve fraction: %g", fraction));
  configuration_->set_default_reserve(name, fraction);
}

ReserveDecision Allocator::reserve(int index, const std::string& name) {
  require_reserves();
  const uint64_t total = device_totals(index).total;
  return decide_reserve(settings(), name, total);
}

// ---- The auditor

std::string Allocator::check() {
  std::string found = backend_->check();
  PinnedAllocator* const pinned = pinned_if_used();
  return found.empty() && pinned != nullptr ? pinned->check() : found;
}

std::string Allocator::check_red_zones() { return backend_->check_red_zones(); }

}  // namespace cachalot
