// SPDX-License-Identifier: MIT OR Apache-2.0
// The parts of safe debugging (memory_watch.h).
#pragma once

namespace cachalot {

// Chosen at creation, for good: blocks that are live when debugging begins would have no red zones.
struct DebugOptions {
  bool nvtx = false;       // segments and live blocks are announced through NVTX
  bool poison = false;     // freed blocks are overwritten
  bool red_zones = false;  // writes beyond the end of a block are looked for

  bool any() const { return nvtx || poison || red_zones; }
};

}  // namespace cachalot
