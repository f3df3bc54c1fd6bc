// SPDX-License-Identifier: MIT OR Apache-2.0
// The handles of an expandable segment's pages that other processes were given [exp 7.3].
#pragma once

#include <cstdint>
#include <map>

#include "device/device.h"

namespace cachalot {

// Owns the descriptors among them. A page is exported at the first use, and its handle
// stays the same until the page goes, so that one memory has one name.
class PageExports {
 public:
  PageExports() = default;
  PageExports(const PageExports&) = delete;
  PageExports& operator=(const PageExports&) = delete;
  ~PageExports() { drop(0, UINT64_MAX); }

  // Null: it has none yet.
  const ShareableHandle* find(uint64_t page) const;
  const ShareableHandle& add(uint64_t page, HandleType type, const ShareableHandle& handle);
  // The pages from first to end go. Gives whether one of them had a fabric handle.
  bool drop(uint64_t first, uint64_t end);

 private:
  struct Export {
    HandleType type;
    ShareableHandle handle;
  };

  std::map<uint64_t, Export> exports_;  // by page
};

}  // namespace cachalot
