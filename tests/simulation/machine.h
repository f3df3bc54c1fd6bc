// SPDX-License-Identifier: MIT OR Apache-2.0
// The devices under an allocator: what a run can do to them beside the allocator's calls.
#pragma once

#include <cstdint>
#include <string>

#include "cachalot/cachalot.h"

namespace cachalot_test {

// Hears of what the allocator does to its devices.
class MachineWatcher {
 public:
  virtual ~MachineWatcher() = default;
  // A range is about to be given back, or its pages are: nobody may use it any more.
  virtual void giving_back(cachalot_address address, uint64_t size) = 0;
  // The driver is asked for memory (or gets some back): where no lock is held, others may act now.
  virtual void under_way(bool is_allocation) = 0;
  // A call that is always made with no lock held: others may act now.
  virtual void unlocked() = 0;
};

class Machine {
 public:
  virtual ~Machine() = default;

  virtual cachalot_driver* driver() = 0;
  virtual void watch(MachineWatcher* watcher) = 0;

  // ---- Work
  virtual void queue_work(int32_t device, cachalot_stream stream) = 0;
  virtual void finish_oldest(int32_t device, cachalot_stream stream) = 0;
  virtual void finish_stream(int32_t device, cachalot_stream stream) = 0;
  // How many pieces were queued on a stream and are done; 0 where the machine does not tell.
  virtual uint64_t queued(int32_t device, cachalot_stream stream) = 0;
  virtual uint64_t finished(int32_t device, cachalot_stream stream) = 0;

  // ---- Captures
  virtual void begin_capture(int32_t device, cachalot_stream stream, uint64_t capture) = 0;
  virtual void end_capture(int32_t device, uint64_t capture) = 0;
  virtual void add_node(int32_t device, cachalot_stream stream) = 0;
  virtual void fork(int32_t device, cachalot_stream from, cachalot_stream to) = 0;
  virtual void join(int32_t device, cachalot_stream into, cachalot_stream other) = 0;

  // ---- Faults. calls: CACHALOT_SIM_CALL_*.
  virtual void fail(uint32_t calls, int32_t code, uint64_t after, uint64_t count) = 0;
  virtual void set_pending_error(int32_t code) = 0;
  virtual void forget_faults() = 0;
  // How many calls were made to fail so far; UINT64_MAX where the machine does not tell.
  virtual uint64_t faults() const = 0;

  // ---- Accounts
  // Bytes that the allocator holds of a device, whatever the kind; UINT64_MAX: not told.
  virtual uint64_t held(int32_t device) const = 0;
  // What the allocator has not given back; "" if that is nothing, or not told.
  virtual std::string leaks() const = 0;
  // How many bytes of a range the device can use; UINT64_MAX: not told.
  virtual uint64_t usable(int32_t device, cachalot_address address, uint64_t size) const = 0;
  // Whether two addresses are of the same memory; true where that is not told.
  virtual bool is_same(int32_t device, cachalot_address one, cachalot_address other) const = 0;
  // Marks stand for contents: copies take them along, and memory that is given back loses them.
  virtual void write(cachalot_address address, uint64_t mark) = 0;
  // 0: none; UINT64_MAX: not told.
  virtual uint64_t read(cachalot_address address) const = 0;
};

// What can be planted, to see it found: the device gives memory away twice, keeps what was given
// back, says that work is done that is not, loses what pinned memory has; the model misses a block.
enum class Plant { kNothing, kOverlap, kLeak, kEarlyReuse, kLostCopy, kMiscount };

std::string hex(uint64_t number);

// A defect ends the process, as a fuzzer expects it; what() is the machine's word for it.
[[noreturn]] void report_defect(const std::string& what);

}  // namespace cachalot_test
