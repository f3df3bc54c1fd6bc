// SPDX-License-Identifier: MIT OR Apache-2.0
// History, contexts, labels, observers.
#include "cachalot/history.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "alloc/trace/contexts.h"
#include "core_of.h"
#include "values.h"

namespace cachalot::capi {
namespace {

static_assert(CACHALOT_CONTEXT_LEVEL_ALL == static_cast<int32_t>(ContextLevel::kAll));

// "a,b" is a and b; "" is no name at all.
std::vector<std::string> split_names(std::string_view text) {
  std::vector<std::string> names;
  while (!text.empty()) {
    const size_t comma = std::min(text.find(','), text.size());
    if (comma == 0 || comma + 1 == text.size())
      throw_invalid_argument("skip_actions has an empty name");
    names.emplace_back(text.substr(0, comma));
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return names;
}

HistoryOptions read_history_options(const cachalot_history_options& in) {
  HistoryOptions options;
  options.enabled = read_flag(in.enabled, "enabled");
  options.context = static_cast<ContextLevel>(
      read_choice(in.context, CACHALOT_CONTEXT_LEVEL_NEVER, CACHALOT_CONTEXT_LEVEL_ALL, "context"));
  options.max_entries = in.max_entries == 0 ? 1 : in.max_entries;
  options.clear = read_flag(in.clear, "clear");
  if (in.skip_actions != nullptr) options.skip_actions = split_names(in.skip_actions);
  return options;
}

cachalot_out_of_memory write_numbers(const OutOfMemory& numbers) {
  return {.struct_size = sizeof(cachalot_out_of_memory),
          .device = numbers.device,
          .reserved_0 = 0,
          .stream = numbers.stream,
          .requested = numbers.requested,
          .segment_size = numbers.segment_size,
          .device_free = numbers.device_free,
          .device_total = numbers.device_total,
          .limit = numbers.limit,
          .allocated = numbers.allocated,
          .reserved = numbers.reserved,
          .private_pools_free = numbers.private_pools_free,
          .largest_free_block = numbers.largest_free_block};
}

cachalot_rejection write_rejection(const Rejection& rejection) {
  return {.struct_size = sizeof(cachalot_rejection),
          .device = rejection.device,
          .reserved_0 = 0,
          .segment_size = rejection.segment_size,
          .reserved = rejection.reserved,
          .device_total = rejection.device_total};
}

// What the functions that attach something share: `attach` gets the core and the owned user data,
// and returns the id. The data is owned before anything can fail.
template <class Function, class Attach>
cachalot_status attach_function(cachalot_allocator* allocator, Function function, void* user_data,
                                void (*destroy)(void*), uint64_t* out_id, cachalot_error* error,
                                Attach attach) {
  return guard(error, [&] {
    std::shared_ptr<void> data = own(user_data, destroy);
    Allocator& core = core_of(allocator);
    if (function == nullptr) throw_null("the function to attach");
    const uint64_t id = attach(core, std::move(data));
    if (out_id != nullptr) *out_id = id;
  });
}

}  // namespace
}  // namespace cachalot::capi

using namespace cachalot;
using namespace cachalot::capi;

const char* cachalot_action_name(int32_t action) {
  if (action < 0 || action >= kRecordedActionCount) return "unknown";
  return action_name(static_cast<Action>(action));
}

cachalot_status cachalot_record_history(cachalot_allocator* allocator,
                                        const cachalot_history_options* options,
                                        cachalot_error* error) {
  return guard(error, [&] {
    Allocator& core = core_of(allocator);
    core.record_history(read_history_options(read_options(&require(options, "options"))));
  });
}

cachalot_status cachalot_context_of(cachalot_allocator* allocator, cachalot_address address,
                                    uint64_t* out_context, cachalot_error* error) {
  return guard(error, [&] {
    Allocator& core = core_of(allocator);
    require(out_context, "out_context") = core.context_of(address);
  });
}

cachalot_status cachalot_context_text(cachalot_allocator* allocator, uint64_t context, char* buffer,
                                      size_t capacity, size_t* out_length, cachalot_error* error) {
  return guard(error, [&] {
    const ContextSource& contexts = core_of(allocator).contexts();
    const bool is_known = context != kNoContext && contexts.describe;
    write_text(buffer, capacity, out_length, is_known ? contexts.describe(context) : "");
  });
}

cachalot_status cachalot_annotate(cachalot_allocator* allocator, cachalot_address address,
                                  const char* text, cachalot_error* error) {
  return guard(error, [&] {
    Allocator& core = core_of(allocator);
    core.annotate(address, &require(text, "text"));
  });
}

cachalot_status cachalot_set_metadata(const char* text, cachalot_error* error) {
  return guard(error, [&] { set_metadata(text); });
}

cachalot_status cachalot_label_push(const char* label, cachalot_error* error) {
  return guard(error, [&] {
    if (require(label, "label") == '\0') throw_invalid_argument("label is empty");
    push_label(label);
  });
}

cachalot_status cachalot_label_pop(cachalot_error* error) {
  return guard(error, [&] {
    if (!pop_label()) throw_invalid_state("this thread has no label");
  });
}

cachalot_status cachalot_observe_trace(cachalot_allocator* allocator,
                                       cachalot_trace_observer_fn observer, void* user_data,
                                       void (*destroy)(void* user_data), uint64_t* out_id,
                                       cachalot_error* error) {
  return attach_function(
      allocator, observer, user_data, destroy, out_id, error,
      [&](Allocator& core, std::shared_ptr<void> data) {
        return core.observe_trace([observer, data = std::move(data)](const TraceEntry& entry) {
          const cachalot_trace_entry out = write_trace_entry(entry);
          observer(data.get(), &out);
        });
      });
}

cachalot_status cachalot_observe_out_of_memory(cachalot_allocator* allocator,
                                               cachalot_out_of_memory_observer_fn observer,
                                               void* user_data, void (*destroy)(void* user_data),
                                               uint64_t* out_id, cachalot_error* error) {
  return attach_function(allocator, observer, user_data, destroy, out_id, error,
                         [&](Allocator& core, std::shared_ptr<void> data) {
                           return core.observe_out_of_memory(
                               [observer, data = std::move(data)](const OutOfMemory& numbers) {
                                 const cachalot_out_of_memory out = write_numbers(numbers);
                                 observer(data.get(), &out);
                               });
                         });
}

cachalot_status cachalot_observe_rejection(cachalot_allocator* allocator,
                                           cachalot_rejection_observer_fn observer, void* user_data,
                                           void (*destroy)(void* user_data), uint64_t* out_id,
                                           cachalot_error* error) {
  return attach_function(allocator, observer, user_data, destroy, out_id, error,
                         [&](Allocator& core, std::shared_ptr<void> data) {
                           return core.observe_rejection(
                               [observer, data = std::move(data)](const Rejection& rejection) {
                                 const cachalot_rejection out = write_rejection(rejection);
                                 observer(data.get(), &out);
                               });
                         });
}

cachalot_status cachalot_register_free_memory_callback(cachalot_allocator* allocator,
                                                       cachalot_free_memory_fn callback,
                                                       void* user_data,
                                                       void (*destroy)(void* user_data),
                                                       uint64_t* out_id, cachalot_error* error) {
  return attach_function(allocator, callback, user_data, destroy, out_id, error,
                         [&](Allocator& core, std::shared_ptr<void> data) {
                           return core.register_free_memory_callback(
                               [callback, data = std::move(data)](int device, uint64_t size) {
                                 return callback(data.get(), device, size) != 0;
                               });
                         });
}

cachalot_status cachalot_detach(cachalot_allocator* allocator, uint64_t id, cachalot_error* error) {
  return guard(error, [&] {
    cachalot_allocator& live = require(allocator, "allocator");
    if (!live.recorders.stop(id)) live.core.detach(id);
  });
}
