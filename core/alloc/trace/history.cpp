// SPDX-License-Identifier: MIT OR Apache-2.0
#include "alloc/trace/history.h"

#include <algorithm>
#include <utility>

#include "base/assert.h"

namespace cachalot {

namespace {

constexpr std::array<const char*, kRecordedActionCount> kActionNames = {
    "alloc",         "free_requested", "free_completed", "segment_alloc", "segment_free",
    "segment_map",   "segment_unmap",  "snapshot",       "oom",           "annotate",
    "live_at_begin", "other_alloc",    "other_free",     "call_end",      "context_end",
    "stream_create", "stream_destroy", "capture_begin",  "capture_end",   "stream_wait",
    "context_wait",  "export",         "recording_end",
};

}  // namespace

// The first ten are the names of PyTorch's snapshots.
const char* action_name(Action action) {
  const auto index = static_cast<size_t>(action);
  return index < kActionNames.size() ? kActionNames[index] : "unknown";
}

// A ring without room could not give next() a place, so the least limit is 1 [core 22.1].
void HistoryRing::set_limit(uint64_t max_entries, bool keep_order) {
  limit_ = std::max<uint64_t>(max_entries, 1);
  if (keep_order) drop_oldest();
  is_full_ = entries_.size() >= limit_;
}

// Down to the limit. The order of entries is that of time afterwards.
void HistoryRing::drop_oldest() {
  CACHALOT_ASSERT(1, next_ == 0 || next_ < entries_.size());
  std::rotate(entries_.begin(), entries_.begin() + static_cast<std::ptrdiff_t>(next_),
              entries_.end());
  next_ = 0;
  if (entries_.size() > limit_)
    entries_.erase(entries_.begin(), entries_.end() - static_cast<std::ptrdiff_t>(limit_));
  CACHALOT_ASSERT(1, entries_.size() <= limit_);
}

// The ring grows as entries come: a large limit takes no memory before it is used.
TraceEntry& HistoryRing::append() {
  TraceEntry& last = entries_.emplace_back();
  is_full_ = entries_.size() >= limit_;
  return last;
}

TraceEntry& HistoryRing::next() {
  if (!is_full_) return append();
  CACHALOT_ASSERT(1, next_ < entries_.size() && entries_.size() >= limit_);
  TraceEntry& oldest = entries_[next_++];
  // After a lower limit the position can be past it: the reference then writes on until behind its
  // buffer.
  if (next_ == limit_ || &oldest == &entries_.back()) next_ = 0;
  return oldest;
}

// The limit stays.
void HistoryRing::clear() {
  entries_.clear();
  next_ = 0;
  is_full_ = false;
}

// Oldest first.
std::vector<TraceEntry> HistoryRing::entries() const {
  CACHALOT_ASSERT(1, next_ == 0 || next_ < entries_.size());
  const auto oldest = entries_.begin() + static_cast<std::ptrdiff_t>(next_);
  std::vector<TraceEntry> ordered(oldest, entries_.end());
  ordered.insert(ordered.end(), entries_.begin(), oldest);
  return ordered;
}

}  // namespace cachalot
