// SPDX-License-Identifier: MIT OR Apache-2.0
#include "alloc/pinned/pinned_queue.h"

#include <mutex>
#include <new>

#include "alloc/streams/stream_hash.h"
#include "base/assert.h"
#include "base/reserve.h"
#include "device/driver_error.h"

namespace cachalot {

// ---- Events

PinnedEvents::PinnedEvents(Driver& driver)
    : driver_(driver), events_(static_cast<size_t>(driver.device_count())) {}

PinnedEvents::~PinnedEvents() {
  for (int device = 0; device < driver_.device_count(); device++) destroy_idle(device);
}

void PinnedEvents::destroy_idle(int device) {
  Events& events = events_[static_cast<size_t>(device)];
  const std::lock_guard lock(lock_);
  for (const uint64_t event : events.idle) driver_.event_destroy(device, event);
  events.made -= events.idle.size();
  events.idle.clear();
}

DriverCode PinnedEvents::take(int device, uint64_t* event) {
  Events& events = events_[static_cast<size_t>(device)];
  const std::lock_guard lock(lock_);
  if (!events.idle.empty()) {
    *event = events.idle.back();
    events.idle.pop_back();
    return kSuccess;
  }
  reserve_for(events.idle, events.made + 1);
  const DriverCode code = driver_.event_create(device, event);
  if (code == kSuccess) events.made++;
  return code;
}

// An event that could not be recorded is idle again, as in the reference.
DriverCode PinnedEvents::record(PinnedUse* use) {
  uint64_t event = 0;
  DriverCode code = take(use->device, &event);
  if (code != kSuccess) return code;
  code = driver_.event_record(use->device, event, use->stream);
  use->event = event;
  if (code == kSuccess) return code;
  give_back(*use);
  use->event = 0;
  return code;
}

void PinnedEvents::give_back(const PinnedUse& use) {
  const std::lock_guard lock(lock_);
  events_[static_cast<size_t>(use.device)].idle.push_back(use.event);
}

// ---- Blocks

void PinnedQueue::add(PinnedBlock* block) {
  CACHALOT_ASSERT(1, !block->uses.empty());
  block->is_kept_by_failure = false;
  try {
    if (block->uses.size() > 1)
      order_as_reference(block->uses, [](const PinnedUse& use) { return use.device; });
    record_missing(block);
  } catch (const std::bad_alloc&) {
    // The free is not lost: take_done() records what has no event yet.
  }
  block->uses_done = 0;
  block->next = nullptr;
  const std::lock_guard lock(lock_);
  (first_ == nullptr ? first_ : last_->next) = block;
  last_ = block;
  count_.fetch_add(1, std::memory_order_release);
}

// The reference loses the block here, or ends the process [pinned 8.2].
void PinnedQueue::record_missing(PinnedBlock* block) {
  for (PinnedUse& use : block->uses) {
    if (use.event != 0) continue;
    const DriverCode code = events_.record(&use);
    if (code == kSuccess) continue;
    log_.warn_once("pinned events",
                   "a pinned block that was freed waits until an event can be recorded: " +
                       runtime_error(driver_, code).message());
    return keep_in_spite_of_failure(block, "kept a pinned block whose event could not be recorded");
  }
}

// The reference loses the block where the driver does not tell [pinned 8.1]. Here the next call asks again.
bool PinnedQueue::is_done(PinnedBlock* block, const PinnedUse& use) {
  const DriverCode code = driver_.event_query(use.device, use.event);
  if (code == kNotReady) return false;
  if (code != kSuccess)
    keep_in_spite_of_failure(block, "kept a pinned block whose event could not be asked");
  require_success(driver_, code);
  return true;
}

void PinnedQueue::keep_in_spite_of_failure(PinnedBlock* block, const char* text) {
  if (!block->is_kept_by_failure) log_.differ("U23", text);
  block->is_kept_by_failure = true;
}

PinnedBlock* PinnedQueue::take_first() {
  PinnedBlock* const block = first_;
  first_ = block->next;
  count_.fetch_sub(1, std::memory_order_release);
  return block;
}

PinnedBlock* PinnedQueue::take_done() {
  if (is_empty()) return nullptr;
  const std::lock_guard lock(lock_);
  PinnedBlock* const block = first_;
  if (block == nullptr) return nullptr;
  for (; block->uses_done < block->uses.size(); block->uses_done++) {
    const PinnedUse& use = block->uses[block->uses_done];
    if (use.event == 0) record_missing(block);
    if (use.event == 0 || !is_done(block, use)) return nullptr;
    events_.give_back(use);
  }
  return take_first();
}

PinnedBlock* PinnedQueue::take_waited() {
  const std::lock_guard lock(lock_);
  PinnedBlock* const block = first_;
  if (block == nullptr) return nullptr;
  for (; block->uses_done < block->uses.size(); block->uses_done++) {
    const PinnedUse& use = block->uses[block->uses_done];
    if (use.event == 0) {
      driver_.stream_synchronize(use.device, use.stream);
    } else {
      driver_.event_synchronize(use.device, use.event);
      events_.give_back(use);
    }
  }
  return take_first();
}

}  // namespace cachalot
