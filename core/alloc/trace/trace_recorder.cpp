// SPDX-License-Identifier: MIT OR Apache-2.0
#include "alloc/trace/trace_recorder.h"

#include <utility>

#include "base/system_time.h"

namespace cachalot {
// Blocks that have kept contexts may keep them for ever, so kContexts stays.
void TraceRecorder::update_flags() {
  flags_.put(kTracing, recording_ || !observers_->trace.empty());
  if (level() != ContextLevel::kNever) flags_.put(kContexts, true);
}

ContextId TraceRecorder::capture_context(ContextLevel of_call) const {
  if (level() < of_call) [[likely]]
    return kNoContext;
  return contexts_.capture ? contexts_.capture() : kNoContext;
}

void TraceRecorder::set_options(const HistoryOptions& options, uint32_t skipped_actions) {
  recording_ = options.enabled;
  ring_.set_limit(options.max_entries, mend_order_);
  skipped_actions_ = skipped_actions;
  level_.store(options.enabled ? options.context : ContextLevel::kNever, std::memory_order_relaxed);
  if (!options.enabled || options.clear) ring_.clear();
  update_flags();
}

void TraceRecorder::skip_actions(bool recording, uint32_t skipped_actions) {
  recording_ = recording;
  skipped_actions_ = skipped_actions;
  update_flags();
}

// Without an observer of entries no entry is made for the set.
std::shared_ptr<const ObserverSet> TraceRecorder::set_observers(
    std::shared_ptr<const ObserverSet> observers) {
  observers_.swap(observers);
  update_flags();
  return observers;
}

void TraceRecorder::make_entry(Action action, Address address, uint64_t size, Stream stream,
                               PoolId pool, ContextId context) {
  add(entry_of_now(action, address, size, stream, pool, context));
}

// The metadata text is shared, not copied: a thread sets it seldom and makes many entries.
TraceEntry TraceRecorder::entry_of_now(Action action, Address address, uint64_t size, Stream stream,
                                       PoolId pool, ContextId context) const {
  return {action,
          device_,
          address,
          size,
          stream,
          pool,
          kept(context),
          microseconds_since_1970(),
          current_metadata(),
          internal_tag_};
}

// Both entries of a free that waits for nothing have one time: the clock is read once.
void TraceRecorder::record_free(Address address, uint64_t size, Stream stream, PoolId pool) {
  TraceEntry entry = entry_of_now(Action::kFreeRequested, address, size, stream, pool, kNoContext);
  add(entry);
  entry.action = Action::kFreeCompleted;
  add(entry);
}

void TraceRecorder::record_annotation(Address address, uint64_t size, Stream stream, PoolId pool,
                                      ContextId context, const std::string& text) {
  // Without history and observers the entry would be for no reader.
  if (!flags_.has(kTracing)) return;
  add({Action::kAnnotate, device_, address, size, stream, pool, kept(context),
       microseconds_since_1970(), std::make_shared<const std::string>(text), ""});
}

// An entry that there is no memory for is lost, and so is what an observer throws: the call that it is
// about goes on, because it has changed something already.
void TraceRecorder::add(const TraceEntry& entry) try {
  for (const auto& [id, observer] : observers_->trace) observer(entry);
  const bool is_skipped = (skipped_actions_ >> static_cast<int>(entry.action) & 1) != 0;
  if (recording_ && !is_skipped) ring_.next() = entry;
} catch (...) {
}

}  // namespace cachalot
