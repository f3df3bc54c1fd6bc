// SPDX-License-Identifier: MIT OR Apache-2.0
// The allocator: how it is made, blocks, the cache, limits.
#include "cachalot/allocator.h"

#include <cstddef>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "alloc/native/hot_path.h"
#include "alloc/trace/contexts.h"
#include "base/disabled.h"
#include "core_of.h"
#include "environment.h"
#include "pinned_cache.h"
#include "values.h"

namespace cachalot::capi {

template <>
inline constexpr size_t kFirstSize<cachalot_allocator_options> =
    offsetof(cachalot_allocator_options, debug);
template <>
inline constexpr size_t kFirstSize<cachalot_block> = offsetof(cachalot_block, from_source);

namespace {

constexpr uint32_t kEveryMend = CACHALOT_MEND_FALLBACK_ERRORS | CACHALOT_MEND_FALLBACK_EXPANDABLE |
                                CACHALOT_MEND_HANDLE_TYPE | CACHALOT_MEND_SEARCH_AFTER_RELEASE |
                                CACHALOT_MEND_HISTORY_ORDER | CACHALOT_MEND_REJECTION |
                                CACHALOT_MEND_RESERVE | CACHALOT_MEND_SPLIT_LIMIT;

static_assert(static_cast<int32_t>(LogLevel::kWarning) == CACHALOT_LOG_WARNING);
static_assert(static_cast<int32_t>(LogLevel::kDifference) == CACHALOT_LOG_DIFFERENCE);
static_assert(static_cast<int32_t>(LogLevel::kDamage) == CACHALOT_LOG_DAMAGE);
static_assert(static_cast<int32_t>(LogLevel::kAdvice) == CACHALOT_LOG_ADVICE);

Texts read_texts(const cachalot_allocator_options& in) {
  switch (read_choice(in.texts, CACHALOT_TEXTS_DEFAULT, CACHALOT_TEXTS_OWN, "texts")) {
    case CACHALOT_TEXTS_PYTORCH:
      return Texts::kPyTorch;
    case CACHALOT_TEXTS_OWN:
      return Texts::kOwn;
    default:
      return environment_texts();
  }
}

Rules read_rules(const cachalot_allocator_options& in) {
  Rules rules = rules_of(read_release(in.release));
  rules.texts = read_texts(in);
  const uint32_t mend = read_bits(in.mend, kEveryMend, "mend");
  rules.mend_fallback_errors = (mend & CACHALOT_MEND_FALLBACK_ERRORS) != 0;
  rules.mend_fallback_expandable = (mend & CACHALOT_MEND_FALLBACK_EXPANDABLE) != 0;
  rules.mend_handle_type = (mend & CACHALOT_MEND_HANDLE_TYPE) != 0;
  rules.mend_search_after_release = (mend & CACHALOT_MEND_SEARCH_AFTER_RELEASE) != 0;
  rules.mend_history_order = (mend & CACHALOT_MEND_HISTORY_ORDER) != 0;
  rules.mend_rejection = (mend & CACHALOT_MEND_REJECTION) != 0;
  rules.mend_reserve = (mend & CACHALOT_MEND_RESERVE) != 0;
  rules.mend_split_limit = (mend & CACHALOT_MEND_SPLIT_LIMIT) != 0;
  return rules;
}

// Damage must not go unseen.
void print_damage(LogLevel level, const char* message) {
  if (level == LogLevel::kDamage) std::fprintf(stderr, "cachalot: %s\n", message);
}

LogSink read_log(const cachalot_allocator_options& in) {
  if (in.log == nullptr) return print_damage;
  return [log = in.log, user_data = in.log_user_data](LogLevel level, const char* message) {
    try {
      log(user_data, static_cast<int32_t>(level), message);
    } catch (...) {
      // Remarks are made in the midst of changes, which have to go on.
    }
  };
}

std::string context_text(cachalot_context_text_fn write, void* user_data, ContextId context) {
  std::string text(write(user_data, context, nullptr, 0), '\0');
  const size_t length = write(user_data, context, text.data(), text.size() + 1);
  if (length < text.size()) text.resize(length);
  return text;
}

ContextSource callback_contexts(const cachalot_allocator_options& in) {
  ContextSource source;
  void* const user_data = in.context_user_data;
  if (in.context_capture != nullptr)
    source.capture = [capture = in.context_capture, user_data] { return capture(user_data); };
  if (in.context_text != nullptr)
    source.describe = [write = in.context_text, user_data](ContextId context) {
      return context_text(write, user_data, context);
    };
  return source;
}

ContextSource read_context_source(const cachalot_allocator_options& in) {
  switch (read_choice(in.context_source, CACHALOT_CONTEXT_CALLBACK, CACHALOT_CONTEXT_LABELS,
                      "context_source")) {
    case CACHALOT_CONTEXT_STACK:
      return stack_contexts();
    case CACHALOT_CONTEXT_LABELS:
      return label_contexts();
    default:
      return callback_contexts(in);
  }
}

// The operator's word goes before the program's.
bool read_caching(const cachalot_allocator_options& in, const LogSink& log) {
  const int32_t no_caching = read_choice(in.no_caching, -1, 1, "no_caching");
  if (is_disabled_by_environment()) return false;
  return no_caching == 0 ? environment_caching(log) : no_caching < 0;
}

bool read_shareable_pages(const cachalot_allocator_options& in) {
  const int32_t shareable = read_choice(in.shareable_pages, -1, 1, "shareable_pages");
  return shareable == 0 ? environment_shareable_pages() : shareable > 0;
}

DebugOptions read_debug(const cachalot_allocator_options& in) {
  constexpr uint32_t kEvery =
      CACHALOT_DEBUG_NVTX | CACHALOT_DEBUG_POISON | CACHALOT_DEBUG_RED_ZONES;
  const uint32_t bits = read_bits(in.debug, kEvery, "debug");
  if (bits == 0) return environment_debug();
  return {.nvtx = (bits & CACHALOT_DEBUG_NVTX) != 0,
          .poison = (bits & CACHALOT_DEBUG_POISON) != 0,
          .red_zones = (bits & CACHALOT_DEBUG_RED_ZONES) != 0};
}

// All but the driver.
AllocatorOptions read_allocator_options(const cachalot_allocator_options& in) {
  AllocatorOptions options;
  options.config = in.config != nullptr ? in.config : environment_config();
  options.rules = read_rules(in);
  options.log = read_log(in);
  options.caching = read_caching(in, options.log);
  options.serves_tenants_uncached = is_disabled_by_environment();
  options.shareable_pages = read_shareable_pages(in);
  options.check_every_call = read_flag(in.check_every_call, "check_every_call");
  options.track_labels = read_flag(in.track_labels, "track_labels");
  options.context_source = read_context_source(in);
  options.debug = read_debug(in);
  const auto policy = read_policy_of(in);
  options.serving = policy ? *policy : environment_policy();
  return options;
}

// A program goes on without what was to be written down, so a failure is a remark, which must not go unseen.
template <class Start>
void start_by_environment(const cachalot_allocator_options& in, const char* name, Start start) {
  try {
    start();
  } catch (const Error& error) {
    const std::string text = std::string(name) + ": " + error.message();
    if (in.log != nullptr)
      read_log(in)(LogLevel::kWarning, text.c_str());
    else
      std::fprintf(stderr, "cachalot: %s\n", text.c_str());
  }
}

void start_recorders(const cachalot_allocator_options& in, cachalot_allocator* allocator) {
  RecorderOptions trace;
  trace.path = environment_trace();
  if (!trace.path.empty()) {
    trace.keep = environment_trace_bytes();
    start_by_environment(in, "CACHALOT_TRACE", [&] { allocator->recorders.start(trace); });
  }
  const std::string folder = environment_oom_dump();
  if (folder.empty()) return;
  start_by_environment(in, "CACHALOT_OOM_DUMP",
                       [&] { allocator->oom_dump.start(folder, OomDump::kUsualEvents); });
}

// The same allocator, but for what belongs to devices, over the pinned memory of the driver.
void make_pinned_cache(AllocatorOptions options, const std::string& config,
                       cachalot_allocator* allocator) {
  allocator->core.require_host_memory();
  allocator->pinned_driver = std::make_shared<PinnedDriver>(options.driver);
  options.driver = allocator->pinned_driver;
  options.config = config;
  options.caching = true;
  options.serving = {};
  options.debug = {};
  allocator->pinned = std::make_unique<cachalot_allocator>(new_driver(options.driver), options);
  allocator->pinned->is_of_another = true;
}

std::unique_ptr<cachalot_allocator> make_allocator(const cachalot_allocator_options& in) {
  AllocatorOptions options = read_allocator_options(in);
  DriverReference driver =
      in.driver != nullptr ? share(require(in.driver, "options->driver")) : open_driver(nullptr);
  options.driver = driver->core;
  auto allocator = std::make_unique<cachalot_allocator>(std::move(driver), options);
  const auto pinned_config = in.pinned_config != nullptr
                                 ? std::optional<std::string>(in.pinned_config)
                                 : environment_pinned_config();
  if (pinned_config) make_pinned_cache(options, *pinned_config, allocator.get());
  start_recorders(in, allocator.get());
  return allocator;
}

void require_callers(const cachalot_allocator* allocator) {
  if (live_or_null(allocator) && allocator->is_of_another)
    throw_invalid_state("the allocator of pinned memory goes with the one that it belongs to");
}

void require_no_live_blocks(cachalot_allocator* allocator) {
  uint64_t live = core_of(allocator).live_blocks();
  if (allocator->pinned) live += allocator->pinned->core.live_blocks();
  // Pinned blocks that are the library's own.
  for (int32_t i = 0; i < core_of(allocator).device_count(); i++)
    live -= core_of(allocator).sleep_stats(i, {}).kept_buffers;
  if (live > 0)
    throw_invalid_state(format("%llu block%s still live", static_cast<unsigned long long>(live),
                               live == 1 ? " is" : "s are"));
  const uint64_t opened = core_of(allocator).opened_count();
  if (opened > 0)
    throw_invalid_state(format("memory of other processes is open at %llu address%s",
                               static_cast<unsigned long long>(opened), opened == 1 ? "" : "es"));
}

Request read_request(const cachalot_request& in) {
  const bool has_current = read_flag(in.has_current_stream, "has_current_stream");
  return {.size = in.size,
          .device = in.device,
          .stream = in.stream,
          .current_stream = has_current ? in.current_stream : in.stream,
          .at = in.at};
}

cachalot_block write_block(const BlockInfo& block) {
  return {.struct_size = sizeof(cachalot_block),
          .address = block.address,
          .size = block.size,
          .requested = block.requested,
          .stream = block.stream,
          .pool = write_pool_id(block.pool),
          .device = block.device,
          .uncached = block.uncached,
          .from_source = block.from_source};
}

cachalot_device_totals write_totals(const DeviceTotals& totals) {
  return {.struct_size = sizeof(cachalot_device_totals),
          .total = totals.total,
          .used = totals.used,
          .used_by_process = totals.used_by_process,
          .reserved = totals.reserved,
          .outside = totals.outside};
}

}  // namespace
}  // namespace cachalot::capi

