// SPDX-License-Identifier: MIT OR Apache-2.0
#include "device/sim_pool.h"

#include <algorithm>

#include "base/assert.h"
#include "device/pool_attributes.h"

namespace cachalot {

void Watermark::set(uint64_t bytes) {
  CACHALOT_ASSERT(1, current_ <= high_);
  current_ = bytes;
  high_ = std::max(high_, current_);
}

void SimPool::change_use(int64_t bytes) {
  CACHALOT_ASSERT(1, bytes >= 0 || used_.current() >= static_cast<uint64_t>(-bytes));
  used_.set(used_.current() + static_cast<uint64_t>(bytes));
  reserved_.set(std::max(reserved_.current(), used_.current()));
}

DriverCode SimPool::allocate(SimMemory& memory, uint64_t size, Address* address) {
  if (const DriverCode code = memory.allocate(size, address)) return code;
  try {
    sizes_[*address] = size;
  } catch (...) {
    memory.free(*address);
    throw;
  }
  change_use(static_cast<int64_t>(size));
  return kSuccess;
}

DriverCode SimPool::free(SimMemory& memory, Address address) {
  const auto found = sizes_.find(address);
  if (found == sizes_.end()) return kInvalidValue;
  if (const DriverCode code = memory.free(address)) return code;
  change_use(-static_cast<int64_t>(found->second));
  sizes_.erase(found);
  return kSuccess;
}

void SimPool::trim(uint64_t keep_bytes) {
  CACHALOT_ASSERT(1, used_.current() <= reserved_.current());
  reserved_.set(std::min(reserved_.current(), std::max(keep_bytes, used_.current())));
}

void SimPool::set_graph_memory(uint64_t used, uint64_t reserved) {
  graph_used_.set(used);
  graph_reserved_.set(reserved);
}

DriverCode SimPool::get_attribute(int32_t attribute, uint64_t* value) const {
  switch (attribute) {
    case pool_attribute::kReservedCurrent:
      *value = reserved_.current();
      return kSuccess;
    case pool_attribute::kReservedHigh:
      *value = reserved_.high();
      return kSuccess;
    case pool_attribute::kUsedCurrent:
      *value = used_.current();
      return kSuccess;
    case pool_attribute::kUsedHigh:
      *value = used_.high();
      return kSuccess;
    default:
      return kInvalidValue;
  }
}

void SimPool::set_attribute(int32_t attribute) {
  if (attribute == pool_attribute::kReservedHigh) reserved_.reset_high();
  if (attribute == pool_attribute::kUsedHigh) used_.reset_high();
}

DriverCode SimPool::get_graph_attribute(int32_t attribute, uint64_t* value) const {
  switch (attribute) {
    case graph_attribute::kUsedCurrent:
      *value = graph_used_.current();
      return kSuccess;
    case graph_attribute::kUsedHigh:
      *value = graph_used_.high();
      return kSuccess;
    case graph_attribute::kReservedCurrent:
      *value = graph_reserved_.current();
      return kSuccess;
    case graph_attribute::kReservedHigh:
      *value = graph_reserved_.high();
      return kSuccess;
    default:
      return kInvalidValue;
  }
}

void SimPool::set_graph_attribute(int32_t attribute) {
  if (attribute == graph_attribute::kUsedHigh) graph_used_.reset_high();
  if (attribute == graph_attribute::kReservedHigh) graph_reserved_.reset_high();
}

}  // namespace cachalot
