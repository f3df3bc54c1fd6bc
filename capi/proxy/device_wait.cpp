// SPDX-License-Identifier: MIT OR Apache-2.0
#include "device_wait.h"

#include "captures.h"
#include "real_driver.h"

namespace cachalot::proxy {
namespace {

// In the way in which the program has the context's threads wait.
unsigned event_flags() {
  constexpr unsigned kBlockingEvent = 1;
  constexpr unsigned kScheduleMask = 7;
  constexpr unsigned kScheduleBlocking = 4;
  unsigned flags = 0;
  const bool blocks =
      call_real(real().cuCtxGetFlags, &flags) == 0 && (flags & kScheduleMask) == kScheduleBlocking;
  return cuda::kEventDisableTiming | (blocks ? kBlockingEvent : 0);
}

// Null if the driver makes none.
EventHandle make_event(DriverContext* context) {
  EventHandle event = nullptr;
  if (real().cuCtxPushCurrent_v2(context->handle) != 0) return nullptr;
  if (real().cuEventCreate(&event, event_flags()) != 0) event = nullptr;
  Context popped = nullptr;
  real().cuCtxPopCurrent_v2(&popped);
  if (event == nullptr) return nullptr;
  // To give it back needs no memory.
  const std::lock_guard guard(context->events_mutex);
  context->events++;
  context->idle_events.reserve(context->events);
  return event;
}

EventHandle take_event(DriverContext* context) {
  {
    const std::lock_guard guard(context->events_mutex);
    if (!context->idle_events.empty()) {
      EventHandle const event = context->idle_events.back();
      context->idle_events.pop_back();
      return event;
    }
  }
  return make_event(context);
}

// Nothing where a stream is captured, or no event can be had. The event is given back by whoever has it.
std::optional<ContextEvent> try_record(DriverContext* context) {
  Captures& captures = Captures::get();
  if (real().cuCtxRecordEvent == nullptr || context->has_ended || captures.any()) return {};
  EventHandle const event = take_event(context);
  if (event == nullptr) return {};
  Result result = 0;
  if (captures.unless_any([&] { result = real().cuCtxRecordEvent(context->handle, event); }))
    return ContextEvent{event, result};
  give_event(context, event);
  return {};
}

std::optional<Result> synchronize(const DriverContext& context) {
  Result result = 0;
  const bool is_done = !context.has_ended && Captures::get().unless_any([&] {
    result = call_real(real().cuCtxPushCurrent_v2, context.handle);
    if (result != 0) return;
    result = call_real(real().cuCtxSynchronize);
    Context popped = nullptr;
    real().cuCtxPopCurrent_v2(&popped);
  });
  return is_done ? std::optional(result) : std::nullopt;
}

}  // namespace

// make_event has made room.
void give_event(DriverContext* context, EventHandle event) noexcept {
  const std::lock_guard guard(context->events_mutex);
  context->idle_events.push_back(event);
}

std::optional<ContextEvent> record_for_context(DriverContext* context) {
  const std::optional<ContextEvent> recorded = try_record(context);
  if (recorded && recorded->result == 0) return recorded;
  if (recorded) {
    give_event(context, recorded->event);
    return ContextEvent{nullptr, recorded->result};
  }
  const std::optional<Result> waited = synchronize(*context);
  return waited ? std::optional(ContextEvent{nullptr, *waited}) : std::nullopt;
}

std::optional<Result> wait_for_event_of_context(DriverContext* context) {
  const std::optional<ContextEvent> recorded = try_record(context);
  if (!recorded) return {};
  const Result result =
      recorded->result != 0 ? recorded->result : real().cuEventSynchronize(recorded->event);
  give_event(context, recorded->event);
  return result;
}

std::optional<Result> wait_for_context(DriverContext* context) {
  const std::optional<Result> waited = wait_for_event_of_context(context);
  return waited ? waited : synchronize(*context);
}

}  // namespace cachalot::proxy
