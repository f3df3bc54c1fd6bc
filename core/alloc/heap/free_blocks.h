// SPDX-License-Identifier: MIT OR Apache-2.0
// The free blocks of one pool and stream in their order: size, then tie-break.
//
// The reference decides the order [core 6.1]: the first block that is large enough serves a request, and
// every walk (garbage collection, release) follows it. Of equal sizes the lower address comes first
// (2.11), or the segment obtained first and then the lower address (R2).
//
// Note [Bins]
// Approach: 64 bins for each doubling of the size, a bit for each bin that holds something, in each
// bin a sorted list through the blocks. A bin's number grows with size, so the first block of the
// next non-empty bin is the best fit. A list that was walked far becomes a tree of keys
// (block_tree.h) until the bin is empty.
//   A set that never held many blocks has one bin for all sizes, so that a stream with few blocks takes
// few bytes. The first walk of more than a few steps makes the other bins. Without memory for them, or
// for a tree, the lists stay.
//   A key has the order of a bin in 64 bits: from the top down what the size is above the smallest of
// the bin, then the tie-break, without the low bits in which blocks of one size cannot differ, because
// each is larger. Segment numbers and places in segments have 32 bits each; beyond that (2^32 segments
// were obtained, or one is larger than 2 TiB) a bin stays a list.
// Invariants: a block is in the bin of its size; `first` is the first block of list or tree; a bit
// is set exactly for a bin with blocks; `left` and `right` lead through lists only.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <utility>

#include "alloc/heap/block.h"
#include "alloc/heap/block_tree.h"

namespace cachalot {

class FreeBlocks {
 public:
  explicit FreeBlocks(bool ties_by_segment_number);
  ~FreeBlocks();
  FreeBlocks(const FreeBlocks&) = delete;
  FreeBlocks& operator=(const FreeBlocks&) = delete;

  void insert(Block* block);
  void remove(Block* block);

  // The first block of at least this size; null: none. size > 0, a multiple of 512.
  Block* first_at_least(uint64_t size);
  Block* first() const { return first_from_bin(0); }
  Block* last() const { return last_before_bin(kBins); }
  Block* next(const Block* block) const;
  Block* previous(const Block* block) const;
  bool empty() const { return summary_ == 0; }
  // Whether a comes before b.
  bool before(const Block* a, const Block* b) const;
  // The auditor: whether bins, bits, lists and trees agree; adds up what it sees.
  bool is_consistent(uint64_t* count, uint64_t* bytes) const;

  static unsigned bin_of(uint64_t size);

 private:
  static constexpr unsigned kStepBits = 6;  // 64 bins a doubling
  static constexpr unsigned kBins = (54 - kStepBits + 2) << kStepBits;
  static constexpr unsigned kWords = kBins / 64;
  static constexpr int kLongWalk = 48;  // shorter walks beat a tree, even in cold memory
  static constexpr int kShortWalk = 8;  // with one bin; a longer one makes the others
  static_assert(kWords < 64, "one summary word");

  struct Bin {
    Block* first;
    BlockTree tree;  // empty: a list
  };
  struct ManyBins;

  static unsigned shift_of(uint64_t size);
  bool has_one_bin() const { return mask_ == 0; }
  unsigned place_of(uint64_t size) const { return bin_of(size) & mask_; }
  void walked(Bin& bin, int steps);
  void make_bins();

  Block* first_from_bin(unsigned bin) const;
  Block* last_before_bin(unsigned bin) const;
  static Block* first_in_tree(const Bin& bin, uint64_t size);
  static Block* last_of(const Bin& bin);
  Block* next_in_bin(const Bin& bin, const Block* block) const;
  Block* previous_in_bin(const Bin& bin, const Block* block) const;
  bool is_bin_consistent(unsigned number, uint64_t* count, uint64_t* bytes) const;

  // Returns how many blocks it went past.
  int insert_into_list(Bin& bin, Block* block);
  void insert_into_tree(Bin& bin, Block* block);
  void remove_from_tree(Bin& bin, Block* block);
  void make_tree(Bin& bin);
  void make_list(Bin& bin);
  std::optional<uint64_t> key_of(const Block* block) const;
  BlockTree::Nodes& nodes();

