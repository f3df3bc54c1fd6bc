// SPDX-License-Identifier: MIT OR Apache-2.0
// Memory that others have registered and that stays where it is until they are done with it (docs/policy.md,
// "Memory that others use").
#pragma once

#include <cstdint>
#include <map>
#include <utility>

#include "device/device.h"

namespace cachalot {

// Owns which parts of blocks are pinned, and so which pages are; a plain segment counts as one page. Blocks
// come and go on pinned pages as on others. pre: the device's lock.
class Pins {
 public:
  // A part of a block, whose pages begin at first_page. Throws std::bad_alloc, and then nothing has changed.
  void add(Address part, uint64_t size, Address first_page, uint64_t page_size);
  // False: this part is not pinned.
  bool remove(Address part, uint64_t size);

  uint64_t bytes() const { return bytes_; }
  // Whether a page begins within [begin, end) that is pinned.
  bool has_any(Address begin, Address end) const {
    const auto page = pages_.lower_bound(begin);
    return page != pages_.end() && page->first < end;
  }
  // Calls visit(begin, end) for each run of pages without a pin, in ascending order. pre: whole pages.
  template <class Visit>
  void for_each_unpinned(Address begin, Address end, Visit visit) const;

 private:
  struct Part {
    uint64_t count;
    Address first_page;
  };
  struct Page {
    uint64_t count;
    uint64_t size;
  };

  void unpin_pages(Address begin, Address end);

  std::map<std::pair<Address, uint64_t>, Part> parts_;  // by address and size
  std::map<Address, Page> pages_;
  uint64_t bytes_ = 0;  // of the pages
};

template <class Visit>
void Pins::for_each_unpinned(Address begin, Address end, Visit visit) const {
  for (auto page = pages_.lower_bound(begin); page != pages_.end() && page->first < end; ++page) {
    if (begin < page->first) visit(begin, page->first);
    begin = page->first + page->second.size;
  }
  if (begin < end) visit(begin, end);
}

}  // namespace cachalot
