// SPDX-License-Identifier: MIT OR Apache-2.0
// Memory that a program asks for by handles and maps at addresses of its choice. A handle is a block where it is
// mapped, from the moment on in which it can be used there. Any thread.
#pragma once

#include <map>
#include <vector>

#include "driver_types.h"
#include "live_memory.h"

namespace cachalot::proxy {

struct Mapping {
  Address address;
  Memory memory;
  int64_t cost_ns;  // of the calls that made it: creation of the handle, mapping, access
  AllocationHandle handle;
  bool is_accessible;
};

class VirtualMemory {
 public:
  // is_of_device: else its memory is the host's.
  void created(AllocationHandle handle, bool is_of_device, int64_t cost_ns);
  // The program has the handle once more; it has to release it once more.
  void retained(AllocationHandle handle);
  void released(AllocationHandle handle);

  void mapped(Address address, uint64_t size, AllocationHandle handle, DriverContext* context,
              int64_t cost_ns);
  // The mappings in the range that could not be used before.
  std::vector<Mapping> made_accessible(Address address, uint64_t size, int64_t cost_ns,
                                       ContextId stack);
  // Takes the mappings in the range out, and gives those that could be used.
  std::vector<Mapping> take(Address address, uint64_t size);
  std::vector<Mapping> take_all_of(const DriverContext* context);
  void put_back(const std::vector<Mapping>& mappings);
  bool has_any_on(int device);
  // Those that can be used.
  std::vector<Mapping> accessible();

  // Where the handle was mapped last; 0: nowhere, or not known.
  Address address_of(AllocationHandle handle);

 private:
  // Known while the program has it, and while it is mapped.
  struct Handle {
    bool is_of_device;
    int64_t cost_ns;  // of its creation, until a mapping has it
    int references = 1;
    int mappings = 0;
    Address address = 0;  // of the last mapping
  };
  using Handles = std::map<AllocationHandle, Handle>;

  void drop_if_gone(Handles::iterator handle);
  void unmapped(const Mapping& mapping);

  Mutex mutex_{LockRank::kVirtualMemory};
  Handles handles_;  // those that this process has made
  std::map<Address, Mapping> mappings_;
};

}  // namespace cachalot::proxy
