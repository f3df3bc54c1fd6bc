// SPDX-License-Identifier: MIT OR Apache-2.0
// The history of one device: which entries it makes, which of them observers see, and which it keeps
// [core 22].
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "alloc/config/rules.h"
#include "alloc/sync/slow_path_flags.h"
#include "alloc/trace/contexts.h"
#include "alloc/trace/history.h"
#include "alloc/trace/observers.h"

namespace cachalot {

// A caller's request to record. Unknown names of actions are an error [core 22.3].
struct HistoryOptions {
  bool enabled = false;
  ContextLevel context = ContextLevel::kNever;
  uint64_t max_entries = 1;
  bool clear = false;
  std::vector<std::string> skip_actions;
};

// Owns the ring and the level of contexts. The level alone is atomic: capture_context() reads it
// without a lock, and a call that reads an old one keeps or lacks one context. Invariant: kTracing
// is set exactly while an entry would be kept or seen.
// pre of the functions that are not const: the whole device.
class TraceRecorder : private SlowPath {
 public:
  TraceRecorder(const ContextSource& contexts, const Rules& rules, int device, SlowPathFlags& flags)
      : contexts_(contexts),
        mend_order_(rules.mend_history_order),
        device_(device),
        flags_(flags) {}

  // The context of a call, where the level asks for one. Called before a lock is taken, because it may
  // be slow and may run the caller's code. Any thread.
  ContextId capture_context(ContextLevel level) const;

  // Another limit keeps the entries that are there, and with it the reference's order [core 22.1, U11].
  void set_options(const HistoryOptions& options, uint32_t skipped_actions);
  // A request that names an unknown action fails, and yet this part of it takes effect [core 22.3].
  void skip_actions(bool recording, uint32_t skipped_actions);
  // Observers see each entry, also one that is not kept. Gives the former set.
  std::shared_ptr<const ObserverSet> set_observers(std::shared_ptr<const ObserverSet> observers);
  // Of all kinds; never null.
  const std::shared_ptr<const ObserverSet>& observers() const { return observers_; }

  void record(Action action, Address address, uint64_t size, Stream stream, PoolId pool,
              ContextId context) {
    if (flags_.has(kTracing)) [[unlikely]]
      make_entry(action, address, size, stream, pool, context);
  }
  // A free that is requested and completed at once.
  void record_free(Address address, uint64_t size, Stream stream, PoolId pool);
  void record_annotation(Address address, uint64_t size, Stream stream, PoolId pool,
                         ContextId context, const std::string& text);
  // Of the entries that are made from now on (R48); "": none.
  void set_internal_tag(const char* tag) { internal_tag_ = tag; }
  std::vector<TraceEntry> entries() const { return ring_.entries(); }

 private:
  ContextLevel level() const { return level_.load(std::memory_order_relaxed); }
  ContextId kept(ContextId context) const {
    return level() >= ContextLevel::kAlloc ? context : kNoContext;
  }
  void update_flags();
  void make_entry(Action action, Address address, uint64_t size, Stream stream, PoolId pool,
                  ContextId context);
  TraceEntry entry_of_now(Action action, Address address, uint64_t size, Stream stream, PoolId pool,
                          ContextId context) const;
  void add(const TraceEntry& entry);

  const ContextSource& contexts_;
  const bool mend_order_;
  const int device_;
  SlowPathFlags& flags_;
  std::atomic<ContextLevel> level_{ContextLevel::kNever};
  bool recording_ = false;
  uint32_t skipped_actions_ = 0;  // a bit for each
  const char* internal_tag_ = "";
  HistoryRing ring_;
  std::shared_ptr<const ObserverSet> observers_ = std::make_shared<const ObserverSet>();
};

}  // namespace cachalot