using namespace cachalot;
using namespace cachalot::capi;

cachalot_status cachalot_allocator_create(const cachalot_allocator_options* options,
                                          cachalot_allocator** out_allocator,
                                          cachalot_error* error) {
  return guard(error, [&] {
    cachalot_allocator*& out = require(out_allocator, "out_allocator");
    out = make_allocator(read_options(options)).release();
  });
}

cachalot_status cachalot_allocator_destroy(cachalot_allocator* allocator, cachalot_error* error) {
  return guard(error, [&] {
    if (allocator == nullptr) return;
    require_callers(allocator);
    require_no_live_blocks(allocator);
    core_of(allocator).free_all();  // what pools that sleep have kept
    delete allocator;
  });
}

cachalot_status cachalot_allocator_destroy_all(cachalot_allocator* allocator,
                                               cachalot_error* error) {
  return guard(error, [&] {
    if (allocator == nullptr) return;
    require_callers(allocator);
    core_of(allocator).free_all();
    if (allocator->pinned) allocator->pinned->core.free_all();
    delete allocator;
  });
}

cachalot_driver* cachalot_allocator_driver(const cachalot_allocator* allocator) {
  return live_or_null(allocator) ? allocator->driver.get() : nullptr;
}

int32_t cachalot_allocator_release(const cachalot_allocator* allocator) {
  return live_or_null(allocator) ? static_cast<int32_t>(allocator->core.rules().release) : 0;
}

