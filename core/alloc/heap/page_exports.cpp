// SPDX-License-Identifier: MIT OR Apache-2.0
#include "alloc/heap/page_exports.h"

#include <unistd.h>

namespace cachalot {

const ShareableHandle* PageExports::find(uint64_t page) const {
  const auto found = exports_.find(page);
  return found != exports_.end() ? &found->second.handle : nullptr;
}

const ShareableHandle& PageExports::add(uint64_t page, HandleType type,
                                        const ShareableHandle& handle) {
  return exports_.emplace(page, Export{type, handle}).first->second.handle;
}

// Others keep what they have: a descriptor of theirs is another one, and pages that they have mapped stay.
bool PageExports::drop(uint64_t first, uint64_t end) {
  bool has_fabric = false;
  for (auto page = exports_.lower_bound(first); page != exports_.end() && page->first < end;
       page = exports_.erase(page)) {
    has_fabric |= page->second.type == HandleType::kFabric;
    if (page->second.type == HandleType::kPosixFd) ::close(page->second.handle.descriptor());
  }
  return has_fabric;
}

}  // namespace cachalot
