// SPDX-License-Identifier: MIT OR Apache-2.0
#include "pinned_operations.h"

#include <chrono>
#include <string>
#include <thread>

namespace cachalot::differential {
namespace {

// Sizes above it have no power of two; the reference's text for them is a line of the C++ library.
constexpr uint64_t kLargestSize = uint64_t{1} << 63;

void* to_pointer(cachalot_address address) { return reinterpret_cast<void*>(address); }

// An address that no block begins at is an error of the library's, and an answer of the reference's.
void record(Script& script, cachalot_address address, cachalot_stream stream) {
  const cachalot_status status = cachalot_pinned_record_stream(
      script.allocator(), to_pointer(address), kDevice, stream, script.error());
  if (status != CACHALOT_OK && status != CACHALOT_ERROR_INVALID_ARGUMENT) {
    script.worked(status);
    return;
  }
  script.transcript().add(status == CACHALOT_OK ? "# known" : "# unknown");
}

std::string text_of(const char* name, const cachalot_stat& stat) {
  return std::string("= host_") + name + " " + std::to_string(stat.current) + " " +
         std::to_string(stat.peak) + " " + std::to_string(stat.allocated) + " " +
         std::to_string(stat.freed);
}

}  // namespace

cachalot_pool_route route_of(Arguments& arguments) {
  cachalot_pool_route route{};
  route.struct_size = sizeof route;
  route.kind = CACHALOT_ROUTE_ALL;
  if (arguments.more()) {
    const std::string_view word = arguments.word();
    route.kind = word == "never" ? CACHALOT_ROUTE_NONE : CACHALOT_ROUTE_STREAM;
    if (route.kind == CACHALOT_ROUTE_STREAM) route.stream = parse_hex(word);
  }
  arguments.end();
  return route;
}

void allocate_pinned(Script& script, Arguments& arguments) {
  const int64_t id = arguments.number();
  const uint64_t size = arguments.size();
  arguments.end();
  if (size > kLargestSize) script.exempt_error_text();
  void* memory = nullptr;
  if (!script.worked(cachalot_pinned_allocate_on_stream(
          script.allocator(), size, kDevice, script.current_stream, &memory, script.error())))
    return;
  const auto address = reinterpret_cast<cachalot_address>(memory);
  script.transcript().add("R " + hex(address));
  script.free_pinned(id);
  script.pinned[id] = address;
}

void free_pinned(Script& script, Arguments& arguments) {
  const int64_t id = arguments.number();
  arguments.end();
  script.free_pinned(id);
}

void record_pinned(Script& script, Arguments& arguments) {
  const auto found = script.pinned.find(arguments.number());
  const cachalot_stream stream = arguments.hex();
  arguments.end();
  if (found != script.pinned.end()) record(script, found->second, stream);
}

void record_pinned_at(Script& script, Arguments& arguments) {
  const auto found = script.pinned.find(arguments.number());
  const cachalot_stream stream = arguments.hex();
  const uint64_t offset = arguments.size();
  arguments.end();
  if (found != script.pinned.end()) record(script, found->second + offset, stream);
}

void empty_pinned(Script& script, Arguments& arguments) {
  arguments.end();
  script.worked(cachalot_pinned_empty_cache(script.allocator(), script.error()));
}

void begin_pinned_pool(Script& script, Arguments& arguments) {
  const cachalot_pool_id pool = arguments.pool();
  const cachalot_pool_route route = route_of(arguments);
  script.worked(
      cachalot_pinned_pool_begin(script.allocator(), kDevice, pool, &route, script.error()));
}

void end_pinned_pool(Script& script, Arguments& arguments) {
  const cachalot_pool_id pool = arguments.pool();
  arguments.end();
  script.worked(cachalot_pinned_pool_end(script.allocator(), pool, script.error()));
}

void release_pinned_pool(Script& script, Arguments& arguments) {
  const cachalot_pool_id pool = arguments.pool();
  arguments.end();
  const cachalot_status status =
      cachalot_pinned_pool_release(script.allocator(), pool, script.error());
  // The reference's text for a pool that it does not know is a line of the C++ library.
  if (status == CACHALOT_ERROR_INVALID_ARGUMENT) script.exempt_error_text();
  script.worked(status);
}

void wait_for_background(Script&, Arguments& arguments) {
  const int32_t milliseconds = arguments.small_number();
  arguments.end();
  std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
}

void pinned_stats(Script& script, Arguments& arguments) {
  arguments.end();
  cachalot_pinned_stats stats{};
  stats.struct_size = sizeof stats;
  if (!script.worked(cachalot_pinned_get_stats(script.allocator(), &stats, script.error()))) return;
  Transcript& transcript = script.transcript();
  transcript.add(text_of("allocations", stats.allocations));
  transcript.add(text_of("allocated_bytes", stats.allocated_bytes));
  transcript.add(text_of("active_requests", stats.active_requests));
  transcript.add(text_of("active_bytes", stats.active_bytes));
  transcript.add("= host_counters alloc " + std::to_string(stats.allocations.allocated) + " free " +
                 std::to_string(stats.allocations.freed) + " alloc_times " +
                 std::to_string(stats.allocate_times.count) + " free_times " +
                 std::to_string(stats.free_times.count));
}

void reset_pinned_peak(Script& script, Arguments& arguments) {
  arguments.end();
  script.worked(cachalot_pinned_reset_peak_stats(script.allocator(), script.error()));
}

void reset_pinned_accumulated(Script& script, Arguments& arguments) {
  arguments.end();
  script.worked(cachalot_pinned_reset_accumulated_stats(script.allocator(), script.error()));
}

}  // namespace cachalot::differential
