// SPDX-License-Identifier: MIT OR Apache-2.0
#include "virtual_memory.h"

#include <algorithm>
#include <utility>

namespace cachalot::proxy {

void VirtualMemory::created(AllocationHandle handle, bool is_of_device, int64_t cost_ns) {
  const std::lock_guard guard(mutex_);
  handles_[handle] = {is_of_device, cost_ns};
}

void VirtualMemory::retained(AllocationHandle handle) {
  const std::lock_guard guard(mutex_);
  const auto found = handles_.find(handle);
  if (found != handles_.end()) found->second.references++;
}

void VirtualMemory::released(AllocationHandle handle) {
  const std::lock_guard guard(mutex_);
  const auto found = handles_.find(handle);
  if (found == handles_.end()) return;
  found->second.references--;
  drop_if_gone(found);
}

void VirtualMemory::drop_if_gone(Handles::iterator handle) {
  if (handle->second.references <= 0 && handle->second.mappings == 0) handles_.erase(handle);
}

// A handle of another process is not this one's memory, and one that is mapped already is not new.
void VirtualMemory::mapped(Address address, uint64_t size, AllocationHandle handle,
                           DriverContext* context, int64_t cost_ns) {
  const std::lock_guard guard(mutex_);
  Mapping mapping{.address = address,
                  .memory = {context, size, 0, 'i', false},
                  .cost_ns = cost_ns,
                  .handle = handle,
                  .is_accessible = false};
  const auto found = handles_.find(handle);
  if (found != handles_.end()) {
    Handle& known = found->second;
    mapping.memory.entry = 'v';
    mapping.memory.is_cacheable = known.mappings++ == 0 && known.is_of_device;
    mapping.cost_ns += std::exchange(known.cost_ns, 0);
    known.address = address;
  }
  mappings_.insert_or_assign(address, mapping);
}

void VirtualMemory::unmapped(const Mapping& mapping) {
  const auto found = handles_.find(mapping.handle);
  if (found == handles_.end()) return;
  found->second.mappings--;
  drop_if_gone(found);
}

std::vector<Mapping> VirtualMemory::made_accessible(Address address, uint64_t size, int64_t cost_ns,
                                                    ContextId stack) {
  const std::lock_guard guard(mutex_);
  std::vector<Mapping> made;
  const auto end = mappings_.lower_bound(address + size);
  for (auto at = mappings_.lower_bound(address); at != end; ++at) {
    Mapping& mapping = at->second;
    if (mapping.is_accessible) continue;
    mapping.is_accessible = true;
    mapping.memory.stack = stack;
    // The call's cost by bytes.
    mapping.cost_ns +=
        static_cast<int64_t>(static_cast<double>(cost_ns) *
                             static_cast<double>(mapping.memory.size) / static_cast<double>(size));
    made.push_back(mapping);
  }
  return made;
}

std::vector<Mapping> VirtualMemory::take(Address address, uint64_t size) {
  const std::lock_guard guard(mutex_);
  std::vector<Mapping> taken;
  const auto begin = mappings_.lower_bound(address);
  const auto end = mappings_.lower_bound(address + size);
  for (auto at = begin; at != end; ++at) {
    if (at->second.is_accessible) taken.push_back(at->second);
    unmapped(at->second);
  }
  mappings_.erase(begin, end);
  return taken;
}

void VirtualMemory::put_back(const std::vector<Mapping>& mappings) {
  const std::lock_guard guard(mutex_);
  for (const Mapping& mapping : mappings) {
    mappings_.insert_or_assign(mapping.address, mapping);
    const auto found = handles_.find(mapping.handle);
    if (found != handles_.end()) found->second.mappings++;
  }
}

std::vector<Mapping> VirtualMemory::take_all_of(const DriverContext* context) {
  const std::lock_guard guard(mutex_);
  std::vector<Mapping> taken;
  for (auto at = mappings_.begin(); at != mappings_.end();) {
    const Mapping& mapping = at->second;
    if (mapping.memory.context != context) {
      ++at;
      continue;
    }
    if (mapping.is_accessible) taken.push_back(mapping);
    unmapped(mapping);
    at = mappings_.erase(at);
  }
  return taken;
}

std::vector<Mapping> VirtualMemory::accessible() {
  const std::lock_guard guard(mutex_);
  std::vector<Mapping> found;
  for (const auto& [address, mapping] : mappings_)
    if (mapping.is_accessible) found.push_back(mapping);
  return found;
}

bool VirtualMemory::has_any_on(int device) {
  const std::lock_guard guard(mutex_);
  return std::any_of(mappings_.begin(), mappings_.end(),
                     [&](const auto& row) { return row.second.memory.context->device == device; });
}

Address VirtualMemory::address_of(AllocationHandle handle) {
  const std::lock_guard guard(mutex_);
  const auto found = handles_.find(handle);
  return found == handles_.end() ? 0 : found->second.address;
}

}  // namespace cachalot::proxy
