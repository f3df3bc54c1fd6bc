// SPDX-License-Identifier: MIT OR Apache-2.0
// Growing and unmapping expandable segments [exp 1 to 9].
//
// Note [Expandable segments]
// Rationale: a plain segment has one size for life, so a program whose sizes change leaves holes
// that fit nothing. A reserved range that is backed page by page can grow at its end instead.
// Approach: the range is a segment whose blocks are mapped or unmapped. Mapping turns (the front
// of) an unmapped block into a free one, unmapping the whole pages of a free one into an unmapped
// one.
// Invariants: mapped bytes of a segment = sizes of its mapped blocks; unmapped blocks are
// page-aligned, free, and in their pool's unmapped set, but for waiting holes.
// Limitations: a page with one live block stays.
#pragma once

#include <span>
#include <vector>

#include "alloc/native/alloc_params.h"
#include "alloc/native/device_state.h"

namespace cachalot {

class ExpandableMemory : private DeviceOperation {
 public:
  explicit ExpandableMemory(DeviceState& device) : DeviceOperation(device) {}

  // A block for a request that the cache cannot serve, in no set [exp 3]. Null: out of memory; pages
  // that were mapped on the way stay [exp 3.3]. pre: the shard of the request, and the device's lock.
  Block* try_allocate_expandable_block(AllocParams& params);
  // Gives the whole pages of a free block back [exp 6], but for pinned ones. pre: the shard of the block, and the device's lock.
  void unmap_block(Block* block, ContextId context);

  // ---- For pools that sleep. pre of the following: the whole device.
  // Gives up to so many bytes at the end of a free block back, which has whole pages only. The range stays.
  void unmap_end(Block* block, uint64_t most, ContextId context);
  // Backs what has no pages of a part of a range. False: out of memory; what was mapped on the way stays. Throws
  // for any other failure, likewise. pre: whole pages.
  bool map_range(Address begin, Address end, ContextId context);
  // So many bytes, or less, as pages of the range at the address: at least one.
  uint64_t whole_pages_of(uint64_t bytes, Address address) const;

  // ---- For a policy that moves pages. pre of the following: the whole device.
  // An unmapped block that covers a new range, of the usual number of pages or, where the driver refuses
  // those, of as many as the request takes. Null: it refuses them too.
  Block* new_range(AllocParams& params);
  // Backs an unmapped block with these pages. Throws where the driver refuses, and nothing has
  // changed. pre: they are as many as the block has.
  void map_pages(Block* block, std::span<const uint64_t> handles, ContextId context);
  // Takes [begin, end), whole pages of a free block, away from it and adds their handles. Gives the unmapped
  // block that is left of them. It waits, in no set, and its addresses stay mapped, until end_waiting(). pre:
  // the vector has room.
  Block* take_pages(Block* block, Address begin, Address end, ContextId context,
                    std::vector<uint64_t>* handles);
  // Unmaps the addresses, and the block becomes a hole. place: a node for it. pre: no work uses the
  // addresses.
  void end_waiting(Block* hole, BlockPool::Unmapped::node_type place);
  // The holes that are the only block of their range, by address. pre: the device's lock.
  std::vector<Block*> empty_ranges() const;
  // Removes those that match. pre: the whole device.
  void remove_empty_ranges(const std::function<bool(const Segment&)>& matches);
  // Gives the addresses of such a range back. pre: the device's lock, and the shard of the block.
  void remove_range(Block* only_block);

 private:
  // What map_block() and map_pages() do around the driver's calls.
  void prepare_map(const Block* block, uint64_t size);
  void finish_map(Block* block, uint64_t size, ContextId context);
  // pre: no work uses the pages.
  Block* unmap_pages(Block* block, Address begin, Address end, ContextId context);
  // What unmap_pages() and take_pages() do around the driver's calls.
  void cut_out_unmapped(Block* block, Address begin, Address end);
  void add_hole(Block* hole, BlockPool::Unmapped::node_type place);
  void announce_unmapped(const Block& hole, Address begin, Address end, ContextId context);

  bool map_hole(Address begin, uint64_t size, ContextId context);
  // The block that begins at the address, cut off from the hole around it. pre: an address of a hole.
  Block* hole_at(Address address);
  Block* find_expandable_block(AllocParams& params);
  Block* new_expandable_segment(AllocParams& params);
  Block* reserve_range(AllocParams& params, uint64_t pages, DriverCode* refusal);
  uint64_t pages_to_reserve(const AllocParams& params, uint64_t page);
  uint64_t expandable_reserve(Stream stream, uint64_t total);
  bool map_block(Block* block, uint64_t size, ContextId context);
};

}  // namespace cachalot