const char* cachalot_allocator_backend(const cachalot_allocator* allocator) {
  return live_or_null(allocator) ? allocator->core.backend_name() : "";
}

namespace {

inline Allocator* live_core_or_null(cachalot_allocator* allocator) {
  cachalot_allocator* const live = live_or_null(allocator);
  return live ? &live->core : nullptr;
}

[[gnu::noinline]] cachalot_status allocate_in_general(cachalot_allocator* allocator, uint64_t size,
                                                      int32_t device, cachalot_stream stream,
                                                      cachalot_address* out_address,
                                                      cachalot_error* error) {
  return guard(error, [&] {
    Allocator& core = core_of(allocator);
    cachalot_address& out = require(out_address, "out_address");
    out = core.allocate(size, device, stream);
  });
}

[[gnu::noinline]] cachalot_status free_in_general(cachalot_allocator* allocator,
                                                  cachalot_address address, cachalot_error* error) {
  return guard(error, [&] { core_of(allocator).free(address); });
}

// A function of its own for each policy, so that the call that chooses one saves no registers. See Note [Two
// ways of a hit] and Note [Registers of a hit]. pre: a live allocator, a place for the address; the
// reference's hits are open for this request, or the serving policy decides.
template <DecidedBy decided_by>
[[gnu::noinline]] cachalot_status allocate_or_hit(cachalot_allocator* allocator, uint64_t size,
                                                  int32_t device, cachalot_stream stream,
                                                  cachalot_address* out_address,
                                                  cachalot_error* error) {
  cachalot_allocator* const volatile kept_allocator = allocator;
  const volatile int32_t kept_device = device;
  const volatile cachalot_stream kept_stream = stream;
  cachalot_address* const volatile kept_out_address = out_address;
  cachalot_error* const volatile kept_error = error;
  const HitPath& hits = allocator->core.hits();
  const Address hit = decided_by == DecidedBy::kReference
                          ? hits.allocate_or_0(size, device, stream)
                          : hits.try_allocate_serving(size, device, stream);
  if (hit) [[likely]] {
    *kept_out_address = hit;
    return CACHALOT_OK;
  }
  return allocate_in_general(kept_allocator, size, kept_device, kept_stream, kept_out_address,
                             kept_error);
}

// pre: a live allocator.
[[gnu::noinline]] cachalot_status free_serving(cachalot_allocator* allocator,
                                               cachalot_address address, cachalot_error* error) {
  cachalot_allocator* const volatile kept_allocator = allocator;
  const volatile cachalot_address kept_address = address;
  cachalot_error* const volatile kept_error = error;
  if (allocator->core.hits().try_free_serving(address)) [[likely]]
    return CACHALOT_OK;
  return free_in_general(kept_allocator, kept_address, kept_error);
}

}  // namespace

