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
//   A list is a ring that its bin closes: as a node that is larger than any block. So neither a search
// nor an insertion has to look for the end, and a removal needs no bin. An insertion finds a bin that is
// not a list, or was never used, by a null in `left`; so new bins are zeros, whose pages are not touched.
//   A set that never held many blocks has one bin for all sizes, so that a stream with few blocks takes
// few bytes. The first walk of more than a few steps makes the other bins. Without memory for them, or
// for a tree, the lists stay.
//   A key has the order of a bin in 64 bits: from the top down what the size is above the smallest of
// the bin, then the tie-break, without the low bits in which blocks of one size cannot differ, because
// each is larger. Segment numbers and places in segments have 32 bits each; beyond that (2^32 segments
// were obtained, or one is larger than 2 TiB) a bin stays a list.
// Invariants: a block is in the bin of its size; `right` of a bin with blocks is the first one, of list
// or tree; a bit is set exactly for a bin with blocks; `left` is null in bins and blocks of trees, where
// `right` of a block says nothing.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <optional>
#include <utility>

#include "alloc/config/constants.h"
#include "alloc/heap/block.h"
#include "alloc/heap/block_tree.h"
#include "base/assert.h"

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
  bool empty() const { return first() == nullptr; }
  // Whether a comes before b.
  bool before(const Block* a, const Block* b) const;
  // The auditor: whether bins, bits, lists and trees agree; adds up what it sees.
  bool is_consistent(uint64_t* count, uint64_t* bytes) const;

  static unsigned bin_of(uint64_t size);

 private:
  static constexpr unsigned kStepBits = 6;  // 64 bins a doubling
  static constexpr uint64_t kBias = uint64_t{512} << kStepBits;
  static constexpr unsigned kMantissaBits = 52;  // of a double
  static constexpr unsigned kBinOfBias = (1023u + 9 + kStepBits) << kStepBits;
  static constexpr unsigned kEnd = 64;  // sizes are below 2^63, and may be rounded up to it
  static constexpr unsigned kBins = (kEnd - 9 - kStepBits) << kStepBits;
  static constexpr unsigned kWords = kBins / 64;
  static constexpr int kLongWalk = 48;  // shorter walks beat a tree, even in cold memory
  static constexpr int kShortWalk = 8;  // with one bin; a longer one makes the others

  // The end of its own list: before the first block and behind the last, and larger than any.
  struct Bin : FreeNode {
    BlockTree tree;

    bool is_list() const { return left != nullptr; }
    void become_empty_list() {
      size = ~uint64_t{0};
      left = right = this;
    }
    // pre: it has blocks.
    Block* first() const { return static_cast<Block*>(right); }
  };
  struct ManyBins;

  static unsigned shift_of(uint64_t size) { return bin_of(size) >> kStepBits; }
  bool has_one_bin() const { return mask_ == 0; }
  unsigned place_of(uint64_t size) const { return bin_of(size) & mask_; }
  void walked(Bin& bin, int steps);
  void make_bins();

  void set_bit(unsigned bin);
  void clear_bit(unsigned bin);
  unsigned next_in_use(unsigned bin) const;
  Block* first_from_bin(unsigned bin) const;
  Block* last_before_bin(unsigned bin) const;
  Block* search_from_bin(unsigned bin, uint64_t size);
  static Block* first_in_tree(const Bin& bin, uint64_t size);
  static Block* last_of(const Bin& bin);
  // Null for the end of the bin's list.
  static Block* block_or_null(const Bin& bin, FreeNode* node) {
    return node == &bin ? nullptr : static_cast<Block*>(node);
  }
  Block* next_in_bin(const Bin& bin, const Block* block) const;
  Block* previous_in_bin(const Bin& bin, const Block* block) const;
  bool is_bin_consistent(unsigned number, uint64_t* count, uint64_t* bytes) const;

  bool is_before(const FreeNode* node, const Block* block) const;
  // Returns how many blocks it went past.
  int insert_into_list(Bin& bin, Block* block);
  void insert_into_other(Block* block);
  void insert_into_tree(Bin& bin, Block* block);
  void remove_from_tree(Block* block);
  void make_tree(Bin& bin);
  void make_list(Bin& bin);
  std::optional<uint64_t> key_of(const Block* block) const;
  BlockTree::Nodes& nodes();

  Bin* bins_ = &only_bin_;
  unsigned mask_ = 0;  // of a bin's number; 0: there is one bin
  bool ties_by_segment_number_;
  Bin only_bin_{};
  std::array<uint64_t, kWords + 1> words_{};  // the last one stays 0
};

