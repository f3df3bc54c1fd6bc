// SPDX-License-Identifier: MIT OR Apache-2.0
#include "alloc/heap/pins.h"

#include <new>

namespace cachalot {

void Pins::add(Address part, uint64_t size, Address first_page, uint64_t page_size) {
  const auto [place, is_new] = parts_.try_emplace({part, size}, Part{0, first_page});
  Address page = first_page;
  try {
    for (; page < part + size; page += page_size) {
      const auto [pinned, is_first] = pages_.try_emplace(page, Page{0, page_size});
      pinned->second.count++;
      if (is_first) bytes_ += page_size;
    }
  } catch (const std::bad_alloc&) {
    unpin_pages(first_page, page);
    if (is_new) parts_.erase(place);
    throw;
  }
  place->second.count++;
}

bool Pins::remove(Address part, uint64_t size) {
  const auto found = parts_.find({part, size});
  if (found == parts_.end()) return false;
  unpin_pages(found->second.first_page, part + size);
  if (--found->second.count == 0) parts_.erase(found);
  return true;
}

// All pages of the range are pinned.
void Pins::unpin_pages(Address begin, Address end) {
  for (auto page = pages_.lower_bound(begin); page != pages_.end() && page->first < end;) {
    if (--page->second.count > 0) {
      ++page;
      continue;
    }
    bytes_ -= page->second.size;
    page = pages_.erase(page);
  }
}

}  // namespace cachalot
