// SPDX-License-Identifier: MIT OR Apache-2.0
#include "operations.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <set>

#include "checkpoint_operations.h"
#include "expected_file.h"
#include "input_error.h"
#include "pinned_operations.h"
#include "report.h"
#include "share_operations.h"

namespace cachalot::differential {
namespace {

// From here on the reference's tensor allocation refuses at once, and its raw one does not.
constexpr uint64_t kExabyte = uint64_t{1} << 60;

// An address that is never in cached memory, and is a multiple of 512.
constexpr cachalot_address kNowhere = 512;

void answer(Script& script, std::string text) { script.transcript().add("# " + std::move(text)); }

const char* yes_or_no(int32_t flag) { return flag != 0 ? "yes" : "no"; }

// ---- Blocks -------------------------------------------------------------------------------------

cachalot_request request_of(const Script& script, uint64_t size, cachalot_stream stream) {
  cachalot_request request{};
  request.struct_size = sizeof request;
  request.size = size;
  request.stream = stream;
  request.current_stream = script.current_stream;
  request.has_current_stream = 1;
  request.device = kDevice;
  return request;
}

bool obtain(Script& script, const cachalot_request& request, cachalot_address* out_address) {
  if (!script.worked(
          cachalot_allocate_with(script.allocator(), &request, out_address, script.error()))) {
    return false;
  }
  script.transcript().add("R " + hex(*out_address));
  return true;
}

// The block that the id had before is freed after the new one was obtained.
void obtain_tensor(Script& script, int64_t id, const cachalot_request& request) {
  cachalot_address address = 0;
  if (!obtain(script, request, &address)) return;
  script.last[id] = address;
  script.free_live(id);
  script.live[id] = address;
}

void allocate(Script& script, Arguments& arguments) {
  const int64_t id = arguments.number();
  const uint64_t size = arguments.size();
  script.current_stream = arguments.hex();
  arguments.end();
  obtain_tensor(script, id, request_of(script, size, script.current_stream));
}

// The interface has no address 0 to ask for, so another one stands for it, with a text of its own.
void allocate_at(Script& script, Arguments& arguments) {
  const int64_t id = arguments.number();
  const uint64_t size = arguments.size();
  script.current_stream = arguments.hex();
  const int64_t reference = arguments.number();
  const int64_t offset = arguments.more() ? arguments.number() : 0;
  arguments.end();
  cachalot_request request = request_of(script, size, script.current_stream);
  request.at = script.last[reference] + static_cast<uint64_t>(offset);
  if (request.at == 0) {
    script.exempt_error_text();
    request.at = kNowhere;
  }
  obtain_tensor(script, id, request);
}

// The raw entry point differs from the library's only call in two cases, which are left out.
void allocate_raw(Script& script, Arguments& arguments) {
  const int64_t id = arguments.number();
  const uint64_t size = arguments.size();
  const cachalot_stream stream = arguments.hex();
  arguments.end();
  if (size >= kExabyte) return script.exempt_rest();
  cachalot_address address = 0;
  if (size == 0 && !script.is_caching()) {
    script.exempt_operation();
  } else if (!obtain(script, request_of(script, size, stream), &address)) {
    return;
  }
  script.raw[id] = script.last[id] = address;
}

// The other backend refuses address 0, which the library ignores; a pending error goes before.
void free_raw_async(Script& script, cachalot_address address) {
  if (address == 0) {
    script.device()->set_pending_error(0);
    return script.exempt_operation();
  }
  script.worked(cachalot_free(script.allocator(), address, script.error()));
}

// The raw free acts by the mode in force, the library's by how the block was made. Where the two
// differ the reference refuses (the block stays as it is), or gives a segment away under its
// blocks.
void free_raw(Script& script, cachalot_address address) {
  if (script.is_backend_async()) return free_raw_async(script, address);
  cachalot_block block{};
  block.struct_size = sizeof block;
  const bool is_live =
      cachalot_get_block(script.allocator(), address, &block, nullptr) == CACHALOT_OK;
  if (is_live && script.is_caching() && block.uncached != 0) return script.exempt_operation();
  if (is_live && !script.is_caching() && block.uncached == 0) return script.exempt_rest();
  if (!is_live && !script.is_caching() && address != 0) return script.exempt_operation();
  script.worked(
      cachalot_free_on_stream(script.allocator(), address, script.current_stream, script.error()));
}

void free_block(Script& script, Arguments& arguments) {
  const int64_t id = arguments.number();
  arguments.end();
  script.free_live(id);
  const auto found = script.raw.find(id);
  if (found == script.raw.end()) return;
  const cachalot_address address = found->second;
  script.raw.erase(found);
  free_raw(script, address);
}

void free_address(Script& script, Arguments& arguments) {
  const cachalot_address address = arguments.hex();
  arguments.end();
  free_raw(script, address);
}

void record_stream(Script& script, Arguments& arguments) {
  const auto found = script.live.find(arguments.number());
  const cachalot_stream stream = arguments.hex();
  arguments.end();
  if (found == script.live.end()) return;
  script.worked(cachalot_record_stream_on_stream(script.allocator(), found->second, stream,
                                                 script.current_stream, script.error()));
}

void set_current_stream(Script& script, Arguments& arguments) {
  script.current_stream = arguments.hex();
  arguments.end();
}

void empty_cache(Script& script, Arguments& arguments) {
  arguments.end();
  for (int32_t device = 0; device < script.device()->device_count(); device++) {
    if (!script.worked(cachalot_empty_device_cache_on_stream(
            script.allocator(), device, script.current_stream, script.error()))) {
      return;
    }
  }
}

void arm_callback(Script& script, Arguments& arguments) {
  while (arguments.more()) script.armed.push_back(arguments.number());
}

// ---- Limits and options -------------------------------------------------------------------------

void set_fraction(Script& script, Arguments& arguments) {
  const double fraction = arguments.fraction();
  arguments.end();
  script.worked(
      cachalot_set_memory_fraction(script.allocator(), kDevice, fraction, script.error()));
}

void get_fraction(Script& script, Arguments& arguments) {
  arguments.end();
  double fraction = 0;
  if (!script.worked(
          cachalot_memory_fraction(script.allocator(), kDevice, &fraction, script.error())))
    return;
  char text[64];
  std::snprintf(text, sizeof text, "= fraction %.17g", fraction);
  script.transcript().add(text);
}

void set_options(Script& script, Arguments& arguments) {
  script.worked(cachalot_configure(script.allocator(), arguments.rest().c_str(), script.error()));
}

void switch_caching(Script& script, Arguments& arguments) {
  const int32_t enabled = arguments.small_number();
  arguments.end();
  script.caching_switched_on = enabled != 0;
  script.worked(cachalot_set_caching_enabled(script.allocator(), enabled, script.error()));
}

void is_enabled(Script& script, Arguments& arguments) {
  arguments.end();
  answer(script,
         std::string("enabled ") + yes_or_no(cachalot_is_caching_enabled(script.allocator())));
}

void enable_peer(Script& script, Arguments& arguments) {
  const int32_t device = arguments.small_number();
  const int32_t peer = arguments.small_number();
  arguments.end();
  script.worked(cachalot_enable_peer_access(script.allocator(), device, peer, script.error()));
}

// ---- Statistics, history, reports ---------------------------------------------------------------

void stats(Script& script, Arguments& arguments) {
  arguments.end();
  report_stats(script);
}

void snapshot(Script& script, Arguments& arguments) {
  arguments.end();
  report_snapshot(script, {0, 0});
}

void history_entries(Script& script, Arguments& arguments) {
  arguments.end();
  report_history(script);
}

void settings(Script& script, Arguments& arguments) {
  arguments.end();
  report_settings(script);
}

void end(Script& script, Arguments& arguments) {
  stats(script, arguments);
  if (script.is_backend_async()) return;
  report_snapshot(script, {0, 0});
}

void reset_peak(Script& script, Arguments& arguments) {
  arguments.end();
  script.worked(cachalot_reset_peak_stats(script.allocator(), kDevice, script.error()));
}

void reset_accumulated(Script& script, Arguments& arguments) {
  arguments.end();
  script.worked(cachalot_reset_accumulated_stats(script.allocator(), kDevice, script.error()));
}

int32_t context_level(std::string_view word) {
  if (word == "all") return CACHALOT_CONTEXT_LEVEL_ALL;
  if (word == "alloc") return CACHALOT_CONTEXT_LEVEL_ALLOC;
  return word == "state" ? CACHALOT_CONTEXT_LEVEL_STATE : CACHALOT_CONTEXT_LEVEL_NEVER;
}

void record_history(Script& script, Arguments& arguments) {
  const std::string_view level = arguments.word();
  cachalot_history_options options{};
  options.struct_size = sizeof options;
  options.enabled = level != "off" ? 1 : 0;
  options.context = context_level(level);
  options.max_entries = arguments.more() ? arguments.size() : 1;
  std::string skipped;
  while (arguments.more()) {
    const std::string_view word = arguments.word();
    if (word == "clear") {
      options.clear = 1;
    } else {
      skipped.append(skipped.empty() ? "" : ",").append(word);
    }
  }
  options.skip_actions = skipped.c_str();
  script.worked(cachalot_record_history(script.allocator(), &options, script.error()));
}

// The library keeps metadata for threads, so no backend can warn of it.
void set_metadata(Script& script, Arguments& arguments) {
  if (script.is_backend_async()) script.exempt_operation();
  script.worked(cachalot_set_metadata(arguments.rest().c_str(), script.error()));
}

void annotate_address(Script& script, cachalot_address address, const std::string& text) {
  script.worked(cachalot_annotate(script.allocator(), address, text.c_str(), script.error()));
}

void annotate(Script& script, Arguments& arguments) {
  const auto found = script.live.find(arguments.number());
  if (found != script.live.end()) annotate_address(script, found->second, arguments.rest());
}

void annotate_at(Script& script, Arguments& arguments) {
  const cachalot_address address = arguments.hex();
  annotate_address(script, address, arguments.rest());
}

void supports_metadata(Script& script, Arguments& arguments) {
  arguments.end();
  answer(script, script.is_backend_async() ? "metadata no" : "metadata yes");
}

void context_of(Script& script, Arguments& arguments) {
  const auto found = script.live.find(arguments.number());
  arguments.end();
  uint64_t context = 0;
  if (found != script.live.end() &&
      !script.worked(
          cachalot_context_of(script.allocator(), found->second, &context, script.error()))) {
    return;
  }
  answer(script, context == 0 ? "context none" : "context line " + decimal(context));
}

void base_of(Script& script, Arguments& arguments) {
  const auto found = script.live.find(arguments.number());
  arguments.end();
  if (found == script.live.end()) return;
  cachalot_address base = 0;
  uint64_t size = 0;
  if (script.worked(cachalot_base_allocation(script.allocator(), found->second, &base, &size,
                                             script.error()))) {
    answer(script, "base " + hex(base) + " " + decimal(size));
  }
}

void largest_block(Script& script, Arguments& arguments) {
  const uint64_t at_least = arguments.more() ? arguments.size() : 0;
  arguments.end();
  uint64_t size = 0;
  if (script.worked(cachalot_largest_block_on_stream(
          script.allocator(), kDevice, at_least, script.current_stream, &size, script.error()))) {
    answer(script, "largest " + decimal(size));
  }
}

// ---- Expandable segments ------------------------------------------------------------------------

void expandable_sizes(Script& script, Arguments& arguments) {
  arguments.end();
  size_t count = 0;
  if (!script.worked(cachalot_expandable_segments(script.allocator(), kDevice, nullptr, 0, &count,
                                                  script.error()))) {
    return;
  }
  std::vector<cachalot_expandable_segment> rows(count);
  if (!script.worked(cachalot_expandable_segments(script.allocator(), kDevice, rows.data(), count,
                                                  &count, script.error()))) {
    return;
  }
  for (const cachalot_expandable_segment& row : rows) {
    answer(script, "expandable " + hex(row.stream) + (row.is_small != 0 ? " small " : " large ") +
                       decimal(row.mapped_size));
  }
}

void expandable_totals(Script& script, Arguments& arguments) {
  arguments.end();
  uint64_t bytes = 0;
  uint64_t count = 0;
  if (script.worked(
          cachalot_expandable_totals(script.allocator(), &bytes, &count, script.error()))) {
    answer(script, "expandable_totals " + decimal(bytes) + " " + decimal(count));
  }
}

void set_reserve_class(Script& script, Arguments& arguments) {
  const cachalot_stream stream = arguments.hex();
  script.worked(cachalot_set_reserve_class(script.allocator(), stream, arguments.rest().c_str(),
                                           script.error()));
}

void reserve_class_of(Script& script, Arguments& arguments) {
  const cachalot_stream stream = arguments.hex();
  arguments.end();
  char name[256];
  size_t length = 0;
  if (script.worked(cachalot_get_reserve_class(script.allocator(), stream, name, sizeof name,
                                               &length, script.error()))) {
    answer(script, "reserve_class \"" + std::string(name) + "\"");
  }
}

void set_default_reserve(Script& script, Arguments& arguments) {
  const std::string name(arguments.word());
  const double fraction = arguments.fraction();
  arguments.end();
  script.worked(
      cachalot_set_default_reserve(script.allocator(), name.c_str(), fraction, script.error()));
}

void reserve_of(Script& script, Arguments& arguments) {
  const std::string name = arguments.rest();
  cachalot_reserve reserve{};
  reserve.struct_size = sizeof reserve;
  if (!script.worked(cachalot_get_reserve(script.allocator(), kDevice, name.c_str(), &reserve,
                                          script.error()))) {
    return;
  }
  answer(script, "reserve \"" + name + "\" " +
                     (reserve.has_reserve != 0 ? decimal(reserve.reserve_bytes) : "none") +
                     (reserve.is_class_known != 0 ? " known " : " unknown ") +
                     decimal(reserve.segment_bytes));
}

// ---- Pools --------------------------------------------------------------------------------------

void create_pool(Script& script, Arguments& arguments) {
  const cachalot_pool_id pool = arguments.pool();
  bool use_on_oom = false;
  bool no_split = false;
  const cachalot_pool_source source = script.device()->pool_source();
  cachalot_pool_options options{};
  options.struct_size = sizeof options;
  while (arguments.more()) {
    const std::string_view word = arguments.word();
    if (word != "use_on_oom" && word != "no_split" && word != "own")
      throw InputError("no flag of a pool");
    use_on_oom |= word == "use_on_oom";
    no_split |= word == "no_split";
    if (word == "own") options.source = &source;
  }
  cachalot_allocator* allocator = script.allocator();
  if (!script.worked(cachalot_pool_create(allocator, kDevice, pool, &options, script.error())))
    return;
  if (use_on_oom)
    script.worked(cachalot_pool_set_use_on_oom(allocator, kDevice, pool, 1, script.error()));
  if (no_split) script.worked(cachalot_pool_set_no_split(allocator, kDevice, pool, script.error()));
}

void begin_pool(Script& script, Arguments& arguments) {
  const cachalot_pool_id pool = arguments.pool();
  const cachalot_pool_route route = route_of(arguments);
  script.worked(cachalot_pool_begin(script.allocator(), kDevice, pool, &route, script.error()));
}

void end_pool(Script& script, Arguments& arguments) {
  const cachalot_pool_id pool = arguments.pool();
  arguments.end();
  script.worked(cachalot_pool_end_on_stream(script.allocator(), kDevice, pool,
                                            script.current_stream, script.error()));
}

void release_pool(Script& script, Arguments& arguments) {
  const cachalot_pool_id pool = arguments.pool();
  arguments.end();
  script.worked(cachalot_pool_release(script.allocator(), kDevice, pool, script.error()));
}

void empty_pool(Script& script, Arguments& arguments) {
  const cachalot_pool_id pool = arguments.pool();
  arguments.end();
  script.worked(cachalot_pool_empty_on_stream(script.allocator(), kDevice, pool,
                                              script.current_stream, script.error()));
}

template <int32_t use_on_oom>
void set_pool_use_on_oom(Script& script, Arguments& arguments) {
  const cachalot_pool_id pool = arguments.pool();
  arguments.end();
  script.worked(
      cachalot_pool_set_use_on_oom(script.allocator(), kDevice, pool, use_on_oom, script.error()));
}

void set_pool_no_split(Script& script, Arguments& arguments) {
  const cachalot_pool_id pool = arguments.pool();
  arguments.end();
  script.worked(cachalot_pool_set_no_split(script.allocator(), kDevice, pool, script.error()));
}

void pool_use_count(Script& script, Arguments& arguments) {
  const cachalot_pool_id pool = arguments.pool();
  arguments.end();
  int32_t count = 0;
  if (script.worked(
          cachalot_pool_use_count(script.allocator(), kDevice, pool, &count, script.error()))) {
    answer(script, "count " + decimal(count));
  }
}

void pool_snapshot(Script& script, Arguments& arguments) {
  const cachalot_pool_id pool = arguments.pool();
  arguments.end();
  report_snapshot(script, pool);
}

void pool_live(Script& script, Arguments& arguments) {
  const cachalot_pool_id pool = arguments.pool();
  std::set<cachalot_address> distinct;
  while (arguments.more()) {
    const auto found = script.live.find(arguments.number());
    if (found != script.live.end()) distinct.insert(found->second);
  }
  const std::vector<cachalot_address> addresses(distinct.begin(), distinct.end());
  int32_t equal = 0;
  if (script.worked(cachalot_pool_has_live(script.allocator(), kDevice, pool, addresses.data(),
                                           addresses.size(), &equal, script.error()))) {
    answer(script, std::string("live ") + yes_or_no(equal));
  }
}

void mark_capture_begin(Script& script, Arguments& arguments) {
  arguments.end();
  script.worked(cachalot_capture_begin(script.allocator(), kDevice, script.error()));
}

void mark_capture_end(Script& script, Arguments& arguments) {
  arguments.end();
  script.worked(cachalot_capture_end(script.allocator(), kDevice, script.error()));
}

// ---- The device ---------------------------------------------------------------------------------

void begin_work(Script& script, Arguments& arguments) {
  script.device()->begin_work(arguments.hex());
  arguments.end();
}

void finish_stream(Script& script, Arguments& arguments) {
  script.device()->finish_stream(arguments.hex());
  arguments.end();
}

void finish_oldest(Script& script, Arguments& arguments) {
  script.device()->finish_oldest(arguments.hex());
  arguments.end();
}

void finish_all(Script& script, Arguments& arguments) {
  arguments.end();
  script.device()->finish_all();
}

// The addresses stand in the lines of the calls that got them.
void give_addresses(Script&, Arguments& arguments) {
  while (arguments.more()) arguments.hex();
}

void begin_capture(Script& script, Arguments& arguments) {
  const cachalot_stream stream = arguments.hex();
  const uint64_t capture = arguments.size();
  arguments.end();
  script.device()->begin_capture(stream, capture);
}

void end_capture(Script& script, Arguments& arguments) {
  const uint64_t capture = arguments.size();
  arguments.end();
  script.device()->end_capture(capture);
}

void add_node(Script& script, Arguments& arguments) {
  script.device()->add_node(arguments.hex());
  arguments.end();
}

void fork_capture(Script& script, Arguments& arguments) {
  const cachalot_stream from = arguments.hex();
  const cachalot_stream to = arguments.hex();
  arguments.end();
  script.device()->fork(from, to);
}

void join_capture(Script& script, Arguments& arguments) {
  const cachalot_stream into = arguments.hex();
  const cachalot_stream other = arguments.hex();
  arguments.end();
  script.device()->join(into, other);
}

void fail_allocations(Script& script, Arguments& arguments) {
  const uint64_t count = arguments.size();
  const uint64_t after = arguments.more() ? arguments.size() : 0;
  arguments.end();
  script.device()->fail_allocations(count, after);
}

// fail: makes a call of its kind fail with a code, after so many that work.
template <void (ScriptDevice::*fail)(int32_t code, uint64_t after)>
void fail_call(Script& script, Arguments& arguments) {
  const int32_t code = arguments.small_number();
  const uint64_t after = arguments.more() ? arguments.size() : 0;
  arguments.end();
  (*script.device().*fail)(code, after);
}

void fail_pool_source(Script& script, Arguments& arguments) {
  script.device()->fail_pool_source(arguments.size());
  arguments.end();
}

void set_pending_error(Script& script, Arguments& arguments) {
  script.device()->set_pending_error(arguments.small_number());
  arguments.end();
}

void set_graph_memory(Script& script, Arguments& arguments) {
  const uint64_t used = arguments.size();
  const uint64_t reserved = arguments.size();
  arguments.end();
  script.device()->set_graph_memory(used, reserved);
}

void add_process(Script& script, Arguments& arguments) {
  const uint64_t pid = arguments.size();
  const uint64_t used = arguments.size();
  arguments.end();
  script.device()->add_process(pid, used);
}

void set_fabric_result(Script& script, Arguments& arguments) {
  script.device()->set_fabric_result(arguments.small_number());
  arguments.end();
}

void set_fabric_state(Script& script, Arguments& arguments) {
  script.device()->set_fabric_state(arguments.small_number());
  arguments.end();
}

void set_sharing(Script& script, Arguments& arguments) {
  script.device()->set_sharing(arguments.small_number() != 0);
  arguments.end();
}

// `flush` matters to the oracle only.
bool switch_log_word(Script& script, std::string_view word) {
  LogWords& log = script.log;
  if (word == "observer") return log.observer = true;
  if (word == "rejection") return log.rejection = true;
  if (word == "context") return log.context = true;
  if (word == "metadata") return log.metadata = true;
  if (word == "counter") return log.counter = true;
  if (word == "whole_text") return log.whole_text = true;
  return word == "flush";
}

// 2.11 numbers its segments otherwise, to no effect, so the library has no numbers for it.
void log_more(Script& script, Arguments& arguments) {
  while (arguments.more()) {
    const std::string_view word = arguments.word();
    if (switch_log_word(script, word)) continue;
    if (word != "handles" && word != "query" && word != "capture_mode" && word != "waits") {
      throw InputError("no word of log: '" + std::string(word) + "'");
    }
    script.device()->show(word);
  }
  if (script.log.counter && script.release() < CACHALOT_RELEASE_2_15) {
    throw InputError("log counter is not supported under 2.11");
  }
}

// ---- The table ----------------------------------------------------------------------------------

constexpr int32_t kOld = CACHALOT_RELEASE_2_11;
constexpr int32_t kNew = CACHALOT_RELEASE_2_15;

constexpr OperationKind kKinds[] = {
    {"config", Stage::kSetup, kOld, nullptr},
    {"env", Stage::kSetup, kOld, nullptr},
    {"device", Stage::kSetup, kOld, nullptr},
    {"log", Stage::kAnyTime, kOld, log_more},
    {"fabric", Stage::kAnyTime, kOld, set_fabric_result},
    {"fabric_device", Stage::kAnyTime, kOld, set_fabric_state},
    {"sharing", Stage::kAnyTime, kOld, set_sharing},

    {"a", Stage::kAllocator, kOld, allocate},
    {"raw", Stage::kAllocator, kOld, allocate_raw},
    {"f", Stage::kAllocator, kOld, free_block},
    {"delete", Stage::kAllocator, kOld, free_address},
    {"r", Stage::kAllocator, kOld, record_stream},
    {"work", Stage::kAllocator, kOld, begin_work},
    {"done", Stage::kAllocator, kOld, finish_stream},
    {"step", Stage::kAllocator, kOld, finish_oldest},
    {"sync", Stage::kAllocator, kOld, finish_all},
    {"addresses", Stage::kAllocator, kOld, give_addresses},
    {"empty", Stage::kAllocator, kOld, empty_cache},
    {"fraction", Stage::kAllocator, kOld, set_fraction},
    {"get_fraction", Stage::kAllocator, kOld, get_fraction},
    {"set", Stage::kAllocator, kOld, set_options},
    {"enable", Stage::kAllocator, kOld, switch_caching},
    {"callback", Stage::kAllocator, kOld, arm_callback},
    {"peer", Stage::kAllocator, kOld, enable_peer},
    {"current", Stage::kAllocator, kOld, set_current_stream},
    {"metadata", Stage::kAllocator, kOld, set_metadata},
    {"at", Stage::kAllocator, kNew, allocate_at},
    {"annotate", Stage::kAllocator, kNew, annotate},
    {"annotate_at", Stage::kAllocator, kNew, annotate_at},
    {"reserve_class", Stage::kAllocator, kNew, set_reserve_class},
    {"default_reserve", Stage::kAllocator, kNew, set_default_reserve},
    {"import", Stage::kAllocator, kOld, import_block},
    {"open", Stage::kAllocator, kOld, open_bytes},
    {"import_close", Stage::kAllocator, kOld, close_import},

    {"fail", Stage::kAllocator, kOld, fail_allocations},
    {"error", Stage::kAllocator, kOld, fail_call<&ScriptDevice::fail_once>},
    {"event_error", Stage::kAllocator, kOld, fail_call<&ScriptDevice::fail_event>},
    {"free_error", Stage::kAllocator, kOld, fail_call<&ScriptDevice::fail_host_free>},
    {"pending_error", Stage::kAllocator, kOld, set_pending_error},
    {"own_fail", Stage::kAllocator, kOld, fail_pool_source},
    {"graph_memory", Stage::kAllocator, kOld, set_graph_memory},
    {"process", Stage::kAllocator, kOld, add_process},

    {"ha", Stage::kAllocator, kOld, allocate_pinned},
    {"hf", Stage::kAllocator, kOld, free_pinned},
    {"hr", Stage::kAllocator, kOld, record_pinned},
    {"hr_at", Stage::kAllocator, kOld, record_pinned_at},
    {"host_empty", Stage::kAllocator, kOld, empty_pinned},
    {"host_pool_begin", Stage::kAllocator, kOld, begin_pinned_pool},
    {"host_pool_end", Stage::kAllocator, kOld, end_pinned_pool},
    {"host_pool_release", Stage::kAllocator, kOld, release_pinned_pool},
    {"host_sleep", Stage::kAllocator, kOld, wait_for_background},
    {"host_stats", Stage::kAllocator, kOld, pinned_stats},
    {"host_reset_peak", Stage::kAllocator, kOld, reset_pinned_peak},
    {"host_reset_accumulated", Stage::kAllocator, kOld, reset_pinned_accumulated},

    {"pool_create", Stage::kAllocator, kOld, create_pool},
    {"pool_begin", Stage::kAllocator, kOld, begin_pool},
    {"pool_end", Stage::kAllocator, kOld, end_pool},
    {"pool_release", Stage::kAllocator, kOld, release_pool},
    {"pool_empty", Stage::kAllocator, kOld, empty_pool},
    {"pool_oom_on", Stage::kAllocator, kOld, set_pool_use_on_oom<1>},
    {"pool_oom_off", Stage::kAllocator, kOld, set_pool_use_on_oom<0>},
    {"pool_no_split", Stage::kAllocator, kOld, set_pool_no_split},
    {"pool_count", Stage::kAllocator, kOld, pool_use_count},
    {"pool_snapshot", Stage::kAllocator, kOld, pool_snapshot},
    {"pool_live", Stage::kAllocator, kOld, pool_live},
    {"checkpoint", Stage::kAllocator, kOld, take_checkpoint},
    {"restore", Stage::kAllocator, kOld, restore_checkpoint},
    {"capture", Stage::kAllocator, kOld, begin_capture},
    {"capture_end", Stage::kAllocator, kOld, end_capture},
    {"capture_mark", Stage::kAllocator, kNew, mark_capture_begin},
    {"capture_unmark", Stage::kAllocator, kNew, mark_capture_end},
    {"node", Stage::kAllocator, kOld, add_node},
    {"fork", Stage::kAllocator, kOld, fork_capture},
    {"join", Stage::kAllocator, kOld, join_capture},

    {"stats", Stage::kAllocator, kOld, stats},
    {"snapshot", Stage::kAllocator, kOld, snapshot},
    {"reset_peak", Stage::kAllocator, kOld, reset_peak},
    {"reset_accumulated", Stage::kAllocator, kOld, reset_accumulated},
    {"settings", Stage::kAllocator, kOld, settings},
    {"trace", Stage::kAllocator, kOld, history_entries},
    {"history", Stage::kAllocator, kOld, record_history},
    {"base", Stage::kAllocator, kOld, base_of},
    {"share", Stage::kAllocator, kOld, share_block},
    {"largest", Stage::kAllocator, kOld, largest_block},
    {"expandable_sizes", Stage::kAllocator, kOld, expandable_sizes},
    {"is_enabled", Stage::kAllocator, kOld, is_enabled},
    {"context_of", Stage::kAllocator, kNew, context_of},
    {"supports_metadata", Stage::kAllocator, kNew, supports_metadata},
    {"reserve_class_of", Stage::kAllocator, kNew, reserve_class_of},
    {"reserve_of", Stage::kAllocator, kNew, reserve_of},
    {"expandable_totals", Stage::kAllocator, kNew, expandable_totals},
    {ExpectedFile::kEnd, Stage::kAllocator, kOld, end},
};

}  // namespace

std::span<const OperationKind> operation_kinds() { return kKinds; }

// The operations that scripts mostly consist of stand first in the table.
const OperationKind* find_operation_kind(std::string_view word) {
  const auto* found = std::find_if(std::begin(kKinds), std::end(kKinds),
                                   [&](const OperationKind& kind) { return kind.word == word; });
  return found == std::end(kKinds) ? nullptr : found;
}

}  // namespace cachalot::differential
