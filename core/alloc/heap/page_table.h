// SPDX-License-Identifier: MIT OR Apache-2.0
// The pages of an expandable segment: which of them memory backs, and the driver calls that change
// this. A segment reserves more addresses than its device has memory, so only pages with memory have an
// entry here.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "alloc/heap/handle_types.h"
#include "alloc/heap/page_exports.h"
#include "alloc/trace/log.h"
#include "base/assert.h"
#include "device/driver_error.h"

namespace cachalot {

// Owns the handles of the pages that are mapped; the reservation belongs to the segment's caller.
// The device's lock guards it. Invariants: a group exists exactly while one of its pages is mapped;
// no page is left mapped at the end.
class PageTable {
 public:
  // pre: the driver supports virtual memory.
  PageTable(Driver& driver, HandleTypes& types, const Log& log, int device, Address address,
            uint64_t page_size, uint64_t pages);
  ~PageTable() { CACHALOT_ASSERT(1, mapped_pages_ == 0); }
  PageTable(const PageTable&) = delete;
  PageTable& operator=(const PageTable&) = delete;

  // How many pages hold so many bytes.
  static constexpr uint64_t pages_for(uint64_t bytes, uint64_t page_size) {
    return bytes / page_size + (bytes % page_size != 0 ? 1 : 0);
  }

  uint64_t page_size() const { return page_size_; }
  uint64_t mapped_bytes() const { return mapped_pages_ * page_size_; }
  uint64_t reserved_bytes() const { return pages_ * page_size_; }
  // Begin and end of the pages that lie within [address, address + size); equal: there are none.
  std::pair<Address, Address> whole_pages(Address address, uint64_t size) const;

  // Backs [address, address + size) with new pages; both are multiples of the page size, and
  // nothing there is mapped. False: out of memory, and nothing has changed. Throws Error for any
  // other failure, likewise.
  bool map(Address address, uint64_t size, const std::vector<int>& peers);

  // Waits for the stream, so that pages of its can go.
  void synchronize(Stream stream);
  // Gives the pages of [address, address + size) back. pre: all of them are mapped, and their work is done.
  void unmap(Address address, uint64_t size);

  // ---- Pages that move between tables. Their handles belong to the caller meanwhile.
  // A page without an address. False: out of memory. Throws Error for any other failure.
  bool create_page(uint64_t* handle);
  // Backs the range from `address` on with these pages. Throws Error where the driver refuses, and
  // nothing has changed.
  void map_pages(Address address, std::span<const uint64_t> handles, const std::vector<int>& peers);
  // Takes the pages of [address, address + size) away and adds their handles. Their addresses stay mapped
  // until end_mapping(). pre: all of them are mapped, and the vector has room.
  void take_pages(Address address, uint64_t size, std::vector<uint64_t>* handles);
  // Unmaps addresses whose pages were taken. pre: no work uses them any more.
  void end_mapping(Address address, uint64_t size);

  // Handles of the pages of [address, address + size) for other processes, which stay the table's. Throws where the
  // driver refuses. pre: all of them are mapped.
  std::vector<ShareableHandle> export_pages(Address address, uint64_t size);
  // Of what the pages are created with. pre: one has been.
  HandleType handle_type() const;

  // Gives all pages back, at the end.
  void give_back();

  // Gives a peer access to what is mapped: one call for each contiguous range.
  void give_access(int peer);

 private:
  static constexpr uint64_t kGroup = 64;
  // Neighbouring pages, with a bit for each that is mapped.
  struct Group {
    uint64_t mapped = 0;
    std::array<uint64_t, kGroup> handles;  // valid for mapped pages
  };

  uint64_t index_of(Address address) const {
    CACHALOT_ASSERT(1, is_whole_pages(address, 0));
    return (address - address_) / page_size_;
  }
  uint64_t& handle(uint64_t index) {
    CACHALOT_ASSERT(1, index < pages_);
    return groups_[index / kGroup].handles[index % kGroup];
  }
  // Whether a range begins and ends at pages of the segment.
  bool is_whole_pages(Address address, uint64_t size) const;
  uint64_t mapped_between(uint64_t first, uint64_t end) const;
  bool is_sound() const;
  void drop_unused(uint64_t first, uint64_t end);
  template <class Visit>
  void for_each_mapped(Visit visit) const;
  DriverCode create(HandleType type, uint64_t* handle);
  DriverCode create_probing(uint64_t* handle, bool* counts_as_out_of_memory);
  DriverCode create(uint64_t* handle, bool* counts_as_out_of_memory);
  void decide_type();
  // Pages are numbered from the segment's begin; `end` is the first page behind the range (here and
  // below).
  bool create_pages(uint64_t first, uint64_t end);
  void map_range(uint64_t first, uint64_t end, const std::vector<int>& peers);
  void mark_mapped(uint64_t first, uint64_t end);
  void mark_unmapped(uint64_t first, uint64_t end);
  void release_pages(uint64_t first, uint64_t end);
  const ShareableHandle& exported(uint64_t index);

  Driver& driver_;
  HandleTypes& types_;
  const Log& log_;
  int device_;
  Address address_;
  uint64_t page_size_;
  uint64_t pages_;
  std::map<uint64_t, Group> groups_;  // by the number of their first page / kGroup
  uint64_t mapped_pages_ = 0;
  std::optional<HandleType> type_;  // decided at the first mapping (R60)
  PageExports exports_;
};

}  // namespace cachalot
