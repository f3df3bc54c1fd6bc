// SPDX-License-Identifier: MIT OR Apache-2.0
#include "mapping_cache.h"

#include <algorithm>
#include <new>

#include "alloc/pools/whole_blocks.h"
#include "captures.h"
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

// Gives whether there was memory for it.
template <class Note>
bool note(Note act) noexcept {
  try {
    act();
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

}  // namespace

// ---- Ranges

Result MappingCache::reserve(DeviceAddress* out, uint64_t size, uint64_t alignment,
                             DeviceAddress hint, uint64_t flags) noexcept {
  DeviceOrdinal device = 0;
  const bool has_device = call_real(real().cuCtxGetDevice, &device) == 0;
  const std::lock_guard guard(mutex_);
  if (out != nullptr && flags == 0) {
    // The handle that is asked for next is most likely of the current device.
    const auto entry =
        find_for(size, &Entry::has_handle, [&](DeviceAddress address, const Entry& of) {
          return (alignment == 0 || address % alignment == 0) && (hint == 0 || address == hint) &&
                 (!has_device || of.is_on(device));
        });
    if (entry != entries_.end()) {
      take(entry, &Entry::has_range);
      *out = entry->first;
      return 0;
    }
  }
  if (hint != 0) settle_free_around(hint, size);
  const Result result = call_real(real().cuMemAddressReserve, out, size, alignment, hint, flags);
  if (result == 0 && !is_stopped_) note([&] { ranges_[*out] = size; });
  return result;
}

Result MappingCache::free_range(DeviceAddress address, uint64_t size) noexcept {
  const std::lock_guard guard(mutex_);
  const auto entry = entries_.find(address);
  if (entry != entries_.end() && !entry->second.is_mapped && entry->second.memory.size == size) {
    if (!entry->second.has_range) return kInvalidValue;
    give_back(entry, &Entry::has_range);
    return 0;
  }
  settle_around(address, size);
  forget_range_around(address);
  return call_real(real().cuMemAddressFree, address, size);
}

// ---- Handles

Result MappingCache::create(AllocationHandle* out, uint64_t size,
                            const AllocationProperties* properties, uint64_t flags) noexcept {
  const std::lock_guard guard(mutex_);
  const bool is_ours = out != nullptr && !is_stopped_ && is_cacheable(properties, flags);
  if (is_ours) {
    auto entry = find_for(size, &Entry::has_range, [&](DeviceAddress, const Entry& of) {
      return are_equal(of.memory.properties, *properties);
    });
    if (entry == entries_.end()) entry = find_spare(size, *properties);
    if (entry != entries_.end()) {
      take(entry, &Entry::has_handle);
      *out = entry->second.handle;
      requests_++;
      return 0;
    }
    keep_bound(size);
  }
  const Result result = call_real(real().cuMemCreate, out, size, properties, flags);
  if (result != 0 || !is_ours) return result;
  requests_++;
  created_++;
  if (note([&] { handles_.insert_or_assign(*out, Memory{size, *properties}); })) count_had(size);
  return result;
}

Result MappingCache::release(AllocationHandle handle) noexcept {
  const std::lock_guard guard(mutex_);
  const auto entry = find(handle);
  if (entry != entries_.end()) {
    if (!entry->second.has_handle) return kInvalidValue;
    give_back(entry, &Entry::has_handle);
    return 0;
  }
  forget_handle(handle);
  return call_real(real().cuMemRelease, handle);
}

// ---- Mappings

Result MappingCache::map(DeviceAddress address, uint64_t size, uint64_t offset,
                         AllocationHandle handle, uint64_t flags) noexcept {
  const std::lock_guard guard(mutex_);
  const bool is_plain = offset == 0 && flags == 0;
  const auto entry = find(handle);
  if (entry != entries_.end() && is_plain && entry->first == address &&
      entry->second.memory.size == size && entry->second.has_range && entry->second.has_handle &&
      !entry->second.is_mapped) {
    entry->second.is_mapped = true;
    end_start(&entry->second);
    return 0;
  }
  if (entry != entries_.end()) settle(entry);
  settle_around(address, size);
  const Result result = call_real(real().cuMemMap, address, size, offset, handle, flags);
  if (result != 0) return result;
  const auto range = ranges_.find(address);
  const auto memory = handles_.find(handle);
  const bool is_whole = is_plain && range != ranges_.end() && range->second == size &&
                        memory != handles_.end() && memory->second.size == size;
  if (is_whole && note([&] { add(address, handle, memory->second); })) {
    ranges_.erase(range);
    handles_.erase(memory);
  } else {
    forget_range_around(address);
    forget_handle(handle);
  }
  return 0;
}

Result MappingCache::set_access(DeviceAddress address, uint64_t size,
                                const AccessDescriptor* access, size_t count) noexcept {
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
  const bool is_noted = note([&] {
    for (const AccessDescriptor* asked = access; asked != access + count; asked++) {
      std::erase_if(told,
                    [&](const auto& old) { return are_equal(old.location, asked->location); });
      told.push_back(*asked);
    }
  });
  if (!is_noted) told.clear();  // so that the driver is asked again
  return result;
}

Result MappingCache::unmap(DeviceAddress address, uint64_t size) noexcept {
  const std::lock_guard guard(mutex_);
  const auto entry = entries_.find(address);
  if (entry != entries_.end() && entry->second.memory.size == size) {
    if (!entry->second.is_mapped) return kInvalidValue;
    give_back(entry, &Entry::is_mapped);
    return 0;
  }
  settle_around(address, size);
  return call_real(real().cuMemUnmap, address, size);
}

// ---- What is left to the driver

void MappingCache::leave(AllocationHandle handle) noexcept {
  const std::lock_guard guard(mutex_);
  const auto entry = find(handle);
  if (entry != entries_.end()) settle(entry);
  forget_handle(handle);
}

void MappingCache::leave_range(DeviceAddress address, uint64_t size) noexcept {
  const std::lock_guard guard(mutex_);
  settle_around(address, size);
}

// Also what other devices have and this one could reach.
void MappingCache::leave_device(DeviceOrdinal device) noexcept {
  const std::lock_guard guard(mutex_);
  for (auto at = entries_.begin(); at != entries_.end();) {
    const auto entry = at++;
    const auto& access = entry->second.access;
    const bool is_reached = std::any_of(access.begin(), access.end(), [&](const auto& told) {
      return told.location.type == cuda::kLocationTypeDevice && told.location.id == device;
    });
    if (entry->second.is_on(device) || is_reached) settle(entry);
  }
}

void MappingCache::stop() noexcept {
  const std::lock_guard guard(mutex_);
  while (!entries_.empty()) settle(entries_.begin());
  ranges_.clear();
  handles_.clear();
  is_stopped_ = true;
}

uint64_t MappingCache::cached_bytes(DeviceOrdinal device) noexcept {
  const std::lock_guard guard(mutex_);
  uint64_t bytes = 0;
  for (const auto& [address, entry] : entries_)
    if (entry.is_spare() && entry.is_on(device)) bytes += entry.memory.size;
  return bytes;
}

bool MappingCache::empty(DeviceOrdinal device) noexcept {
  const std::lock_guard guard(mutex_);
  return settle_spare([&](const Entry& entry) { return entry.is_on(device); });
}

void MappingCache::trim(std::chrono::seconds idle) noexcept {
  const std::lock_guard guard(mutex_);
  const auto now = std::chrono::steady_clock::now();
  settle_spare([&](const Entry& entry) { return now - entry.time >= idle; });
}

MappingCache::Counts MappingCache::counts() noexcept {
  const std::lock_guard guard(mutex_);
  return {requests_, created_};
}

// ---- Entries

MappingCache::Entries::iterator MappingCache::find(AllocationHandle handle) {
  const auto place = places_.find(handle);
  return place != places_.end() ? entries_.find(place->second) : entries_.end();
}

// The entry that the thread has taken the other part of comes first: range and handle are to be one entry's.
template <class Fits>
MappingCache::Entries::iterator MappingCache::find_for(uint64_t size, bool Entry::*other,
                                                       Fits fits) {
  const auto is_one = [&](Entries::iterator entry) {
    return entry->second.memory.size == size && fits(entry->first, entry->second);
  };
  for (const DeviceAddress address : started_) {
    const auto entry = entries_.find(address);
    const bool is_half = entry->second.has_handle != entry->second.has_range;
    if (entry->second.starter == std::this_thread::get_id() && is_half && entry->second.*other &&
        is_one(entry))
      return entry;
  }
  const auto [begin, end] = free_.equal_range(size);
  for (auto at = end; at != begin;) {
    const auto entry = entries_.find((--at)->second);
    if (is_one(entry)) return entry;
  }
  return entries_.end();
}

// Where the program has kept the range, and has perhaps forgotten it: vLLM's sleeping models do.
MappingCache::Entries::iterator MappingCache::find_spare(uint64_t size,
                                                         const AllocationProperties& properties) {
  return std::find_if(entries_.begin(), entries_.end(), [&](const auto& row) {
    const Entry& entry = row.second;
    return entry.is_spare() && entry.started_node.size() == 1 && entry.memory.size == size &&
           are_equal(entry.memory.properties, properties);
  });
}

void MappingCache::take(Entries::iterator entry, bool Entry::*part) {
  Entry& taken = entry->second;
  if (taken.is_free()) {
    taken.free_node = free_.extract(taken.free_at);
    start(entry);
  }
  const bool was_spare = taken.is_spare();
  taken.*part = true;
  if (!was_spare || taken.is_spare()) return;
  spare_bytes_ -= taken.memory.size;
  count_had(taken.memory.size);
}

void MappingCache::give_back(Entries::iterator entry, bool Entry::*part) {
  Entry& given = entry->second;
  const bool was_spare = given.is_spare();
  given.*part = false;
  end_start(&given);
  if (!was_spare && given.is_spare()) {
    had_ -= given.memory.size;
    spare_bytes_ += given.memory.size;
    given.clock = ++clock_;
    given.time = std::chrono::steady_clock::now();
  }
  if (given.is_free()) given.free_at = free_.insert(std::move(given.free_node));
}

void MappingCache::start(Entries::iterator entry) {
  entry->second.started_at = entry->second.started_node.begin();
  started_.splice(started_.end(), entry->second.started_node);
  entry->second.starter = std::this_thread::get_id();
}

void MappingCache::end_start(Entry* entry) {
  if (entry->started_node.empty())
    entry->started_node.splice(entry->started_node.begin(), started_, entry->started_at);
}

void MappingCache::add(DeviceAddress address, AllocationHandle handle, const Memory& memory) {
  BySize row;
  row.emplace(memory.size, address);
  Entries fresh;
  Entry& entry = fresh.emplace(address, Entry{.memory = memory, .handle = handle}).first->second;
  entry.started_node.push_back(address);
  entry.free_node = row.extract(row.begin());
  places_[handle] = address;
  entries_.insert(fresh.extract(fresh.begin()));
}

// The program has heard already that these calls went well, so a refusal is told to nobody.
void MappingCache::settle(Entries::iterator at) {
  const DeviceAddress address = at->first;
  end_start(&at->second);
  if (at->second.is_free()) at->second.free_node = free_.extract(at->second.free_at);
  const Entry entry = std::move(at->second);
  const uint64_t size = entry.memory.size;
  places_.erase(entry.handle);
  entries_.erase(at);

  const bool has_range_alone = entry.has_range && !entry.is_mapped;
  const bool has_handle_alone = entry.has_handle && !entry.is_mapped;
  if (has_range_alone) note([&] { ranges_[address] = size; });
  const bool is_noted =
      has_handle_alone && note([&] { handles_.insert_or_assign(entry.handle, entry.memory); });
  if (entry.is_spare())
    spare_bytes_ -= size;
  else if (!is_noted)
    had_ -= size;

  if (!entry.is_mapped) call_real(real().cuMemUnmap, address, size);
  if (!entry.has_handle) call_real(real().cuMemRelease, entry.handle);
  if (!entry.has_range) call_real(real().cuMemAddressFree, address, size);
}

MappingCache::Entries::iterator MappingCache::first_around(DeviceAddress address) {
  const auto after = entries_.upper_bound(address);
  if (after == entries_.begin()) return after;
  const auto before = std::prev(after);
  return address - before->first < before->second.memory.size ? before : after;
}

void MappingCache::settle_around(DeviceAddress address, uint64_t size) {
  auto at = first_around(address);
  while (at != entries_.end() && (at->first < address || at->first - address < size)) settle(at++);
}

// The program has given the addresses back, and wants them again.
void MappingCache::settle_free_around(DeviceAddress address, uint64_t size) {
  auto at = first_around(address);
  while (at != entries_.end() && (at->first < address || at->first - address < size)) {
    const auto entry = at++;
    if (entry->second.is_free()) settle(entry);
  }
}

template <class Matches>
bool MappingCache::settle_spare(Matches matches) {
  bool is_any = false;
  Captures::get().unless_any([&] {
    for (auto at = entries_.begin(); at != entries_.end();) {
      const auto entry = at++;
      if (!entry->second.is_spare() || !matches(entry->second)) continue;
      settle(entry);
      is_any = true;
    }
  });
  return is_any;
}

// The least worth keeping has the largest product of size and age.
void MappingCache::keep_bound(uint64_t size) {
  const uint64_t most = WholeBlocks::with_quarter(std::max(peak_, had_ + size));
  const auto burden = [&](const Entry& entry) {
    if (!entry.is_spare()) return 0.0;
    return static_cast<double>(entry.memory.size) * static_cast<double>(clock_ - entry.clock + 1);
  };
  Captures::get().unless_any([&] {
    while (spare_bytes_ > 0 && had_ + spare_bytes_ + size > most)
      settle(std::max_element(entries_.begin(), entries_.end(), [&](const auto& a, const auto& b) {
        return burden(a.second) < burden(b.second);
      }));
  });
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

void MappingCache::count_had(uint64_t size) {
  had_ += size;
  peak_ = std::max(peak_, had_);
}

}  // namespace cachalot::proxy
