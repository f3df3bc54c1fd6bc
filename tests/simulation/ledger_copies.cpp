// SPDX-License-Identifier: MIT OR Apache-2.0
// The ledger's pinned memory and copies, which both are asked for with no lock held.
#include <algorithm>

#include "ledger_machine.h"

namespace cachalot_test {
namespace {

constexpr uint64_t kHostPage = 4096;

}  // namespace

void LedgerMachine::fill_copies(cachalot_device_ops* ops) {
  ops->host_allocate = [](void* self, int32_t, uint64_t size, int32_t, cachalot_address* out) {
    return of(self).host_allocate(size, out);
  };
  ops->host_free = [](void* self, int32_t, cachalot_address address, int32_t) {
    return of(self).host_free(address);
  };
  ops->copy = [](void* self, int32_t device, cachalot_address to, cachalot_address from,
                 uint64_t size,
                 cachalot_stream) { return of(self).copy(device, to, device, from, size); };
  ops->copy_peer = [](void* self, int32_t to_device, cachalot_address to, int32_t from_device,
                      cachalot_address from, uint64_t size, cachalot_stream) {
    return of(self).copy(to_device, to, from_device, from, size);
  };
}

// ---- Pinned memory

int32_t LedgerMachine::host_allocate(uint64_t size, cachalot_address* out) {
  tell_unlocked();
  if (const int32_t code = due(CACHALOT_SIM_CALL_HOST_ALLOCATE)) return code;
  *out = next_host_address_;
  next_host_address_ += (size / kHostPage + 1) * kHostPage;
  host_blocks_[*out] = size;
  return 0;
}

int32_t LedgerMachine::host_free(cachalot_address address) {
  const auto found = host_blocks_.find(address);
  if (found == host_blocks_.end())
    report_defect("free of pinned memory at " + hex(address) + ", where none begins");
  if (const int32_t code = due(CACHALOT_SIM_CALL_HOST_FREE)) return code;
  contents_.drop(address, found->second);
  host_blocks_.erase(found);
  return 0;
}

// ---- Copies

// Both ends have to be there when the call is made, and when the copy is done.
int32_t LedgerMachine::copy(int32_t to_device, cachalot_address to, int32_t from_device,
                            cachalot_address from, uint64_t size) {
  require_usable(to_device, to, size);
  require_usable(from_device, from, size);
  tell_unlocked();
  if (const int32_t code = due(CACHALOT_SIM_CALL_COPY)) return code;
  require_usable(to_device, to, size);
  require_usable(from_device, from, size);
  const bool is_lost = plant_ == Plant::kLostCopy && is_within(host_blocks_, from, size);
  if (!is_lost) contents_.copy(to, from, size);
  return 0;
}

void LedgerMachine::require_usable(int32_t device, cachalot_address address, uint64_t size) const {
  if (usable(device, address, size) != size && refused_returns_ == 0)
    report_defect("a copy of " + std::to_string(size) + " bytes at " + hex(address) +
                  ", which device " + std::to_string(device) + " cannot use");
}

// Of one device's mappings what another one, or itself, has access to.
uint64_t LedgerMachine::mapped(const Device& of, int32_t device, cachalot_address address,
                               uint64_t size) const {
  const cachalot_address end = address + size;
  auto mapping = last_from(of.mappings, address);
  if (mapping == of.mappings.end()) mapping = of.mappings.begin();
  uint64_t sum = 0;
  for (; mapping != of.mappings.end() && mapping->first < end; ++mapping) {
    const auto& [begin, row] = *mapping;
    if ((row.access >> device & 1) == 0 || begin + row.size <= address) continue;
    sum += std::min(end, begin + row.size) - std::max(address, begin);
  }
  return sum;
}

// Pinned memory and plain segments are every device's.
uint64_t LedgerMachine::usable(int32_t device, cachalot_address address, uint64_t size) const {
  if (is_within(host_blocks_, address, size)) return size;
  uint64_t sum = 0;
  for (const Device& of : devices_) {
    if (is_within(of.segments, address, size)) return size;
    sum += mapped(of, device, address, size);
  }
  return sum;
}

}  // namespace cachalot_test
