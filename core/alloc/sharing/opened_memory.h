// SPDX-License-Identifier: MIT OR Apache-2.0
// Memory of other processes that is open in this one. It is part of no pool, and no request
// is served from it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "alloc/heap/handle_types.h"
#include "alloc/sharing/opened_range.h"
#include "alloc/sharing/shared_memory.h"
#include "base/mutex.h"

namespace cachalot {

// Note [Names of opened memory]
// The reference keeps what it has open by the bytes that it was opened with, and so does
// this. Those of a driver's handle name the memory for good. Those of descriptors do not:
// their numbers are used again, so bytes of memory that is gone may name other memory
// later, and a user that still has the old one open gets that. Blocks with lifetimes
// (sharing/share_server.h) have names that are never used twice.

// Owns what is open. The same memory is opened once a device, since a driver refuses a
// second time; it is closed when its last user has closed it [core 23.2]. Any thread.
class OpenedMemory {
 public:
  OpenedMemory(Driver& driver, HandleTypes& types, const Rules& rules)
      : driver_(driver), types_(types), rules_(rules) {}
  ~OpenedMemory() { close_all(); }

  // Where the memory begins. name: its content, the same for the same memory. peers: other
  // devices that are to reach it. Throws where it cannot be opened, and nothing has
  // changed.
  Address open(int device, const std::string& name, const SharedMemory& memory,
               const std::vector<int>& peers);
  // One user less. Throws where no open memory begins at the address.
  void close(Address address);
  // Whatever has users.
  void close_all();

  uint64_t count();
  std::pair<uint64_t, uint64_t> expandable_totals();  // bytes reserved, ranges

 private:
  using Name = std::pair<int, std::string>;
  struct Opened {
    std::unique_ptr<OpenedRange> range;
    uint64_t users = 1;
  };

  Driver& driver_;
  HandleTypes& types_;
  const Rules rules_;
  Mutex lock_{
      LockRank::kOpenedMemory};  // held through the driver's calls, so that none is opened twice
  std::map<Name, Opened> opened_;
};

}  // namespace cachalot
