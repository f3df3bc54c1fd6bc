// SPDX-License-Identifier: MIT OR Apache-2.0
#include "alloc/native/uncached_blocks.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/assert.h"
#include "base/error.h"
#include "device/address_range.h"
#include "device/driver_error.h"

namespace cachalot {

// [core 21] Neither rounded nor counted: the driver's answer is the block.
Address UncachedBlocks::allocate(const Request& request) {
  Address address = 0;
  const DriverCode code = driver_.allocate(request.device, request.size, &address);
  if (code != kSuccess) {
    driver_.take_pending_error(request.device);  // else the program's next call would meet it
    throw runtime_error(driver_, code);
  }
  if (request.size == 0 && address == 0) return 0;  // as cudaMalloc answers it
  keep(address, request);
  return address;
}

// Keeps a range that begins where another live block does: giving it back would take that block's
// memory.
void UncachedBlocks::keep(Address address, const Request& request) {
  const auto refuse = [&](const char* flaw) {
    throw_invalid_state("the driver gave " + range_text(address, request.size) + ": " + flaw);
  };
  const char* const flaw = flaw_of_range(address, std::max(request.size, uint64_t{1}));
  if (flaw != nullptr && address != 0) driver_.free(request.device, address);
  if (flaw != nullptr) refuse(flaw);
  std::lock_guard guard(lock_);
  bool is_new = false;
  try {
    is_new = blocks_.try_emplace(address, request).second;
  } catch (...) {
    driver_.free(request.device, address);
    throw;
  }
  if (!is_new) refuse("another live block begins there");
  set_count();
}

void UncachedBlocks::set_count() {
  lock_.assert_held();
  count_ = blocks_.size();
}

// The row goes first: once the driver has the memory, it may hand it out again at once.
bool UncachedBlocks::free(Address address) {
  // The usual case by far: caching is on, and the address is no block of the cache.
  if (empty()) return false;
  Rows::node_type row;
  {
    std::lock_guard guard(lock_);
    row = blocks_.extract(address);
    if (!row) return false;
    set_count();
  }
  const auto put_back = [&] {
    std::lock_guard guard(lock_);
    const bool is_new = blocks_.insert(std::move(row)).inserted;
    CACHALOT_ASSERT(1, is_new);
    set_count();
  };
  try {
    const DriverCode code = driver_.free(row.mapped().device, address);
    if (code != kSuccess) throw runtime_error(driver_, code);
  } catch (...) {
    put_back();
    throw;
  }
  return true;
}

void UncachedBlocks::free_all() {
  std::unordered_map<Address, Request> blocks;
  {
    std::lock_guard guard(lock_);
    blocks.swap(blocks_);
    set_count();
  }
  // Ignores errors: a device that is lost has no work to wait for.
  std::set<int> devices;
  for (const auto& [address, request] : blocks) devices.insert(request.device);
  for (const int device : devices) driver_.device_synchronize(device);
  for (const auto& [address, request] : blocks) driver_.free(request.device, address);
}

std::optional<BlockInfo> UncachedBlocks::info(Address address) {
  std::lock_guard guard(lock_);
  const auto found = blocks_.find(address);
  if (found == blocks_.end()) return {};
  const Request& request = found->second;
  return BlockInfo{address, request.size, request.size, request.stream, {}, request.device, true};
}

}  // namespace cachalot
