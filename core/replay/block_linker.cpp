// SPDX-License-Identifier: MIT OR Apache-2.0
#include "replay/block_linker.h"

#include <utility>

#include "base/assert.h"
#include "base/text.h"
#include "replay/stream_choice.h"

namespace cachalot {
void BlockLinker::link(TraceEvent* event, uint32_t index) {
  event->block = kNoBlock;
  if (!flaw_.empty()) return;
  CACHALOT_ASSERT(1, event->device < kMaxTraceDevices);
  DeviceState& state = devices_[event->device];
  const Action action = event->action();
  const bool completes = action == Action::kFreeCompleted;
  if (state.requested != kNoIndex) {
    if (!completes || event->address != state.requested_address) mark_late(&state, event->device);
    state.requested = kNoIndex;
  }
  state.is_after_late_free = state.is_after_late_free && completes;
  if (action == Action::kLiveAtBegin) return begin_live(event, index);
  state.has_begun = true;
  if (action == Action::kAlloc)
    hand_out(event, index);
  else if (action == Action::kFreeRequested)
    request_free(event, index);
  else if (action == Action::kFreeCompleted)
    complete_free(event, index);
  else if (action == Action::kContextEnd && event->address == 0)
    end_context(event->device);
}

void BlockLinker::finish(Trace* trace) {
  for (uint8_t device = 0; device < kMaxTraceDevices; device++)
    if (devices_[device].requested != kNoIndex) mark_late(&devices_[device], device);
  if (flawed_ != kNoIndex) flaw_ = line_name(trace->line_of(flawed_)) + ": " + flaw_;
  if (!choose_streams(&late_frees_) && flaw_.empty())
    flaw_ = format("more than %zu streams would be at work at a time", kMaxMadeUpStreams);
  trace->block_slots = slots_;
  trace->late_frees = std::move(late_frees_);
  trace->flaw = std::move(flaw_);
}

void BlockLinker::begin_live(TraceEvent* event, uint32_t index) {
  if (devices_[event->device].has_begun)
    return note_flaw(*event, index, "was live before the recording, but comes behind other events");
  hand_out(event, index);
}

void BlockLinker::hand_out(TraceEvent* event, uint32_t index) {
  if (event->address == 0) return note_flaw(*event, index, "is no address of a block");
  if (live_.find(event->address, event->device) != nullptr)
    return note_flaw(*event, index, "is handed out while it is in use");
  event->block = take_slot();
  live_.insert({.address = event->address, .slot = event->block, .device = event->device});
  if (can_contexts_end_) devices_[event->device].handed_out.push_back(event->address);
}

void BlockLinker::request_free(TraceEvent* event, uint32_t index) {
  LiveBlock* const block = live_.find(event->address, event->device);
  if (block == nullptr) return note_flaw(*event, index, "is freed but is not live");
  if (block->is_freed) return note_flaw(*event, index, "is freed twice");
  block->is_freed = true;
  event->block = block->slot;
  devices_[event->device].requested_address = event->address;
  devices_[event->device].requested = index;
}

void BlockLinker::complete_free(TraceEvent* event, uint32_t index) {
  LiveBlock* const block = live_.find(event->address, event->device);
  if (block == nullptr || !block->is_freed)
    return note_flaw(*event, index, "completes a free that was not requested");
  if (block->late_free != kNoIndex) {
    CACHALOT_ASSERT(1, block->late_free < late_frees_.size());
    bool& is_after_late_free = devices_[event->device].is_after_late_free;
    late_frees_[block->late_free].completed = index;
    late_frees_[block->late_free].is_with_previous = is_after_late_free;
    is_after_late_free = true;
  }
  event->block = block->slot;
  free_slots_.push_back(block->slot);
  live_.erase(block);
}

// Its blocks are gone, also those whose frees were not completed.
void BlockLinker::end_context(uint8_t device) {
  for (const Address address : std::exchange(devices_[device].handed_out, {})) {
    LiveBlock* const block = live_.find(address, device);
    if (block == nullptr) continue;
    free_slots_.push_back(block->slot);
    live_.erase(block);
  }
}

void BlockLinker::mark_late(DeviceState* state, uint8_t device) {
  LiveBlock* const block = live_.find(state->requested_address, device);
  CACHALOT_ASSERT(1, block != nullptr && block->is_freed);
  block->late_free = static_cast<uint32_t>(late_frees_.size());
  late_frees_.push_back({.requested = state->requested, .device = device});
}

uint32_t BlockLinker::take_slot() {
  if (free_slots_.empty()) return slots_++;
  const uint32_t slot = free_slots_.back();
  free_slots_.pop_back();
  return slot;
}

void BlockLinker::note_flaw(const TraceEvent& event, uint32_t index, const char* what) {
  flaw_ = hex_address(event.address) + " " + what;
  flawed_ = index;
}

}  // namespace cachalot