cachalot_status cachalot_allocate(cachalot_allocator* allocator, uint64_t size, int32_t device,
                                  cachalot_stream stream, cachalot_address* out_address,
                                  cachalot_error* error) {
  [[maybe_unused]] const LockScope scope{};
  Allocator* const core = live_core_or_null(allocator);
  if (!core || !out_address) [[unlikely]]
    return allocate_in_general(allocator, size, device, stream, out_address, error);
  if (!core->hits().may_allocate(size, device)) [[unlikely]]
    return allocate_or_hit<DecidedBy::kServing>(allocator, size, device, stream, out_address,
                                                error);
  return allocate_or_hit<DecidedBy::kReference>(allocator, size, device, stream, out_address,
                                                error);
}

cachalot_status cachalot_allocate_with(cachalot_allocator* allocator,
                                       const cachalot_request* request,
                                       cachalot_address* out_address, cachalot_error* error) {
  return guard(error, [&] {
    Allocator& core = core_of(allocator);
    cachalot_address& out = require(out_address, "out_address");
    out = core.allocate(read_request(read_options(&require(request, "request"), "request")));
  });
}

cachalot_status cachalot_free(cachalot_allocator* allocator, cachalot_address address,
                              cachalot_error* error) {
  [[maybe_unused]] const LockScope scope{};
  Allocator* const core = live_core_or_null(allocator);
  if (!core) [[unlikely]]
    return free_in_general(allocator, address, error);
  if (!core->hits().may_free()) [[unlikely]]
    return free_serving(allocator, address, error);
  cachalot_allocator* const volatile kept_allocator = allocator;
  const volatile cachalot_address kept_address = address;
  cachalot_error* const volatile kept_error = error;
  if (core->hits().free_if_usual(address)) [[likely]]
    return CACHALOT_OK;
  return free_in_general(kept_allocator, kept_address, kept_error);
}

