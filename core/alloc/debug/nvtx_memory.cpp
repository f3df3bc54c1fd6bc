// SPDX-License-Identifier: MIT OR Apache-2.0
#include "alloc/debug/nvtx_memory.h"

#ifdef CACHALOT_HAS_NVTX

#include <nvtx3/nvToolsExtMem.h>

#include <algorithm>
#include <iterator>
#include <map>

#include "base/assert.h"

namespace cachalot {
namespace {

// For tools only: nothing here reads or writes the memory.
const void* pointer(Address address) { return reinterpret_cast<const void*>(address); }

// NVTX tells older descriptions from newer ones by version and size.
template <class Description>
Description described() {
  Description description{};
  description.extCompatID = NVTX_EXT_COMPATID_MEM;
  description.structSize = sizeof(Description);
  return description;
}

// Invariant: each entry of `heaps_` has a handle that a tool gave; without a tool the map stays
// empty, and each call ends after one look at it.
class Announcements final : public NvtxMemory {
 public:
  // A domain whose heaps are still registered would leave them to the tools for good.
  ~Announcements() override {
    remove_heaps(0, UINT64_MAX);
    if (domain_) nvtxDomainDestroy(domain_);
  }

  void add_heap(Address address, uint64_t size) override {
    CACHALOT_ASSERT(1, size > 0 && !is_in_heap(address));
    // At the first heap, since a tool that attaches to the process may come after the allocator was
    // made.
    if (!domain_) domain_ = nvtxDomainCreateA("cachalot");
    // The entry comes first, since it can fail: a heap that is announced must be taken back.
    const auto heap = heaps_.insert_or_assign(address, Heap{size, nullptr}).first;
    const nvtxMemVirtualRangeDesc_t range = {size, pointer(address)};
    auto description = described<nvtxMemHeapDesc_t>();
    description.usage = NVTX_MEM_HEAP_USAGE_TYPE_SUB_ALLOCATOR;
    description.type = NVTX_MEM_TYPE_VIRTUAL_ADDRESS;
    description.typeSpecificDescSize = sizeof range;
    description.typeSpecificDesc = &range;
    heap->second.handle = nvtxMemHeapRegister(domain_, &description);
    if (!heap->second.handle) heaps_.erase(heap);  // no tool listens
  }

  void remove_heaps(Address address, uint64_t size) override {
    const auto begin = heaps_.lower_bound(address);
    const auto end = heaps_.lower_bound(address + size);
    for (auto heap = begin; heap != end; ++heap)
      nvtxMemHeapUnregister(domain_, heap->second.handle);
    heaps_.erase(begin, end);
  }

  // Visits every heap that the old or the new region touches.
  void set_region(Address address, uint64_t before, uint64_t after) override {
    const auto last = heaps_.lower_bound(address + std::max(before, after));
    for (auto heap = heap_before(address); heap != last; ++heap) {
      // A region of an expandable segment may begin in one heap and end in another.
      const Address begin = std::max(address, heap->first);
      const Address end = heap->first + heap->second.size;
      if (begin >= end) continue;
      set_part(heap->second.handle, begin, std::clamp(address + before, begin, end) - begin,
               std::clamp(address + after, begin, end) - begin);
    }
  }

  // Tools refuse the name of a region that they were not told of.
  void name_region(Address address, const char* name) override {
    if (!is_in_heap(address)) return;
    nvtxMemRegionNameDesc_t region{};
    region.regionRefType = NVTX_MEM_REGION_REF_TYPE_POINTER;
    region.nameType = NVTX_MESSAGE_TYPE_ASCII;
    region.region.pointer = pointer(address);
    region.name.ascii = name;
    auto batch = described<nvtxMemRegionsNameBatch_t>();
    batch.regionCount = 1;
    batch.regionElementSize = sizeof region;
    batch.regionElements = &region;
    nvtxMemRegionsName(domain_, &batch);
  }

 private:
  struct Heap {
    uint64_t size;
    nvtxMemHeapHandle_t handle;
  };

  // False also for a segment that the tool has refused.
  bool is_in_heap(Address address) const {
    const auto heap = heap_before(address);
    return heap != heaps_.end() && address - heap->first < heap->second.size;
  }

  // The last heap that begins at the address or before it; without such a heap the first one.
  std::map<Address, Heap>::const_iterator heap_before(Address address) const {
    const auto next = heaps_.upper_bound(address);
    return next == heaps_.begin() ? next : std::prev(next);
  }

  // The part of a region that lies in one heap: it comes, goes or changes its size.
  void set_part(nvtxMemHeapHandle_t heap, Address address, uint64_t before, uint64_t after) const {
    if (before == after) return;
    if (after == 0) return unregister(address);
    const nvtxMemVirtualRangeDesc_t range = {after, pointer(address)};
    if (before == 0) {
      auto batch = described<nvtxMemRegionsRegisterBatch_t>();
      batch.regionType = NVTX_MEM_TYPE_VIRTUAL_ADDRESS;
      batch.heap = heap;
      batch.regionCount = 1;
      batch.regionDescElementSize = sizeof range;
      batch.regionDescElements = &range;
      nvtxMemRegionsRegister(domain_, &batch);
    } else {
      auto batch = described<nvtxMemRegionsResizeBatch_t>();
      batch.regionType = NVTX_MEM_TYPE_VIRTUAL_ADDRESS;
      batch.regionDescCount = 1;
      batch.regionDescElementSize = sizeof range;
      batch.regionDescElements = &range;
      nvtxMemRegionsResize(domain_, &batch);
    }
  }

  void unregister(Address address) const {
    nvtxMemRegionRef_t region{};
    region.pointer = pointer(address);
    auto batch = described<nvtxMemRegionsUnregisterBatch_t>();
    batch.refType = NVTX_MEM_REGION_REF_TYPE_POINTER;
    batch.refCount = 1;
    batch.refElementSize = sizeof region;
    batch.refElements = &region;
    nvtxMemRegionsUnregister(domain_, &batch);
  }

  nvtxDomainHandle_t domain_ = nullptr;
  // By the address where a heap begins; heaps do not overlap.
  std::map<Address, Heap> heaps_;
};

}  // namespace

std::unique_ptr<NvtxMemory> make_nvtx_memory() { return std::make_unique<Announcements>(); }

}  // namespace cachalot

#else

namespace cachalot {

std::unique_ptr<NvtxMemory> make_nvtx_memory() { return nullptr; }

}  // namespace cachalot

#endif
