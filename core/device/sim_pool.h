// SPDX-License-Identifier: MIT OR Apache-2.0
// The accounts of a simulated device's stream-ordered pool and of its graph memory.
#pragma once

#include <unordered_map>

#include "device/device.h"
#include "device/sim_memory.h"

namespace cachalot {

// A number of bytes, and the highest that it was.
class Watermark {
 public:
  uint64_t current() const { return current_; }
  uint64_t high() const { return high_; }
  void set(uint64_t bytes);
  void reset_high() { high_ = current_; }

 private:
  uint64_t current_ = 0;
  uint64_t high_ = 0;
};

// The pool keeps what is freed until it is trimmed. What it keeps does not count against the
// device's memory: that counts what is used. A refused call changes nothing.
class SimPool {
 public:
  DriverCode allocate(SimMemory& memory, uint64_t size, Address* address);
  DriverCode free(SimMemory& memory, Address address);
  void trim(uint64_t keep_bytes);
  void set_graph_memory(uint64_t used, uint64_t reserved);

  // kInvalidValue for an attribute that cannot be read. Setting a high mark sets it to the current
  // value, as a driver requires it to be asked for with 0; the other attributes change nothing.
  DriverCode get_attribute(int32_t attribute, uint64_t* value) const;
  void set_attribute(int32_t attribute);
  DriverCode get_graph_attribute(int32_t attribute, uint64_t* value) const;
  void set_graph_attribute(int32_t attribute);

 private:
  void change_use(int64_t bytes);

  std::unordered_map<Address, uint64_t> sizes_;
  Watermark used_;
  Watermark reserved_;
  Watermark graph_used_;
  Watermark graph_reserved_;
};

}  // namespace cachalot