cachalot_status cachalot_free_on_stream(cachalot_allocator* allocator, cachalot_address address,
                                        cachalot_stream current_stream, cachalot_error* error) {
  return guard(error, [&] { core_of(allocator).free(address, current_stream); });
}

cachalot_status cachalot_record_stream(cachalot_allocator* allocator, cachalot_address address,
                                       cachalot_stream stream, cachalot_error* error) {
  return guard(error, [&] { core_of(allocator).record_stream(address, stream); });
}

cachalot_status cachalot_record_stream_on_stream(cachalot_allocator* allocator,
                                                 cachalot_address address, cachalot_stream stream,
                                                 cachalot_stream current_stream,
                                                 cachalot_error* error) {
  return guard(error, [&] { core_of(allocator).record_stream(address, stream, current_stream); });
}

cachalot_status cachalot_get_block(cachalot_allocator* allocator, cachalot_address address,
                                   cachalot_block* out_block, cachalot_error* error) {
  return guard(error, [&] {
    write_struct(out_block, write_block(core_of(allocator).block(address)), "out_block");
  });
}

cachalot_status cachalot_base_allocation(cachalot_allocator* allocator, cachalot_address address,
                                         cachalot_address* out_base, uint64_t* out_size,
                                         cachalot_error* error) {
  return guard(error, [&] {
    Allocator& core = core_of(allocator);
    cachalot_address& base = require(out_base, "out_base");
    uint64_t& size = require(out_size, "out_size");
    std::tie(base, size) = core.base_allocation(address);
  });
}

cachalot_status cachalot_empty_cache(cachalot_allocator* allocator, cachalot_error* error) {
  return guard(error, [&] {
    Allocator& core = core_of(allocator);
    for (int device = 0; device < core.device_count(); device++) core.empty_cache(device);
  });
}

cachalot_status cachalot_release_context(cachalot_allocator* allocator, int32_t device,
                                         cachalot_error* error) {
  return guard(error, [&] {
    cachalot_allocator& live = require(allocator, "allocator");
    require_device(device, live.core.device_count());
    if (live.pinned) PinnedCacheOfDevice(live).release_context();
    live.core.release_context(device);
  });
}

cachalot_status cachalot_empty_device_cache(cachalot_allocator* allocator, int32_t device,
                                            cachalot_error* error) {
  return guard(error, [&] { core_of(allocator).empty_cache(device); });
}

