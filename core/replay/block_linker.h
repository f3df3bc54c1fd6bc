// SPDX-License-Identifier: MIT OR Apache-2.0
// Finds, while a trace is read, which hand-out each free belongs to, so that a replay needs no
// search.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "replay/live_blocks.h"
#include "replay/trace.h"

namespace cachalot {

class BlockLinker {
 public:
  // From now on events may tell that a context has ended. Before the first event.
  void let_contexts_end() { can_contexts_end_ = true; }
  // Sets event->block; events come in their order. After one that cannot have happened nothing is
  // linked.
  void link(TraceEvent* event, uint32_t index);
  // Hands over what was found when all events have come.
  void finish(Trace* trace);

 private:
  // What the last events of a device leave for its next.
  struct DeviceState {
    Address requested_address = 0;
    uint32_t requested = kNoIndex;    // the event before requested this free
    bool is_after_late_free = false;  // the event before completed a late one
    bool has_begun = false;           // other events have come than of blocks that were live before
    std::vector<Address> handed_out;  // since its context ended last, where contexts can end
  };

  void begin_live(TraceEvent* event, uint32_t index);
  void hand_out(TraceEvent* event, uint32_t index);
  void request_free(TraceEvent* event, uint32_t index);
  void complete_free(TraceEvent* event, uint32_t index);
  void end_context(uint8_t device);
  void mark_late(DeviceState* state, uint8_t device);
  uint32_t take_slot();
  void note_flaw(const TraceEvent& event, uint32_t index, const char* what);

  LiveBlocks live_;
  uint32_t slots_ = 0;
  std::vector<uint32_t> free_slots_;
  std::vector<LateFree> late_frees_;
  std::array<DeviceState, kMaxTraceDevices> devices_;
  bool can_contexts_end_ = false;
  std::string flaw_;
  uint32_t flawed_ = kNoIndex;  // the index of the event that it tells of
};

}  // namespace cachalot
