// SPDX-License-Identifier: MIT OR Apache-2.0
// NVTX's memory API: tells tools such as compute-sanitizer which parts of a segment are in use.
//
// A program may touch a heap in its regions only. A region that lies in several heaps (the pages of
// an expandable segment) is announced to each of them as the part that lies there.
#pragma once

#include <cstdint>
#include <memory>

#include "device/device.h"

namespace cachalot {

// The announcements to NVTX. The implementation owns a domain of its own and the handles of its
// heaps.
// One thread at a time. Whatever is still announced is taken back at the end.
class NvtxMemory {
 public:
  NvtxMemory() = default;
  NvtxMemory(const NvtxMemory&) = delete;
  NvtxMemory& operator=(const NvtxMemory&) = delete;
  virtual ~NvtxMemory() = default;

  // pre: nothing there is a heap yet, and the device has been used (tools want that before the first
  // call). Throws std::bad_alloc.
  virtual void add_heap(Address address, uint64_t size) = 0;
  // All heaps that begin there, with their regions.
  virtual void remove_heaps(Address address, uint64_t size) = 0;
  // The region at the address had `before` bytes and has `after` now; 0: there is none.
  virtual void set_region(Address address, uint64_t before, uint64_t after) = 0;
  virtual void name_region(Address address, const char* name) = 0;
};

// Null: this build has no NVTX.
std::unique_ptr<NvtxMemory> make_nvtx_memory();

}  // namespace cachalot
