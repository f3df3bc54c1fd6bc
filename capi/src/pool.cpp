// SPDX-License-Identifier: MIT OR Apache-2.0
// Private pools, captures, expandable segments.
#include "cachalot/pool.h"

#include <algorithm>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "core_of.h"
#include "pool_filter.h"
#include "values.h"

namespace cachalot::capi {
namespace {

constexpr uint32_t kEveryPoolFlag = CACHALOT_POOL_USE_ON_OOM | CACHALOT_POOL_NO_SPLIT |
                                    CACHALOT_POOL_PINNED | CACHALOT_POOL_WHOLE_BLOCKS;

// A pool's source of segments that a caller gave as functions.
class CallerSource final : public PoolSource {
 public:
  CallerSource(const cachalot_pool_source& functions, std::shared_ptr<void> user_data)
      : functions_(functions), user_data_(std::move(user_data)) {}

  Address allocate(uint64_t size, int device, Stream stream) override {
    return functions_.allocate(user_data_.get(), size, device, stream);
  }
  void free(Address address, uint64_t size, int device, Stream stream) override {
    functions_.free(user_data_.get(), address, size, device, stream);
  }

 private:
  const cachalot_pool_source functions_;
  const std::shared_ptr<void> user_data_;
};

std::shared_ptr<PoolSource> read_source(const cachalot_pool_source& source,
                                        std::shared_ptr<void> user_data) {
  if (source.allocate == nullptr) throw_null("source->allocate");
  if (source.free == nullptr) throw_null("source->free");
  return std::make_shared<CallerSource>(source, std::move(user_data));
}

PoolOptions read_pool_options(const cachalot_pool_options& in) {
  PoolOptions options;
  if (in.source != nullptr) {
    const cachalot_pool_source source = read_options(in.source, "source");
    options.source = read_source(source, own(source.user_data, source.destroy));
  }
  const uint32_t flags = read_bits(in.flags, kEveryPoolFlag, "flags");
  options.use_on_oom = (flags & CACHALOT_POOL_USE_ON_OOM) != 0;
  options.no_split = (flags & CACHALOT_POOL_NO_SPLIT) != 0;
  options.is_pinned = (flags & CACHALOT_POOL_PINNED) != 0;
  options.whole_blocks = (flags & CACHALOT_POOL_WHOLE_BLOCKS) != 0;
  return options;
}

cachalot_expandable_segment write_expandable(const ExpandableSegmentRow& row) {
  return {.stream = row.stream,
          .mapped_size = row.mapped_size,
          .is_small = row.is_small,
          .reserved_0 = 0};
}

cachalot_reserve write_reserve(const ReserveDecision& decision) {
  return {.struct_size = sizeof(cachalot_reserve),
          .has_reserve = decision.reserve_bytes.has_value(),
          .is_class_known = decision.is_class_known,
          .reserve_bytes = decision.reserve_bytes.value_or(0),
          .segment_bytes = decision.segment_bytes};
}

const char* text_or_empty(const char* text) { return text != nullptr ? text : ""; }

}  // namespace
}  // namespace cachalot::capi

using namespace cachalot;
using namespace cachalot::capi;

cachalot_status cachalot_pool_new_id(cachalot_allocator* allocator, int32_t for_graph,
                                     cachalot_pool_id* out_id, cachalot_error* error) {
  return guard(error, [&] {
    Allocator& core = core_of(allocator);
    cachalot_pool_id& out = require(out_id, "out_id");
    out = write_pool_id(core.new_pool_id(read_flag(for_graph, "for_graph")));
  });
}

cachalot_status cachalot_pool_create(cachalot_allocator* allocator, int32_t device,
                                     cachalot_pool_id id, const cachalot_pool_options* options,
                                     cachalot_error* error) {
  return guard(error, [&] {
    PoolOptions in = read_pool_options(read_options(options));
    Allocator& core = core_of(allocator);
    if (in.source && allocator->is_of_another)
      throw_not_supported("pools of pinned memory have no source of their own");
    core.pool_create(device, read_pool_id(id), std::move(in));
  });
}

cachalot_status cachalot_pool_begin(cachalot_allocator* allocator, int32_t device,
                                    cachalot_pool_id id, const cachalot_pool_route* route,
                                    cachalot_error* error) {
  return guard(error, [&] {
    const CallerRoute in(route);
    Allocator& core = core_of(allocator);
    core.pool_begin(device, read_pool_id(id), in.filter(core.driver(), device));
  });
}

cachalot_status cachalot_pool_end(cachalot_allocator* allocator, int32_t device,
                                  cachalot_pool_id id, cachalot_error* error) {
  return guard(error, [&] { core_of(allocator).pool_end(device, read_pool_id(id)); });
}

cachalot_status cachalot_pool_end_on_stream(cachalot_allocator* allocator, int32_t device,
                                            cachalot_pool_id id, cachalot_stream current_stream,
                                            cachalot_error* error) {
  return guard(error,
               [&] { core_of(allocator).pool_end(device, read_pool_id(id), current_stream); });
}

cachalot_status cachalot_pool_release(cachalot_allocator* allocator, int32_t device,
                                      cachalot_pool_id id, cachalot_error* error) {
  return guard(error, [&] { core_of(allocator).pool_release(device, read_pool_id(id)); });
}

cachalot_status cachalot_pool_empty(cachalot_allocator* allocator, int32_t device,
                                    cachalot_pool_id id, cachalot_error* error) {
  return guard(error, [&] { core_of(allocator).empty_cache(device, read_pool_id(id)); });
}

