// SPDX-License-Identifier: MIT OR Apache-2.0
#include "device/host_memory.h"

#include <sys/mman.h>

#include <iterator>
#include <utility>

#include "base/assert.h"

namespace cachalot {
namespace {

constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
constexpr int kReadWrite = PROT_READ | PROT_WRITE;
constexpr uint64_t kAlignment = 2 * MiB;  // of reserved ranges

void* as_pointer(Address address) { return reinterpret_cast<void*>(address); }

// 0 if the system refuses.
Address map_anywhere(uint64_t size, int protection) {
  void* memory = ::mmap(nullptr, size, protection, kFlags, -1, 0);
  return memory == MAP_FAILED ? 0 : reinterpret_cast<Address>(memory);
}

// 0 if the system refuses, or if so much beside it would be refused: the program's own heap grows from the
// same limit, and a page that leaves nothing to it makes the next small request of the process fail.
Address map_with_room_beside(uint64_t size) {
  constexpr uint64_t kRoom = 1 * MiB;
  const Address begin = map_anywhere(size + kRoom, kReadWrite);
  if (begin != 0) ::munmap(as_pointer(begin + size), kRoom);
  return begin;
}

// Untouchable addresses that begin at a multiple of a page; 0 if the system refuses.
Address reserve_aligned(uint64_t size, uint64_t alignment) {
  if (size > UINT64_MAX - alignment) return 0;
  const Address begin = map_anywhere(size + alignment, PROT_NONE);
  if (begin == 0) return 0;
  const Address address = round_up(begin, alignment);
  const Address end = begin + size + alignment;
  if (address > begin) ::munmap(as_pointer(begin), address - begin);
  if (end > address + size) ::munmap(as_pointer(address + size), end - address - size);
  return address;
}

// Replaces what is there by untouchable addresses, which gives its memory back to the system.
bool clear(Address address, uint64_t size) {
  void* const memory = ::mmap(as_pointer(address), size, PROT_NONE, kFlags | MAP_FIXED, -1, 0);
  return memory != MAP_FAILED;
}

}  // namespace

HostMemory::~HostMemory() {
  for (const auto& [address, allocation] : allocations_)
    ::munmap(as_pointer(address), allocation.size);
  for (const auto& [address, size] : reservations_) ::munmap(as_pointer(address), size);
  const std::lock_guard lock(mutex_);
  for (auto& [handle, page] : pages_) drop_placeholder(page);
}

uint64_t HostMemory::used_bytes() const {
  const std::lock_guard lock(mutex_);
  return used_;
}

DriverCode HostMemory::allocate(uint64_t size, Address* address) {
  CACHALOT_ASSERT(1, size > 0);
  const std::lock_guard lock(mutex_);
  CACHALOT_ASSERT(1, used_ <= capacity_);
  if (size > capacity_ - used_) return kDriverOutOfMemory;
  Allocation made{.size = size, .file = is_shared_ ? MemoryFile::create(size) : MemoryFile()};
  if (is_shared_ && !made.file.is_open()) return kDriverOutOfMemory;
  const Address memory = is_shared_ ? made.file.map(0, kReadWrite) : map_anywhere(size, kReadWrite);
  if (memory == 0) return kDriverOutOfMemory;
  allocations_[memory] = std::move(made);
  used_ += size;
  *address = memory;
  return kSuccess;
}

DriverCode HostMemory::free(Address address) { return take_back(address, false); }

DriverCode HostMemory::close(Address address) { return take_back(address, true); }

// An allocation goes back the way it came.
DriverCode HostMemory::take_back(Address address, bool is_opened) {
  const std::lock_guard lock(mutex_);
  const auto found = allocations_.find(address);
  if (found == allocations_.end() || found->second.is_opened != is_opened) return kInvalidValue;
  const uint64_t size = found->second.size;
  ::munmap(as_pointer(address), size);
  if (!is_opened) {
    CACHALOT_ASSERT(1, size <= used_);
    used_ -= size;
  }
  allocations_.erase(found);
  return kSuccess;
}

DriverCode HostMemory::get_handle(Address address, ShareableHandle* handle) const {
  const std::lock_guard lock(mutex_);
  const auto found = allocations_.find(address);
  if (found == allocations_.end() || found->second.is_opened) return kInvalidValue;
  if (!is_shared_) return kDriverNotSupported;
  *handle = found->second.file.handle();
  return kSuccess;
}

DriverCode HostMemory::open(const ShareableHandle& handle, Address* address) {
  const std::lock_guard lock(mutex_);
  if (!is_shared_) return kDriverNotSupported;
  Allocation opened{.file = MemoryFile::open(handle), .is_opened = true};
  if (!opened.file.is_open()) return kInvalidHandle;
  opened.size = opened.file.size();
  const Address memory = opened.file.map(0, kReadWrite);
  if (memory == 0) return kDriverOutOfMemory;
  allocations_[memory] = std::move(opened);
  *address = memory;
  return kSuccess;
}

DriverCode HostMemory::reserve(uint64_t size, Address* address) {
  const std::lock_guard lock(mutex_);
  if (size % kGranularity != 0) return kInvalidValue;
  const Address range = reserve_aligned(size, kAlignment);
  if (range == 0) return kDriverOutOfMemory;
  reservations_[range] = size;
  *address = range;
  return kSuccess;
}

DriverCode HostMemory::unreserve(Address address, uint64_t size) {
  const std::lock_guard lock(mutex_);
  const auto range = reservations_.find(address);
  if (range == reservations_.end() || range->second != size) return kInvalidValue;
  if (is_touched_by_pages(address, size)) return kInvalidValue;
  ::munmap(as_pointer(address), size);
  reservations_.erase(range);
  return kSuccess;
}

DriverCode HostMemory::create(uint64_t size, uint64_t* handle) {
  const std::lock_guard lock(mutex_);
  if (size % kGranularity != 0) return kInvalidValue;
  if (size > capacity_ - used_) return kDriverOutOfMemory;
  Page& page = pages_[pages_made_ + 1];
  if (!back(page, size)) {
    pages_.erase(pages_made_ + 1);
    return kDriverOutOfMemory;
  }
  page.size = size;
  used_ += size;
  *handle = ++pages_made_;
  return kSuccess;
}

// False: the system refuses.
bool HostMemory::back(Page& page, uint64_t size) const {
  if (is_shared_) {
    page.file = MemoryFile::create(size);
    return page.file.is_open();
  }
  page.placeholder = map_with_room_beside(size);
  return page.placeholder != 0;
}

DriverCode HostMemory::export_page(uint64_t handle, ShareableHandle* shareable) const {
  const std::lock_guard lock(mutex_);
  const auto page = pages_.find(handle);
  if (page == pages_.end() || page->second.released) return kInvalidValue;
  if (!is_shared_) return kDriverNotSupported;
  const int descriptor = page->second.file.new_descriptor();
  if (descriptor < 0) return kDriverOutOfMemory;
  *shareable = ShareableHandle::of_descriptor(descriptor);
  return kSuccess;
}

DriverCode HostMemory::import_page(const ShareableHandle& shareable, uint64_t* handle) {
  const std::lock_guard lock(mutex_);
  if (!is_shared_) return kDriverNotSupported;
  MemoryFile file = MemoryFile::duplicate(shareable.descriptor());
  if (!file.is_open() || file.size() % kGranularity != 0) return kInvalidHandle;
  Page& page = pages_[pages_made_ + 1];
  page.size = file.size();
  page.is_imported = true;
  page.file = std::move(file);
  *handle = ++pages_made_;
  return kSuccess;
}

DriverCode HostMemory::release(uint64_t handle) {
  const std::lock_guard lock(mutex_);
  const auto page = pages_.find(handle);
  if (page == pages_.end() || page->second.released) return kInvalidValue;
  page->second.released = true;
  drop_if_unused(handle);
  return kSuccess;
}

DriverCode HostMemory::map(Address address, uint64_t size, uint64_t handle) {
  const std::lock_guard lock(mutex_);
  const auto page = pages_.find(handle);
  if (page == pages_.end() || page->second.released || page->second.address != 0 ||
      page->second.size != size || !is_reserved(address, size) ||
      is_touched_by_pages(address, size)) {
    return kInvalidValue;
  }
  CACHALOT_ASSERT(1, !mapped_.contains(address));
  mapped_[address] = handle;
  if (page->second.file.is_open() && page->second.file.map(address, PROT_NONE) == 0) {
    mapped_.erase(address);
    return kDriverOutOfMemory;
  }
  page->second.address = address;
  return kSuccess;
}

DriverCode HostMemory::unmap(Address address, uint64_t size) {
  const std::lock_guard lock(mutex_);
  const auto mapping = mapped_.find(address);
  if (mapping == mapped_.end() || pages_[mapping->second].size != size) return kInvalidValue;
  if (!clear(address, size)) return kDriverOutOfMemory;
  const uint64_t handle = mapping->second;
  mapped_.erase(mapping);
  pages_[handle].address = 0;
  drop_if_unused(handle);
  return kSuccess;
}

DriverCode HostMemory::set_access(Address address, uint64_t size) {
  const std::lock_guard lock(mutex_);
  if (!is_covered_by_pages(address, size)) return kInvalidValue;
  for (auto page = mapped_.find(address); page != mapped_.end() && page->first < address + size;
       ++page)
    drop_placeholder(pages_.at(page->second));
  const int result = ::mprotect(as_pointer(address), size, kReadWrite);
  return result == 0 ? kSuccess : kDriverOutOfMemory;
}

bool HostMemory::is_reserved(Address address, uint64_t size) const {
  mutex_.assert_held();
  auto range = reservations_.upper_bound(address);
  if (range == reservations_.begin()) return false;
  --range;
  const uint64_t offset = address - range->first;
  return offset % kGranularity == 0 && offset < range->second && size <= range->second - offset;
}

// Whether a page lies in the range or reaches into it.
bool HostMemory::is_touched_by_pages(Address address, uint64_t size) const {
  mutex_.assert_held();
  auto next = mapped_.lower_bound(address);
  if (next != mapped_.end() && next->first - address < size) return true;
  if (next == mapped_.begin()) return false;
  const auto& [begin, handle] = *std::prev(next);
  return address - begin < pages_.at(handle).size;
}

// Whether pages lie one behind the other from the first byte of the range to its last.
bool HostMemory::is_covered_by_pages(Address address, uint64_t size) const {
  mutex_.assert_held();
  for (auto page = mapped_.find(address); page != mapped_.end(); ++page) {
    const uint64_t page_size = pages_.at(page->second).size;
    if (page->first != address || page_size > size) return false;
    address += page_size;
    size -= page_size;
    if (size == 0) return true;
  }
  return false;
}

void HostMemory::drop_placeholder(Page& page) {
  mutex_.assert_held();
  if (page.placeholder != 0) ::munmap(as_pointer(std::exchange(page.placeholder, 0)), page.size);
}

void HostMemory::drop_if_unused(uint64_t handle) {
  mutex_.assert_held();
  const auto page = pages_.find(handle);
  CACHALOT_ASSERT(1, page != pages_.end());
  if (!page->second.released || page->second.address != 0) return;
  if (!page->second.is_imported) {
    CACHALOT_ASSERT(1, page->second.size <= used_);
    used_ -= page->second.size;
  }
  drop_placeholder(page->second);
  pages_.erase(page);
}

}  // namespace cachalot