// Larger sizes never have a smaller bin; at most 1/64 of the size is lost within one. With 64 granules
// added a size is a floating-point number whose exponent and first bits count the bins.
inline unsigned FreeBlocks::bin_of(uint64_t size) {
  const auto biased = static_cast<double>(static_cast<int64_t>(size + kBias));
  return static_cast<unsigned>(std::bit_cast<uint64_t>(biased) >> (kMantissaBits - kStepBits)) -
         kBinOfBias;
}

[[gnu::always_inline]] inline void FreeBlocks::set_bit(unsigned bin) {
  words_[bin / 64] |= uint64_t{1} << (bin % 64);
}
[[gnu::always_inline]] inline void FreeBlocks::clear_bit(unsigned bin) {
  words_[bin / 64] &= ~(uint64_t{1} << (bin % 64));
}

// The number of a bin with blocks, the first of these from `bin` on; kBins: there is none. A loop over the
// words costs less than a summary of them: the next word mostly has blocks, and each removal that empties
// a word would have to keep the summary up. Which of the first two words it is no processor can predict, so
// that is no branch of the loop. pre: bin < kBins.
[[gnu::always_inline]] inline unsigned FreeBlocks::next_in_use(unsigned bin) const {
  CACHALOT_ASSERT(1, bin < kBins);
  unsigned word = bin / 64;
  const uint64_t here = words_[word] & (~uint64_t{0} << (bin % 64));
  uint64_t bits = here ? here : words_[word + 1];
  word += here == 0;
  while (!bits) {
    if (++word >= kWords) return kBins;
    bits = words_[word];
  }
  return word * 64 + static_cast<unsigned>(__builtin_ctzll(bits));
}

inline Block* FreeBlocks::first_from_bin(unsigned bin) const {
  const unsigned found = bin == kBins ? kBins : next_in_use(bin);
  return found == kBins ? nullptr : bins_[found].first();
}

inline bool FreeBlocks::before(const Block* a, const Block* b) const { return is_before(a, b); }

// A node as large as a block is a block.
[[gnu::always_inline]] inline bool FreeBlocks::is_before(const FreeNode* node,
                                                         const Block* block) const {
  if (node->size > block->size) [[likely]]
    return false;
  if (node->size < block->size) return true;
  const auto* const other = static_cast<const Block*>(node);
  if (ties_by_segment_number_ && other->segment()->number != block->segment()->number) {
    return other->segment()->number < block->segment()->number;
  }
  return other->address < block->address;
}

[[gnu::always_inline]] inline int FreeBlocks::insert_into_list(Bin& bin, Block* block) {
  FreeNode* right = bin.right;
  int steps = 0;
  for (; is_before(right, block); right = right->right) steps++;
  FreeNode* const left = right->left;
  block->left = left;
  block->right = right;
  left->right = block;
  right->left = block;
  return steps;
}

[[gnu::always_inline]] inline void FreeBlocks::insert(Block* block) {
  const unsigned number = place_of(block->size);
  Bin& bin = bins_[number];
  if (!bin.is_list()) [[unlikely]]
    return insert_into_other(block);
  const int steps = insert_into_list(bin, block);
  set_bit(number);
  if (steps >= kShortWalk) [[unlikely]]
    walked(bin, steps);
}

[[gnu::always_inline]] inline void FreeBlocks::remove(Block* block) {
  FreeNode* const left = block->left;
  if (!left) [[unlikely]]
    return remove_from_tree(block);
  FreeNode* const right = block->right;
  left->right = right;
  right->left = left;
  // Both are the end then, which is the bin.
  if (left == right) clear_bit(static_cast<unsigned>(static_cast<Bin*>(left) - bins_));
}

[[gnu::always_inline]] inline Block* FreeBlocks::first_at_least(uint64_t size) {
  CACHALOT_ASSERT(1, size > 0 && size % kMinBlockSize == 0);
  const unsigned number = place_of(size);
  const unsigned found = next_in_use(number);
  if (found == kBins) [[unlikely]]
    return nullptr;
  Block* const block = bins_[found].first();
  if (block->size < size) [[unlikely]]
    return search_from_bin(number, size);
  return block;
}

}  // namespace cachalot
