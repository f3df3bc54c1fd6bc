// SPDX-License-Identifier: MIT OR Apache-2.0
// The policy of an allocator, pins, the end of streams.
#include "cachalot/policy.h"

#include "core_of.h"
#include "values.h"

using namespace cachalot;
using namespace cachalot::capi;

namespace cachalot::capi {
namespace {

cachalot_policy_stats write_policy_stats(const PolicyStats& stats) {
  return {.struct_size = sizeof(cachalot_policy_stats),
          .pages_created = stats.pages_created,
          .pages_moved = stats.pages_moved,
          .pages_released = stats.pages_released,
          .blocks_borrowed = stats.blocks_borrowed,
          .stream_waits = stats.stream_waits,
          .host_waits = stats.host_waits,
          .pinned_bytes = stats.pinned_bytes};
}

}  // namespace
}  // namespace cachalot::capi

cachalot_status cachalot_policy_read(const char* text, cachalot_policy* out_policy,
                                     cachalot_error* error) {
  return guard(error, [&] {
    if (text == nullptr) throw_null("text");
    write_struct(out_policy, write_policy(parse_policy(text, "policy")), "out_policy");
  });
}

cachalot_status cachalot_get_policy(cachalot_allocator* allocator, cachalot_policy* out_policy,
                                    cachalot_error* error) {
  return guard(error, [&] {
    write_struct(out_policy, write_policy(core_of(allocator).serving()), "out_policy");
  });
}

cachalot_status cachalot_get_policy_stats(cachalot_allocator* allocator, int32_t device,
                                          cachalot_policy_stats* out_stats, cachalot_error* error) {
  return guard(error, [&] {
    write_struct(out_stats, write_policy_stats(core_of(allocator).policy_stats(device)),
                 "out_stats");
  });
}

cachalot_status cachalot_pin(cachalot_allocator* allocator, cachalot_address address, uint64_t size,
                             cachalot_error* error) {
  return guard(error, [&] { core_of(allocator).pin(address, size); });
}

cachalot_status cachalot_unpin(cachalot_allocator* allocator, cachalot_address address,
                               uint64_t size, cachalot_error* error) {
  return guard(error, [&] { core_of(allocator).unpin(address, size); });
}

cachalot_status cachalot_stream_ended(cachalot_allocator* allocator, int32_t device,
                                      cachalot_stream stream, cachalot_error* error) {
  return guard(error, [&] { core_of(allocator).stream_ended(device, stream); });
}
