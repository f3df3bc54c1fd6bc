// SPDX-License-Identifier: MIT OR Apache-2.0
#include "served_context.h"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "../src/core_of.h"
#include "../src/metrics_of.h"
#include "alloc/allocator.h"
#include "alloc/native/hot_path.h"
#include "alloc/tenants/tenants.h"
#include "base/error.h"
#include "captures.h"
#include "device/cuda_driver.h"
#include "device_wait.h"
#include "plain_lookup.h"
#include "real_driver.h"

namespace cachalot::proxy {
namespace {

constexpr uint64_t kLeastLeash = uint64_t{64} << 20;

// What differs from PyTorch is nothing that the program's user asked about.
void log(void*, int32_t level, const char* message) {
  if (level != CACHALOT_LOG_DIFFERENCE) std::fprintf(stderr, "cachalot: %s\n", message);
}

// The program holds the context, and ends it.
std::shared_ptr<Driver> make_driver(const DriverContext& context) {
  const PlainLookup plain;
  const cuda::GivenContext given{context.device, context.handle};
  return std::make_shared<CudaDriver>(CudaOptions{.library = kRealDriver, .context = given});
}

OwnedAllocator make_allocator(const std::shared_ptr<Driver>& driver) {
  cachalot_driver* const handle = capi::give_to_caller(capi::new_driver(driver));
  cachalot_allocator_options options{};
  options.struct_size = sizeof options;
  options.driver = handle;
  // PyTorch's own variables are for its own cache, which the program may have or not.
  const std::string config = environment_text("CACHALOT_ALLOC_CONF");
  options.config = config.c_str();
  options.no_caching = -1;
  options.release = CACHALOT_RELEASE_2_15;  // it knows marks of captures
  options.log = log;
  cachalot_allocator* allocator = nullptr;
  cachalot_error error = CACHALOT_ERROR_INIT;
  const cachalot_status status = cachalot_allocator_create(&options, &allocator, &error);
  cachalot_driver_destroy(handle);
  if (status != CACHALOT_OK) throw std::runtime_error(error.message);
  return OwnedAllocator(allocator);
}

// Without a text until a call fails: to clear that would take longer than the call.
struct CallError : cachalot_error {
  CallError() { struct_size = sizeof(cachalot_error); }
};

Result code_of(cachalot_status status, const cachalot_error& error) {
  if (status == CACHALOT_OK) return 0;
  if (status == CACHALOT_ERROR_DRIVER && error.driver_code != 0) return error.driver_code;
  return kDriverOutOfMemory;
}

}  // namespace

ServedContext::ServedContext(DriverContext* context, const RunOptions& options, size_t captures)
    : context_(context),
      options_(options),
      driver_(make_driver(*context)),
      allocator_(make_allocator(driver_)),
      fills_blocks_(!environment_text("CACHALOT_DEBUG").empty()),
      freed_(context,
             [this](Address address) { cachalot_free(allocator_.get(), address, nullptr); }) {
  Allocator& core = capi::core_of(allocator_.get());
  if (std::string(core.backend_name()) != "native")
    throw std::runtime_error("backend:cudaMallocAsync cannot serve a program");
  if (options.limit != 0) core.set_memory_limit(context->device, options.limit);
  if (!options.tenant.empty()) tenant_ = core.tenant_create({.name = options.tenant});
  if (options.clears && driver_->stream_create(context->device, &clearing_stream_) != kSuccess)
    throw std::runtime_error("the driver makes no stream");
  if (options.are_whole) keep_blocks_whole();
  for (size_t i = 0; i < captures; i++) capture_begun();
}

// By a pool that takes every request.
void ServedContext::keep_blocks_whole() {
  Allocator& core = capi::core_of(allocator_.get());
  const PoolId pool = core.new_pool_id(false);
  core.pool_create(context_->device, pool, {.whole_blocks = true});
  core.pool_begin(context_->device, pool, [](Stream) { return true; });
}

// Without captures, and where no stream orders blocks and none is filled, the allocator neither records nor waits.
template <class Act>
auto ServedContext::holding_off_captures(Act act) {
  Captures& captures = Captures::get();
  if (!options_.serves_async && !fills_blocks_ && !captures.any_so_far()) return act(0);
  return captures.holding(act);
}

Result ServedContext::allocate(uint64_t size, Stream stream, DeviceAddress* out) {
  requests_.fetch_add(1, std::memory_order_relaxed);
  if (const Result result = freed_.free_done(); result != 0) return result;
  const HitPath& hits = capi::core_of(allocator_.get()).hits();
  Address address = tenant_ ? 0 : hits.try_allocate(size, context_->device, stream);
  if (address == 0)
    if (const Result result = allocate_or_miss(size, stream, &address); result != 0) return result;
  if (const Result result = options_.clears ? clear(address, size) : 0; result != 0) {
    cachalot_free(allocator_.get(), address, nullptr);
    return result;
  }
  live_bytes_.fetch_add(size, std::memory_order_relaxed);
  *out = address;
  return 0;
}

Result ServedContext::allocate_or_miss(uint64_t size, Stream stream, Address* out) {
  if (freed_.has_any())
    if (const Result result = freed_.free_all_done(); result != 0) return result;
  const Result result = allocate_in_general(size, stream, out);
  if (result != kDriverOutOfMemory || !freed_.has_any()) return result;
  if (const Result waited = freed_.wait_for_all(); waited != 0) return waited;
  return allocate_in_general(size, stream, out);
}

Result ServedContext::allocate_in_general(uint64_t size, Stream stream, Address* out) {
  CallError error;
  const cachalot_status status = holding_off_captures([&](size_t captures) {
    if (!tenant_ && captures == 0)
      return cachalot_allocate(allocator_.get(), size, context_->device, stream, out, &error);
    // During captures nothing may be done about blocks that wait.
    const Stream current = captures == 0 ? stream : kAllStreams;
    const uint32_t tenant = tenant_ ? tenant_->slot : 0;
    return capi::guard(&error, [&] {
      *out = capi::core_of(allocator_.get())
                 .allocate({.size = size,
                            .device = context_->device,
                            .stream = stream,
                            .current_stream = current,
                            .tenant = tenant});
    });
  });
  return code_of(status, error);
}

// On a stream of its own, which no capture sees.
Result ServedContext::clear(Address address, uint64_t size) {
  const DriverCode code = driver_->fill(context_->device, address, size, 0, clearing_stream_);
  return code != kSuccess ? code : driver_->stream_synchronize(context_->device, clearing_stream_);
}

std::optional<BlockInfo> ServedContext::find(Address address) {
  return unless_freed(capi::core_of(allocator_.get()).find_block(address));
}

std::optional<BlockInfo> ServedContext::find_around(Address address) {
  return unless_freed(capi::core_of(allocator_.get()).find_block_around(address));
}

std::optional<BlockInfo> ServedContext::unless_freed(std::optional<BlockInfo> block) {
  return block && freed_.holds(block->address) ? std::nullopt : block;
}

bool ServedContext::has_cached(Address address) {
  const Snapshot snapshot = capi::core_of(allocator_.get()).snapshot({}, false);
  return std::any_of(snapshot.segments.begin(), snapshot.segments.end(), [&](const auto& segment) {
    return segment.address <= address && address - segment.address < segment.total_size;
  });
}

std::pair<Address, uint64_t> ServedContext::segment_of(Address address) {
  return capi::core_of(allocator_.get()).base_allocation(address);
}

Result ServedContext::free(const BlockInfo& block) {
  if (options_.frees_by_event && real().cuCtxRecordEvent != nullptr) return free_when_done(block);
  const std::optional<Result> result = wait_for_context(context_);
  if (!result) return free_when_done(block);
  if (*result != 0) return *result;  // the program's error, and the block stays as it is
  CallError error;
  const cachalot_status status = holding_off_captures(
      [&](size_t) { return cachalot_free(allocator_.get(), block.address, &error); });
  if (status == CACHALOT_ERROR_INVALID_ARGUMENT) return kInvalidValue;  // another thread was faster
  if (status == CACHALOT_OK) live_bytes_.fetch_sub(block.requested, std::memory_order_relaxed);
  return code_of(status, error);
}

Result ServedContext::free_when_done(const BlockInfo& block) {
  const uint64_t most = leash();
  if (const Result result = freed_.add(block, most); result != 0) return result;
  live_bytes_.fetch_sub(block.requested, std::memory_order_relaxed);
  return freed_.bytes() > most ? freed_.wait_for_leash(most) : 0;
}

// A use by the block's own stream needs no event, and the allocator knows that.
Result ServedContext::free_on(const BlockInfo& block, Stream stream) {
  if (stream == kAllStreams) return free_when_done(block);
  CallError error;
  const cachalot_status status = holding_off_captures([&](size_t captures) {
    const Stream current = captures == 0 ? block.stream : kAllStreams;
    const cachalot_status recorded =
        cachalot_record_stream_on_stream(allocator_.get(), block.address, stream, current, &error);
    return recorded != CACHALOT_OK
               ? recorded
               : cachalot_free_on_stream(allocator_.get(), block.address, current, &error);
  });
  if (status != CACHALOT_OK) return code_of(status, error);
  live_bytes_.fetch_sub(block.requested, std::memory_order_relaxed);
  return 0;
}

uint64_t ServedContext::leash() const {
  const uint64_t usual = std::max(kLeastLeash, live_bytes_.load(std::memory_order_relaxed) / 4);
  return options_.leash.value_or(usual);
}

uint64_t ServedContext::allocated_bytes() const {
  const uint64_t allocated = cachalot_memory_allocated(allocator_.get(), context_->device);
  return allocated - std::min(allocated, freed_.bytes());
}

uint64_t ServedContext::cached_bytes() const {
  // Other threads ask for memory and give it back between the two.
  const uint64_t allocated = allocated_bytes();
  const uint64_t reserved = cachalot_memory_reserved(allocator_.get(), context_->device);
  return reserved - std::min(reserved, allocated);
}

// Threads that the program did not ask for anything in the context cannot know that it ends meanwhile.
template <class Act>
void ServedContext::unless_ended(Act act) {
  const std::lock_guard guard(end_mutex_);
  if (!has_ended_) act();
}

void ServedContext::end() {
  const std::lock_guard guard(end_mutex_);
  has_ended_ = true;
}

void ServedContext::empty_cache() {
  unless_ended([&] {
    freed_.wait_for_all();
    Captures::get().unless_any(
        [&] { capi::core_of(allocator_.get()).empty_cache(context_->device); });
  });
}

void ServedContext::trim(uint64_t idle_seconds) {
  unless_ended([&] {
    freed_.free_all_done();
    Captures::get().unless_any([&] {
      cachalot_trim(allocator_.get(), context_->device, 0, idle_seconds * 1'000'000'000, nullptr,
                    nullptr);
    });
  });
}

void ServedContext::give_access_to(DeviceOrdinal device) {
  cachalot_enable_peer_access(allocator_.get(), device, context_->device, nullptr);
}

void ServedContext::capture_begun() {
  cachalot_capture_begin(allocator_.get(), context_->device, nullptr);
}

void ServedContext::capture_ended() {
  cachalot_capture_end(allocator_.get(), context_->device, nullptr);
}

void ServedContext::give_all_back() {
  freed_.clear();
  capi::core_of(allocator_.get()).free_all();
  empty_cache();
}

Metrics ServedContext::metrics() {
  Allocator& core = capi::core_of(allocator_.get());
  Metrics metrics = capi::metrics_of_device(core, context_->device);
  DeviceMetrics& device = metrics.devices.front();
  device.context = context_->name();
  device.use.identity = driver_->identity(context_->device);
  unless_ended([&] { device.use = core.device_use(context_->device); });
  return metrics;
}

cachalot_stats ServedContext::stats() const {
  cachalot_stats stats{};
  stats.struct_size = sizeof stats;
  cachalot_get_stats(allocator_.get(), context_->device, &stats, nullptr);
  return stats;
}

}  // namespace cachalot::proxy
