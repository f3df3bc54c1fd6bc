// SPDX-License-Identifier: MIT OR Apache-2.0
// Where a table's memory comes from.
#pragma once

#include <cstdint>
#include <memory>

#include "cachalot/cachalot.h"
#include "failure.h"

namespace cachalot::ort {

enum class MemoryKind { kCpu, kCuda, kPinned };

// Memory of an allocator, which is the caller's and outlives the blocks. Any thread.
class Memory {
 public:
  // Numbers for ORT's names; -1: there is none.
  struct Figures {
    int64_t limit = -1;       // bytes
    int64_t used = 0;         // bytes
    int64_t reserved = 0;     // bytes
    int64_t most_used = 0;    // bytes
    int64_t allocations = 0;  // that were served
    int64_t extensions = 0;   // driver calls for memory
    int64_t shrinkages = 0;   // driver calls that gave it back
  };

  Memory() = default;
  virtual ~Memory() = default;
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  virtual cachalot_status allocate(uint64_t size, cachalot_stream stream, cachalot_address* out,
                                   cachalot_error* error) = 0;
  virtual cachalot_status free(cachalot_address address, cachalot_error* error) = 0;
  // False: the allocator did not tell.
  virtual bool read(Figures* out) const = 0;
  virtual void remember(uint64_t size, cachalot_stream stream, const cachalot_error& error) = 0;
};

// Null: there is no memory for it.
std::unique_ptr<Memory> make_memory(MemoryKind kind, cachalot_allocator* allocator, int32_t device);

}  // namespace cachalot::ort
