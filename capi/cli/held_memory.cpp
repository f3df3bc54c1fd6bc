// SPDX-License-Identifier: MIT OR Apache-2.0
#include "held_memory.h"

#include <algorithm>

namespace cachalot::cli {

void HeldMemories::see(const cachalot_trace_event& event) {
  const auto index = static_cast<size_t>(event.device);
  if (index >= devices_.size()) devices_.resize(index + 1);
  Device& device = devices_[index];
  HeldMemory& held = device.held;
  switch (event.action) {
    case CACHALOT_ACTION_ALLOC:
    case CACHALOT_ACTION_LIVE_AT_BEGIN:
      return add(&device.blocks, &held.requested, event);
    case CACHALOT_ACTION_FREE_REQUESTED:
      return remove(&device.blocks, &held.requested, event.address);
    case CACHALOT_ACTION_OTHER_ALLOC:
      return add(&device.others, &held.other, event);
    case CACHALOT_ACTION_OTHER_FREE:
      return remove(&device.others, &held.other, event.address);
    case CACHALOT_ACTION_SEGMENT_ALLOC:
    case CACHALOT_ACTION_SEGMENT_MAP:
      held.reserved += event.size;
      return;
    case CACHALOT_ACTION_SEGMENT_FREE:
    case CACHALOT_ACTION_SEGMENT_UNMAP:
      held.reserved -= std::min(held.reserved, event.size);
      return;
    case CACHALOT_ACTION_CONTEXT_END:
      if (event.address == 0) device = {};
      return;
    default:
      return;
  }
}

void HeldMemories::add(std::unordered_map<uint64_t, uint64_t>* live, uint64_t* sum,
                       const cachalot_trace_event& event) {
  remove(live, sum, event.address);
  live->emplace(event.address, event.size);
  *sum += event.size;
}

void HeldMemories::remove(std::unordered_map<uint64_t, uint64_t>* live, uint64_t* sum,
                          uint64_t address) {
  const auto found = live->find(address);
  if (found == live->end()) return;
  *sum -= found->second;
  live->erase(found);
}

}  // namespace cachalot::cli