  Bin* bins_ = &only_bin_;
  unsigned mask_ = 0;  // of a bin's number; 0: there is one bin
  bool ties_by_segment_number_;
  Bin only_bin_{};
  uint64_t summary_ = 0;
  std::array<uint64_t, kWords> words_{};
};

// By how many bits sizes differ, in granules of 512 bytes, that are of one bin.
inline unsigned FreeBlocks::shift_of(uint64_t size) {
  const uint64_t granules = size / 512;
  const unsigned octave =
      63u - static_cast<unsigned>(__builtin_clzll(granules | (1u << kStepBits)));
  return octave - kStepBits;
}

// Larger sizes never have a smaller bin; at most 1/64 of the size is lost within one.
inline unsigned FreeBlocks::bin_of(uint64_t size) {
  const unsigned shift = shift_of(size);
  return (shift << kStepBits) + static_cast<unsigned>(size / 512 >> shift);
}

[[gnu::always_inline]] inline Block* FreeBlocks::first_from_bin(unsigned bin) const {
  const unsigned word = bin / 64;
  if (word >= kWords) return nullptr;
  const uint64_t bits = words_[word] >> (bin % 64);
  if (bits) return bins_[bin + static_cast<unsigned>(__builtin_ctzll(bits))].first;
  const uint64_t later = summary_ >> (word + 1) << (word + 1);
  if (!later) return nullptr;
  const auto found = static_cast<unsigned>(__builtin_ctzll(later));
  return bins_[found * 64 + static_cast<unsigned>(__builtin_ctzll(words_[found]))].first;
}

inline bool FreeBlocks::before(const Block* a, const Block* b) const {
  if (a->size != b->size) return a->size < b->size;
  if (ties_by_segment_number_ && a->segment()->number != b->segment()->number) {
    return a->segment()->number < b->segment()->number;
  }
  return a->address < b->address;
}

[[gnu::always_inline]] inline int FreeBlocks::insert_into_list(Bin& bin, Block* block) {
  Block* left = nullptr;
  Block** place = &bin.first;
  int steps = 0;
  while (*place && before(*place, block)) {
    left = *place;
    place = &left->right;
    steps++;
  }
  Block* const right = std::exchange(*place, block);
  block->left = left;
  block->right = right;
  if (right) right->left = block;
  return steps;
}

[[gnu::always_inline]] inline void FreeBlocks::insert(Block* block) {
  const unsigned number = place_of(block->size);
  Bin& bin = bins_[number];
  if (!bin.tree.empty()) [[unlikely]]
    return insert_into_tree(bin, block);
  const int steps = insert_into_list(bin, block);
  words_[number / 64] |= uint64_t{1} << (number % 64);
  summary_ |= uint64_t{1} << (number / 64);
  if (steps >= kShortWalk) [[unlikely]]
    walked(bin, steps);
}

[[gnu::always_inline]] inline void FreeBlocks::remove(Block* block) {
  const unsigned number = place_of(block->size);
  Bin& bin = bins_[number];
  if (!bin.tree.empty()) [[unlikely]] {
    remove_from_tree(bin, block);
  } else {
    if (block->right) block->right->left = block->left;
    if (block->left) {
      block->left->right = block->right;
      return;
    }
    bin.first = block->right;
  }
  if (bin.first) return;
  const unsigned word = number / 64;
  words_[word] &= ~(uint64_t{1} << (number % 64));
  if (words_[word] == 0) summary_ &= ~(uint64_t{1} << word);
}

[[gnu::always_inline]] inline Block* FreeBlocks::first_at_least(uint64_t size) {
  const unsigned number = place_of(size);
  Bin& bin = bins_[number];
  Block* block = bin.first;
  if (block && block->size < size) [[unlikely]] {
    if (!bin.tree.empty()) {
      block = first_in_tree(bin, size);
    } else {
      int steps = 0;
      for (; block && block->size < size; block = block->right) steps++;
      if (steps >= kShortWalk) [[unlikely]] {
        walked(bin, steps);  // may make the other bins, so the bin's number is another one then
        return block ? block : first_from_bin(place_of(size) + 1);
      }
    }
  }
  return block ? block : first_from_bin(number + 1);
}

}  // namespace cachalot
