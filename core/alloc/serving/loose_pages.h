// SPDX-License-Identifier: MIT OR Apache-2.0
// Pages on their way from one range to another, or from the driver to a range.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "alloc/serving/stream_order.h"
#include "device/device.h"

namespace cachalot {

// Owns the handles of pages that have no place yet. The end releases and counts them.
class LoosePages {
 public:
  // most: how many pages it may hold at a time. Throws std::bad_alloc.
  LoosePages(Driver& driver, int device, uint64_t most, uint64_t* released)
      : driver_(driver), device_(device), released_(*released) {
    handles_.reserve(most);
  }
  ~LoosePages() {
    // Answers are ignored: no way is left to keep a page that the driver does not release.
    for (const uint64_t handle : handles_) driver_.release(device_, handle);
    released_ += handles_.size();
  }
  LoosePages(const LoosePages&) = delete;
  LoosePages& operator=(const LoosePages&) = delete;

  uint64_t count() const { return handles_.size(); }
  // For functions that add pages within the capacity.
  std::vector<uint64_t>* handles() { return &handles_; }
  // The last ones.
  std::span<const uint64_t> last(uint64_t count) const { return std::span(handles_).last(count); }
  // Once they belong to a range.
  void drop_last(uint64_t count) { handles_.resize(handles_.size() - count); }

  // Of the work that may still use some of them.
  const Stamps& stamps() const { return stamps_; }
  Stamps* mutable_stamps() { return &stamps_; }

 private:
  Driver& driver_;
  const int device_;
  uint64_t& released_;
  std::vector<uint64_t> handles_;
  Stamps stamps_;
};

}  // namespace cachalot
