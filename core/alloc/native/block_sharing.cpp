// SPDX-License-Identifier: MIT OR Apache-2.0
#include "alloc/native/block_sharing.h"

#include <unistd.h>

#include <mutex>
#include <string>

#include "alloc/shards/device_lock.h"
#include "base/text.h"
#include "device/driver_error.h"

namespace cachalot {

void BlockSharing::require_driver() {
  if (driver().segment_handles() != nullptr) return;
  const std::string name = driver().name();
  throw_not_supported("memory of the driver '" + name + "' cannot be shared between processes" +
                      (name == "host" ? ", only that of 'host-shared'" : ""));
}

std::optional<SharedBlock> BlockSharing::share(Block* block, Address address, bool holds) {
  const DeviceLock lock(device_.shards);
  if (!block->is_live_at(address)) return {};
  require_driver();
  if (holds && block->is(Block::kShared))
    throw_invalid_state("the block at " + hex_address(address) + " is shared already");
  const Segment& segment = *block->segment();
  if (segment.pool->owner) require_awake(*segment.pool->owner);
  SharedBlock shared = segment.is_expandable()
                           ? share_pages(block)
                           : SharedBlock{memory_of_segment(segment), address - segment.address};
  shared.size = block->requested;
  if (holds) block->set(Block::kShared);
  return shared;
}

// Asked of the driver each time, as the reference does.
SharedMemory BlockSharing::memory_of_segment(const Segment& segment) {
  ShareableHandle handle;
  const DriverCode code = driver().segment_handles()->get(device_.index, segment.address, &handle);
  if (code != kSuccess) throw runtime_error(driver(), code);
  return handle;
}

// Each page that the block has a part of.
SharedBlock BlockSharing::share_pages(const Block* block) {
  PageTable& pages = *block->segment()->pages;
  if (!device_.shared.handle_types.are_shareable() && rules().refuses_to_share_without_handles) {
    throw_invalid_state(rules().wording().handles_are_disabled);
  }
  const Address start = block->segment()->address;
  const Address begin = start + round_down(block->address - start, pages.page_size());
  const Address end = start + round_up(block->address + block->size - start, pages.page_size());
  SharedPages shared{.process = static_cast<int32_t>(::getpid()),
                     .page_size = pages.page_size(),
                     .type = pages.handle_type(),
                     .handles = pages.export_pages(begin, end - begin)};
  return {std::move(shared), block->address - begin};
}

// A block that was freed meanwhile, at the end of its allocator, is held no more.
bool BlockSharing::end_hold(Block* block, Address address) {
  const DeviceLock lock(device_.shards);
  if (!block->is_live_at(address) || !block->is(Block::kShared)) return false;
  block->clear(Block::kShared);
  return true;
}

std::vector<int> BlockSharing::peers() {
  const std::lock_guard guard(device_.shards.lock());
  return device_.expandable.peers();
}

}  // namespace cachalot
