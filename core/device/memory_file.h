// SPDX-License-Identifier: MIT OR Apache-2.0
// Memory of the system that has a descriptor (a memfd), so that other processes can map it too.
#pragma once

#include <cstdint>

#include "base/descriptor.h"
#include "device/device.h"

namespace cachalot {

// Owns the descriptor. The memory itself lives until its last descriptor is closed and its last mapping is gone, in
// whatever process. Its size never changes: no process can take pages away from under another one's mapping.
class MemoryFile {
 public:
  MemoryFile() = default;

  // Each gives one that is not open where there is no memory, or no such file.
  static MemoryFile create(uint64_t size);
  // Of a descriptor of this process, which stays its owner's.
  static MemoryFile duplicate(int descriptor);
  // Of the file that handle() describes, in whatever process of this user. A handle whose file is gone does not open
  // another one that has its number by now.
  static MemoryFile open(const ShareableHandle& handle);

  bool is_open() const { return descriptor_.is_open(); }
  uint64_t size() const { return size_; }
  // Where another process of this user finds the file while this object lives. pre (here and below): is_open().
  ShareableHandle handle() const;
  // A descriptor of its own for the caller; -1 if the system refuses.
  int new_descriptor() const;
  // Maps all of it at the address, or anywhere for 0. Gives where, or 0 if the system refuses.
  Address map(Address at, int protection) const;

 private:
  explicit MemoryFile(Descriptor descriptor);
  bool is_sound() const;

  Descriptor descriptor_;
  uint64_t size_ = 0;
};

}  // namespace cachalot
