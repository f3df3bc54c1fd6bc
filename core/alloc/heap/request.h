// SPDX-License-Identifier: MIT OR Apache-2.0
// A request, the facts about a block, and the errors for an address that no live block has.
#pragma once

#include <cstdint>
#include <string>

#include "alloc/config/pool_id.h"
#include "base/error.h"
#include "device/device.h"

namespace cachalot {

// A caller's request. The stream is resolved before it gets here: the handle of the per-thread
// default stream stands for another stream on each thread.
struct Request {
  uint64_t size = 0;
  int device = 0;
  Stream stream = 0;
  Stream current_stream = 0;
  Address at = 0;       // not 0: exactly there (R50)
  uint32_t tenant = 0;  // its slot; 0: the thread's tenant
};

// A live block, as callers see it.
struct BlockInfo {
  Address address;
  uint64_t size;
  uint64_t requested;
  Stream stream;
  PoolId pool;
  int device;
  bool uncached = false;
  bool from_source = false;  // its pool's source gave its memory, not the driver
};

// The error of every call that needs a live block with exactly this address.
Error invalid_pointer(Address address);
// The text for one that annotates: "annotateMemory: no live allocation found at pointer 0x1234".
std::string annotation_error(Address address);

}  // namespace cachalot
