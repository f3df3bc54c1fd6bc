// SPDX-License-Identifier: MIT OR Apache-2.0
#include "mapping_cache.h"

#include <algorithm>

#include "alloc/pools/whole_blocks.h"
#include "real_driver.h"

namespace cachalot::proxy {
namespace {

bool are_equal(const MemoryLocation& a, const MemoryLocation& b) {
  return a.type == b.type && a.id == b.id;
}

bool are_equal(const AllocationProperties& a, const AllocationProperties& b) {
  return a.type == b.type && a.handle_types == b.handle_types &&
         are_equal(a.location, b.location) &&
         a.flags.compression_type == b.flags.compression_type &&
         a.flags.gpu_direct_rdma_capable == b.flags.gpu_direct_rdma_capable &&
         a.flags.usage == b.flags.usage;
}

// Of a device, and of no special use.
bool is_cacheable(const AllocationProperties* properties, uint64_t flags) {
  return properties != nullptr && flags == 0 && properties->type == cuda::kAllocationTypePinned &&
         properties->location.type == cuda::kLocationTypeDevice &&
         properties->win32_meta_data == nullptr && properties->flags.usage == 0;
}

bool is_allowed(const std::vector<AccessDescriptor>& told, const AccessDescriptor& asked) {
  return std::any_of(told.begin(), told.end(), [&](const AccessDescriptor& access) {
    return are_equal(access.location, asked.location) && access.flags == asked.flags;
  });
}

}  // namespace

// ---- Ranges

Result MappingCache::reserve(DeviceAddress* out, uint64_t size, uint64_t alignment,
                             DeviceAddress hint, uint64_t flags) {
  const std::lock_guard guard(mutex_);
  const auto fits = [&](DeviceAddress address, const Entry&) {
    return alignment == 0 || address % alignment == 0;
  };
  if (out != nullptr && hint == 0 && flags == 0) {
    const auto entry = find_for(size, &Entry::has_handle, fits);
    if (entry != entries_.end()) {
      take(entry, &Entry::has_range);
      *out = entry->first;
      return 0;
    }
  }
  const Result result = call_real(real().cuMemAddressReserve, out, size, alignment, hint, flags);
  if (result == 0 && !is_stopped_) ranges_[*out] = size;
  return result;
}

Result MappingCache::free_range(DeviceAddress address, uint64_t size) {
  const std::lock_guard guard(mutex_);
  const auto entry = entries_.find(address);
  if (entry != entries_.end() && !entry->second.is_mapped && entry->second.memory.size == size) {
    if (!entry->second.has_range) return kInvalidValue;
    give(entry, &Entry::has_range);
    return 0;
  }
  forget_range_around(address);
  return call_real(real().cuMemAddressFree, address, size);
}

// ---- Handles

Result MappingCache::create(AllocationHandle* out, uint64_t size,
                            const AllocationProperties* properties, uint64_t flags) {
  const std::lock_guard guard(mutex_);
  const bool is_ours = out != nullptr && !is_stopped_ && is_cacheable(properties, flags);
  if (is_ours) {
    requests_++;
    const auto entry = find_for(size, &Entry::has_range, [&](DeviceAddress, const Entry& of) {
      return are_equal(of.memory.properties, *properties);
    });
    if (entry != entries_.end()) {
      take(entry, &Entry::has_handle);
      *out = entry->second.handle;
      return 0;
    }
    make_room_for(size);
  }
  const Result result = call_real(real().cuMemCreate, out, size, properties, flags);
  if (result != 0 || !is_ours) return result;
  created_++;
  handles_.insert_or_assign(*out, Memory{size, *properties});
  has_more(size);
  return result;
}

Result MappingCache::release(AllocationHandle handle) {
  const std::lock_guard guard(mutex_);
  const auto entry = find(handle);
  if (entry != entries_.end()) {
    if (!entry->second.has_handle) return kInvalidValue;
    give(entry, &Entry::has_handle);
    return 0;
  }
  forget_handle(handle);
  return call_real(real().cuMemRelease, handle);
}

// ---- Mappings

Result MappingCache::map(DeviceAddress address, uint64_t size, uint64_t offset,
                         AllocationHandle handle, uint64_t flags) {
  const std::lock_guard guard(mutex_);
  const bool is_plain = offset == 0 && flags == 0;
  auto entry = find(handle);
  if (entry != entries_.end() && is_plain && entry->first == address &&
      entry->second.memory.size == size && entry->second.has_range && entry->second.has_handle &&
      !entry->second.is_mapped) {
    entry->second.is_mapped = true;
    halves_.remove(address);
    return 0;
  }
  if (entry != entries_.end()) settle(entry);
  settle_around(address, size);
  const Result result = call_real(real().cuMemMap, address, size, offset, handle, flags);
  if (result != 0) return result;
  const auto range = ranges_.find(address);
  const auto memory = handles_.find(handle);
  if (is_plain && range != ranges_.end() && range->second == size && memory != handles_.end() &&
      memory->second.size == size) {
    entries_.insert_or_assign(address, Entry{.memory = memory->second, .handle = handle});
    places_[handle] = address;
    ranges_.erase(range);
    handles_.erase(memory);
    return 0;
  }
  forget_range_around(address);
  forget_handle(handle);
  return 0;
}

Result MappingCache::set_access(DeviceAddress address, uint64_t size,
                                const AccessDescriptor* access, size_t count) {
  const std::lock_guard guard(mutex_);
  const auto entry = entries_.find(address);
  const bool is_whole = entry != entries_.end() && entry->second.is_mapped &&
                        entry->second.memory.size == size && access != nullptr;
  if (!is_whole) {
    settle_around(address, size);
    return call_real(real().cuMemSetAccess, address, size, access, count);
  }
  std::vector<AccessDescriptor>& told = entry->second.access;
  if (count > 0 && std::all_of(access, access + count, [&](const AccessDescriptor& asked) {
        return is_allowed(told, asked);
      }))
    return 0;
  const Result result = call_real(real().cuMemSetAccess, address, size, access, count);
  if (result != 0) return result;
  for (const AccessDescriptor* asked = access; asked != access + count; asked++) {
    std::erase_if(told, [&](const auto& old) { return are_equal(old.location, asked->location); });
    told.push_back(*asked);
  }
  return result;
}

Result MappingCache::unmap(DeviceAddress address, uint64_t size) {
  const std::lock_guard guard(mutex_);
  const auto entry = entries_.find(address);
  if (entry != entries_.end() && entry->second.memory.size == size) {
    if (!entry->second.is_mapped) return kInvalidValue;
    give(entry, &Entry::is_mapped);
    return 0;
  }
  settle_around(address, size);
  return call_real(real().cuMemUnmap, address, size);
}

// ---- What is left to the driver

void MappingCache::leave(AllocationHandle handle) {
  const std::lock_guard guard(mutex_);
  const auto entry = find(handle);
  if (entry != entries_.end()) settle(entry);
  forget_handle(handle);
}

void MappingCache::leave_range(DeviceAddress address, uint64_t size) {
  const std::lock_guard guard(mutex_);
  settle_around(address, size);
}

void MappingCache::leave_device(DeviceOrdinal device) {
  const std::lock_guard guard(mutex_);
  for (auto at = entries_.begin(); at != entries_.end();) {
    const auto entry = at++;
    if (entry->second.memory.properties.location.id == device) settle(entry);
  }
}

void MappingCache::stop() {
  const std::lock_guard guard(mutex_);
  while (!entries_.empty()) settle(entries_.begin());
  ranges_.clear();
  handles_.clear();
  is_stopped_ = true;
}

uint64_t MappingCache::cached_bytes(DeviceOrdinal device) {
  const std::lock_guard guard(mutex_);
  uint64_t bytes = 0;
  for (const auto& [address, entry] : entries_)
    if (!entry.has_memory() && entry.memory.properties.location.id == device)
      bytes += entry.memory.size;
  return bytes;
}

bool MappingCache::empty(DeviceOrdinal device) {
  const std::lock_guard guard(mutex_);
  return settle_cached(
      [&](const Entry& entry) { return entry.memory.properties.location.id == device; });
}

void MappingCache::trim(std::chrono::seconds idle) {
  const std::lock_guard guard(mutex_);
  const auto now = std::chrono::steady_clock::now();
  settle_cached([&](const Entry& entry) { return now - entry.time >= idle; });
}

MappingCache::Counts MappingCache::counts() {
  const std::lock_guard guard(mutex_);
  return {requests_, created_, peak_};
}

// ---- Entries

MappingCache::Entries::iterator MappingCache::find(AllocationHandle handle) {
  const auto place = places_.find(handle);
  return place != places_.end() ? entries_.find(place->second) : entries_.end();
}

// half: what the thread has to have already, of an entry that it has taken half of.
template <class Fits>
MappingCache::Entries::iterator MappingCache::find_for(uint64_t size, bool Entry::*half,
                                                       Fits fits) {
  const auto is_one = [&](Entries::iterator entry) {
    return entry->second.memory.size == size && fits(entry->first, entry->second);
  };
  for (const DeviceAddress address : halves_) {
    const auto entry = entries_.find(address);
    const bool is_of_thread = entry->second.taker == std::this_thread::get_id();
    const bool is_half = entry->second.has_handle != entry->second.has_range;
    if (is_of_thread && is_half && entry->second.*half && is_one(entry)) return entry;
  }
  const auto [begin, end] = cached_.equal_range(size);
  for (auto at = end; at != begin;) {
    const auto entry = entries_.find((--at)->second);
    if (is_one(entry)) return entry;
  }
  return entries_.end();
}

void MappingCache::take(Entries::iterator entry, bool Entry::*part) {
  Entry& taken = entry->second;
  if (taken.is_cached()) {
    const auto [begin, end] = cached_.equal_range(taken.memory.size);
    cached_.erase(
        std::find_if(begin, end, [&](const auto& row) { return row.second == entry->first; }));
    halves_.push_back(entry->first);
    taken.taker = std::this_thread::get_id();
  }
  const bool had = taken.has_memory();
  taken.*part = true;
  if (had || !taken.has_memory()) return;
  cached_bytes_ -= taken.memory.size;
  has_more(taken.memory.size);
}

void MappingCache::give(Entries::iterator entry, bool Entry::*part) {
  Entry& given = entry->second;
  const bool had = given.has_memory();
  given.*part = false;
  halves_.remove(entry->first);
  if (had && !given.has_memory()) {
    had_ -= given.memory.size;
    cached_bytes_ += given.memory.size;
  }
  if (!given.is_cached()) return;
  given.clock = ++clock_;
  given.time = std::chrono::steady_clock::now();
  cached_.emplace(given.memory.size, entry->first);
}

// A call that the driver refuses is one that the program made too late to be told of.
void MappingCache::settle(Entries::iterator at) {
  const DeviceAddress address = at->first;
  const Entry entry = std::move(at->second);
  if (entry.is_cached()) {
    const auto [begin, end] = cached_.equal_range(entry.memory.size);
    cached_.erase(std::find_if(begin, end, [&](const auto& row) { return row.second == address; }));
  }
  halves_.remove(address);
  places_.erase(entry.handle);
  entries_.erase(at);

  if (!entry.has_memory()) cached_bytes_ -= entry.memory.size;
  if (entry.is_mapped)
    had_ -= entry.memory.size;
  else if (entry.has_handle)
    handles_.insert_or_assign(entry.handle, entry.memory);
  if (!entry.is_mapped && entry.has_range) ranges_[address] = entry.memory.size;

  if (!entry.is_mapped) call_real(real().cuMemUnmap, address, entry.memory.size);
  if (!entry.has_handle) call_real(real().cuMemRelease, entry.handle);
  if (!entry.has_range) call_real(real().cuMemAddressFree, address, entry.memory.size);
}

void MappingCache::settle_around(DeviceAddress address, uint64_t size) {
  auto at = entries_.upper_bound(address);
  if (at != entries_.begin()) {
    const auto before = std::prev(at);
    if (address - before->first < before->second.memory.size) at = before;
  }
  while (at != entries_.end() && (at->first < address || at->first - address < size)) settle(at++);
}

template <class Matches>
bool MappingCache::settle_cached(Matches matches) {
  bool is_any = false;
  for (auto at = cached_.begin(); at != cached_.end();) {
    const auto entry = entries_.find((at++)->second);
    if (!matches(entry->second)) continue;
    settle(entry);
    is_any = true;
  }
  return is_any;
}

// The least worth keeping has the largest product of size and age.
void MappingCache::make_room_for(uint64_t size) {
  const uint64_t most = WholeBlocks::with_quarter(std::max(peak_, had_ + size));
  while (!cached_.empty() && had_ + cached_bytes_ + size > most) {
    const auto burden = [&](DeviceAddress address) {
      const Entry& entry = entries_.at(address);
      return static_cast<double>(entry.memory.size) * static_cast<double>(clock_ - entry.clock + 1);
    };
    const auto worst = std::max_element(
        cached_.begin(), cached_.end(),
        [&](const auto& a, const auto& b) { return burden(a.second) < burden(b.second); });
    settle(entries_.find(worst->second));
  }
}

void MappingCache::forget_range_around(DeviceAddress address) {
  auto at = ranges_.upper_bound(address);
  if (at == ranges_.begin()) return;
  --at;
  if (address - at->first < at->second) ranges_.erase(at);
}

void MappingCache::forget_handle(AllocationHandle handle) {
  const auto found = handles_.find(handle);
  if (found == handles_.end()) return;
  had_ -= found->second.size;
  handles_.erase(found);
}

void MappingCache::has_more(uint64_t size) {
  had_ += size;
  peak_ = std::max(peak_, had_);
}

}  // namespace cachalot::proxy