cachalot_status cachalot_empty_device_cache_on_stream(cachalot_allocator* allocator, int32_t device,
                                                      cachalot_stream current_stream,
                                                      cachalot_error* error) {
  return guard(error, [&] { core_of(allocator).empty_cache(device, {}, current_stream); });
}

cachalot_status cachalot_largest_block(cachalot_allocator* allocator, int32_t device,
                                       uint64_t at_least, uint64_t* out_size,
                                       cachalot_error* error) {
  return guard(error, [&] {
    Allocator& core = core_of(allocator);
    require(out_size, "out_size") = core.largest_block(device, at_least);
  });
}

cachalot_status cachalot_largest_block_on_stream(cachalot_allocator* allocator, int32_t device,
                                                 uint64_t at_least, cachalot_stream current_stream,
                                                 uint64_t* out_size, cachalot_error* error) {
  return guard(error, [&] {
    Allocator& core = core_of(allocator);
    require(out_size, "out_size") = core.largest_block(device, at_least, current_stream);
  });
}

cachalot_status cachalot_set_caching_enabled(cachalot_allocator* allocator, int32_t enabled,
                                             cachalot_error* error) {
  return guard(error,
               [&] { core_of(allocator).set_caching_enabled(read_flag(enabled, "enabled")); });
}

int32_t cachalot_is_caching_enabled(const cachalot_allocator* allocator) {
  return live_or_null(allocator) && allocator->core.is_caching_enabled();
}

cachalot_status cachalot_set_memory_fraction(cachalot_allocator* allocator, int32_t device,
                                             double fraction, cachalot_error* error) {
  return guard(error, [&] { core_of(allocator).set_memory_fraction(device, fraction); });
}

cachalot_status cachalot_memory_fraction(cachalot_allocator* allocator, int32_t device,
                                         double* out_fraction, cachalot_error* error) {
  return guard(error, [&] {
    Allocator& core = core_of(allocator);
    require(out_fraction, "out_fraction") = core.memory_fraction(device);
  });
}

cachalot_status cachalot_set_memory_limit(cachalot_allocator* allocator, int32_t device,
                                          uint64_t bytes, cachalot_error* error) {
  return guard(error, [&] { core_of(allocator).set_memory_limit(device, bytes); });
}

cachalot_status cachalot_memory_limit(cachalot_allocator* allocator, int32_t device,
                                      uint64_t* out_bytes, cachalot_error* error) {
  return guard(error, [&] {
    Allocator& core = core_of(allocator);
    require(out_bytes, "out_bytes") = core.memory_limit(device);
  });
}

cachalot_status cachalot_enable_peer_access(cachalot_allocator* allocator, int32_t device,
                                            int32_t peer, cachalot_error* error) {
  return guard(error, [&] { core_of(allocator).enable_peer_access(device, peer); });
}

cachalot_status cachalot_copy(cachalot_allocator* allocator, cachalot_address to, int32_t to_device,
                              cachalot_address from, int32_t from_device, uint64_t size,
                              cachalot_stream stream, cachalot_error* error) {
  return guard(error,
               [&] { core_of(allocator).copy(to, to_device, from, from_device, size, stream); });
}

cachalot_status cachalot_get_device_totals(cachalot_allocator* allocator, int32_t device,
                                           cachalot_device_totals* out_totals,
                                           cachalot_error* error) {
  return guard(error, [&] {
    write_struct(out_totals, write_totals(core_of(allocator).device_totals(device)), "out_totals");
  });
}

cachalot_status cachalot_check(cachalot_allocator* allocator, cachalot_error* error) {
  return guard(error, [&] {
    Allocator& core = core_of(allocator);
    const std::string finding = core.check();
    if (!finding.empty()) throw Error(Status::kInternal, finding);
    const std::string damage = core.check_red_zones();
    if (!damage.empty()) throw_invalid_state(damage);
  });
}
