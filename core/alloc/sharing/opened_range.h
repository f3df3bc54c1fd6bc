// SPDX-License-Identifier: MIT OR Apache-2.0
// One range of another process's memory in this process.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "alloc/heap/handle_types.h"
#include "alloc/sharing/shared_memory.h"
#include "device/device.h"

namespace cachalot {

// Open from its creation, which throws Error, to its end.
class OpenedRange {
 public:
  virtual ~OpenedRange() = default;  // closes, whatever the driver says
  OpenedRange(const OpenedRange&) = delete;
  OpenedRange& operator=(const OpenedRange&) = delete;

  Address address() const { return address_; }
  virtual uint64_t reserved_bytes() const { return 0; }  // of pages only

 protected:
  OpenedRange(Driver& driver, int device) : driver_(driver), device_(device) {}

  Driver& driver_;
  const int device_;
  Address address_ = 0;
};

// By the driver's own handle.
class OpenedSegment final : public OpenedRange {
 public:
  OpenedSegment(Driver& driver, int device, const ShareableHandle& handle);
  ~OpenedSegment() override;
};

// Pages one behind the other [exp 7.4]. They have no stream and are part of no pool:
// nothing but the end of this object gives them back, and no peer that comes later gets
// access.
class OpenedPages final : public OpenedRange {
 public:
  // peers: other devices that are to reach the pages.
  OpenedPages(Driver& driver, HandleTypes& types, const Rules& rules, int device,
              const SharedPages& pages, const std::vector<int>& peers);
  ~OpenedPages() override;

  uint64_t reserved_bytes() const override { return reserved_; }

 private:
  void require_usable(HandleTypes& types, const SharedPages& pages) const;
  uint64_t bytes_to_reserve(const SharedPages& pages) const;
  void import_pages(const SharedPages& pages);
  void map_pages(const std::vector<int>& peers);
  void give_back();

  const Rules rules_;
  const uint64_t page_size_;  // bytes
  uint64_t reserved_ = 0;
  std::vector<uint64_t> handles_;
  uint64_t mapped_ = 0;  // the first pages, of those that have handles
};

}  // namespace cachalot
