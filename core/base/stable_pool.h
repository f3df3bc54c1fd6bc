// SPDX-License-Identifier: MIT OR Apache-2.0
// Objects that other threads may read without a lock, also when they are no longer in use.
//
// Note [Stable pool]
// Rationale: a reader without a lock may still look at an object that has just been given back, so its
// memory must stay mapped, and must look like such an object.
// Approach: slabs of 64 KiB with a bit for each free object. Nothing is written into a free object;
// the pages of an empty slab can go back to the system, and then read as zeros.
// Invariants: `partial_` has each slab with a free object once.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/assert.h"
#include "base/pages.h"

namespace cachalot {

// T: all zeros are an object of it. One thread at a time.
template <typename T>
class StablePool {
 public:
  StablePool() = default;
  ~StablePool() {
    for (Slab* slab : slabs_) unmap_pages(slab, kSlabBytes);
  }
  StablePool(const StablePool&) = delete;
  StablePool& operator=(const StablePool&) = delete;

  // Whether take() needs no memory.
  bool has_free() const { return !partial_.empty(); }
  // As it was given back, or zeros. Throws std::bad_alloc.
  T* take() {
    if (partial_.empty()) add_slab();
    Slab* const slab = partial_.back();
    CACHALOT_ASSERT(1, slab->header.used < kObjects);
    uint64_t* word = slab->header.free.data();
    while (*word == 0) word++;
    const auto bit = static_cast<size_t>(std::countr_zero(*word));
    *word &= *word - 1;
    if (++slab->header.used == kObjects) partial_.pop_back();
    slab->header.touched = true;
    return &slab->objects[static_cast<size_t>(word - slab->header.free.data()) * 64 + bit];
  }

  // pre: take() gave it, and it was not given back since.
  void give(T* object) {
    Slab* const slab = slab_of(object);
    CACHALOT_ASSERT(2, std::find(slabs_.begin(), slabs_.end(), slab) != slabs_.end());
    const auto index = static_cast<size_t>(object - slab->objects);
    CACHALOT_ASSERT(1, index >= kFirst && index < kFirst + kObjects);
    CACHALOT_ASSERT(1, !is_free(*slab, index));
    slab->header.free[index / 64] |= uint64_t{1} << (index % 64);
    if (slab->header.used-- < kObjects) return;
    partial_.push_back(slab);  // its capacity is reserved
    CACHALOT_ASSERT(2, is_sound());
  }

  // Gives the system the pages of empty slabs, but of one.
  void shrink() {
    bool keeps_one = true;
    for (Slab* slab : slabs_) {
      if (slab->header.used != 0 || !slab->header.touched) continue;
      if (std::exchange(keeps_one, false)) continue;
      drop_pages(reinterpret_cast<char*>(slab) + kPage, kSlabBytes - kPage);
      slab->header.touched = false;
    }
  }

  uint64_t bytes() const { return slabs_.size() * kSlabBytes; }

 private:
  static constexpr size_t kSlabBytes = 65536;
  static constexpr size_t kPage = 4096;
  static constexpr size_t kWords = (kSlabBytes / sizeof(T) + 63) / 64;

  struct Header {
    std::array<uint64_t, kWords> free;
    uint32_t used;
    bool touched;  // since its pages were given to the system
  };
  union Slab {
    Header header;  // where the first objects would be
    T objects[kSlabBytes / sizeof(T)];
  };
  static constexpr size_t kFirst = (sizeof(Header) + sizeof(T) - 1) / sizeof(T);
  static constexpr uint32_t kObjects = kSlabBytes / sizeof(T) - kFirst;
  static_assert(sizeof(Slab) <= kSlabBytes && kFirst * sizeof(T) <= kPage);

  static Slab* slab_of(const T* object) {
    return reinterpret_cast<Slab*>(reinterpret_cast<uintptr_t>(object) & ~(kSlabBytes - 1));
  }
  static bool is_free(const Slab& slab, size_t index) {
    return (slab.header.free[index / 64] >> (index % 64) & 1) != 0;
  }
  // The invariants.
  bool is_sound() const {
    const auto has_free_object = [](const Slab* slab) { return slab->header.used < kObjects; };
    const auto all = std::count_if(slabs_.begin(), slabs_.end(), has_free_object);
    return std::all_of(partial_.begin(), partial_.end(), has_free_object) &&
           static_cast<size_t>(all) == partial_.size() && partial_.capacity() >= slabs_.size();
  }

  void add_slab() {
    if (slabs_.size() == slabs_.capacity()) {
      partial_.reserve(2 * slabs_.size() + 1);
      slabs_.reserve(2 * slabs_.size() + 1);
    }
    auto* const slab = static_cast<Slab*>(map_aligned_zero_pages(kSlabBytes));
    for (size_t i = kFirst; i < kFirst + kObjects; i++)
      slab->header.free[i / 64] |= uint64_t{1} << (i % 64);
    slabs_.push_back(slab);
    partial_.push_back(slab);
  }

  std::vector<Slab*> slabs_;
  std::vector<Slab*> partial_;
};

}  // namespace cachalot