cachalot_status cachalot_pool_empty_on_stream(cachalot_allocator* allocator, int32_t device,
                                              cachalot_pool_id id, cachalot_stream current_stream,
                                              cachalot_error* error) {
  return guard(error,
               [&] { core_of(allocator).empty_cache(device, read_pool_id(id), current_stream); });
}

cachalot_status cachalot_pool_set_use_on_oom(cachalot_allocator* allocator, int32_t device,
                                             cachalot_pool_id id, int32_t use_on_oom,
                                             cachalot_error* error) {
  return guard(error, [&] {
    const bool use = read_flag(use_on_oom, "use_on_oom");
    core_of(allocator).pool_set_use_on_oom(device, read_pool_id(id), use);
  });
}

cachalot_status cachalot_pool_set_no_split(cachalot_allocator* allocator, int32_t device,
                                           cachalot_pool_id id, cachalot_error* error) {
  return guard(error, [&] { core_of(allocator).pool_set_no_split(device, read_pool_id(id)); });
}

cachalot_status cachalot_pool_set_pinned(cachalot_allocator* allocator, int32_t device,
                                         cachalot_pool_id id, int32_t pinned,
                                         cachalot_error* error) {
  return guard(error, [&] {
    const bool is_pinned = read_flag(pinned, "pinned");
    core_of(allocator).pool_set_pinned(device, read_pool_id(id), is_pinned);
  });
}

cachalot_status cachalot_pool_set_whole_blocks(cachalot_allocator* allocator, int32_t device,
                                               cachalot_pool_id id, cachalot_error* error) {
  return guard(error, [&] { core_of(allocator).pool_set_whole_blocks(device, read_pool_id(id)); });
}

cachalot_status cachalot_pool_use_count(cachalot_allocator* allocator, int32_t device,
                                        cachalot_pool_id id, int32_t* out_count,
                                        cachalot_error* error) {
  return guard(error, [&] {
    Allocator& core = core_of(allocator);
    int32_t& out = require(out_count, "out_count");
    out = core.pool_use_count(device, read_pool_id(id));
  });
}

cachalot_status cachalot_pool_has_live(cachalot_allocator* allocator, int32_t device,
                                       cachalot_pool_id id, const cachalot_address* addresses,
                                       size_t count, int32_t* out_equal, cachalot_error* error) {
  return guard(error, [&] {
    Allocator& core = core_of(allocator);
    int32_t& equal = require(out_equal, "out_equal");
    if (count > 0) require(addresses, "addresses");
    equal = core.pool_has_live(device, read_pool_id(id), {addresses, addresses + count});
  });
}

cachalot_status cachalot_capture_begin(cachalot_allocator* allocator, int32_t device,
                                       cachalot_error* error) {
  return guard(error, [&] { core_of(allocator).capture_begin(device); });
}

cachalot_status cachalot_capture_end(cachalot_allocator* allocator, int32_t device,
                                     cachalot_error* error) {
  return guard(error, [&] { core_of(allocator).capture_end(device); });
}

cachalot_status cachalot_expandable_segments(cachalot_allocator* allocator, int32_t device,
                                             cachalot_expandable_segment* rows, size_t capacity,
                                             size_t* out_count, cachalot_error* error) {
  return guard(error, [&] {
    Allocator& core = core_of(allocator);
    size_t& count = require(out_count, "out_count");
    if (capacity > 0) require(rows, "rows");
    const auto segments = core.expandable_segments(device);
    count = segments.size();
    for (size_t i = 0; i < std::min(capacity, count); i++) rows[i] = write_expandable(segments[i]);
  });
}

cachalot_status cachalot_expandable_totals(cachalot_allocator* allocator, uint64_t* out_bytes,
                                           uint64_t* out_count, cachalot_error* error) {
  return guard(error, [&] {
    Allocator& core = core_of(allocator);
    uint64_t& bytes = require(out_bytes, "out_bytes");
    uint64_t& count = require(out_count, "out_count");
    std::tie(bytes, count) = core.expandable_totals();
  });
}

cachalot_status cachalot_set_reserve_class(cachalot_allocator* allocator, cachalot_stream stream,
                                           const char* name, cachalot_error* error) {
  return guard(error, [&] { core_of(allocator).set_reserve_class(stream, text_or_empty(name)); });
}

cachalot_status cachalot_get_reserve_class(cachalot_allocator* allocator, cachalot_stream stream,
                                           char* buffer, size_t capacity, size_t* out_length,
                                           cachalot_error* error) {
  return guard(error, [&] {
    write_text(buffer, capacity, out_length, core_of(allocator).reserve_class(stream));
  });
}

cachalot_status cachalot_set_default_reserve(cachalot_allocator* allocator, const char* name,
                                             double fraction, cachalot_error* error) {
  return guard(error, [&] {
    Allocator& core = core_of(allocator);
    core.set_default_reserve(&require(name, "name"), fraction);
  });
}

cachalot_status cachalot_get_reserve(cachalot_allocator* allocator, int32_t device,
                                     const char* name, cachalot_reserve* out_reserve,
                                     cachalot_error* error) {
  return guard(error, [&] {
    const ReserveDecision decision = core_of(allocator).reserve(device, text_or_empty(name));
    write_struct(out_reserve, write_reserve(decision), "out_reserve");
  });
}
