// SPDX-License-Identifier: MIT OR Apache-2.0
#include "alloc/heap/free_blocks.h"

#include <new>
#include <utility>

#include "alloc/heap/block_arena.h"
#include "base/pages.h"
#include "base/units.h"

namespace cachalot {

struct FreeBlocks::ManyBins {
  Bin bins[kBins];
  BlockTree::Nodes nodes;
};

namespace {

constexpr unsigned kNumberBits = 32;  // of a segment, in a key; as many for a place in it

// The key of a block that comes before all others of this size and those that are larger, or with a
// tie-break that of a block. What is above the smallest size of the bin is in the low bits of the biased
// size.
uint64_t make_key(uint64_t biased_size, unsigned shift, uint64_t tie) {
  return biased_size / 512 << (63 - shift) << 1 | tie >> shift;
}

}  // namespace

FreeBlocks::FreeBlocks(bool ties_by_segment_number)
    : ties_by_segment_number_(ties_by_segment_number) {
  only_bin_.become_empty_list();
}

FreeBlocks::~FreeBlocks() {
  if (has_one_bin()) return;
  nodes().unmap();
  unmap_pages(bins_, sizeof(ManyBins));
}

// ---- Walks

// The first block of the bin is too small.
[[gnu::noinline]] Block* FreeBlocks::search_from_bin(unsigned number, uint64_t size) {
  Bin& bin = bins_[number];
  Block* block = nullptr;
  int steps = 0;
  if (bin.is_list()) {
    FreeNode* node = bin.right;
    for (; node->size < size; node = node->right) steps++;
    block = block_or_null(bin, node);
  } else {
    block = first_in_tree(bin, size);
  }
  if (steps >= kShortWalk) {
    walked(bin, steps);  // may make the other bins, so the bin's number is another one then
    number = place_of(size);
  }
  return block ? block : first_from_bin(number + 1);
}

Block* FreeBlocks::next(const Block* block) const {
  const unsigned number = place_of(block->size);
  Block* const next = next_in_bin(bins_[number], block);
  return next ? next : first_from_bin(number + 1);
}

Block* FreeBlocks::previous(const Block* block) const {
  const unsigned number = place_of(block->size);
  Block* const previous = previous_in_bin(bins_[number], block);
  return previous ? previous : last_before_bin(number);
}

Block* FreeBlocks::next_in_bin(const Bin& bin, const Block* block) const {
  if (bin.is_list()) return block_or_null(bin, block->right);
  return BlockArena::block_beside(block, bin.tree.first_at_least(*key_of(block) + 1));
}

Block* FreeBlocks::previous_in_bin(const Bin& bin, const Block* block) const {
  if (bin.is_list()) return block_or_null(bin, block->left);
  return BlockArena::block_beside(block, bin.tree.last_before(*key_of(block)));
}

Block* FreeBlocks::last_of(const Bin& bin) {
  if (bin.is_list()) return static_cast<Block*>(bin.left);
  return BlockArena::block_beside(bin.first(), bin.tree.last());
}

Block* FreeBlocks::last_before_bin(unsigned bin) const {
  unsigned word = bin / 64;
  uint64_t bits = bin % 64 == 0 ? 0 : words_[word] & ((uint64_t{1} << (bin % 64)) - 1);
  while (!bits) {
    if (word-- == 0) return nullptr;
    bits = words_[word];
  }
  return last_of(bins_[word * 64 + log2_floor(bits)]);
}

// ---- Many bins

// A call went past so many blocks of a bin. Costly once, so that later walks are short.
[[gnu::noinline]] void FreeBlocks::walked(Bin& bin, int steps) {
  if (has_one_bin()) {
    make_bins();
  } else if (steps >= kLongWalk) {
    make_tree(bin);
  }
}

void FreeBlocks::make_bins() {
  // Without memory one bin goes on to serve: the order is the same, only walks are longer.
  try {
    bins_ = static_cast<Bin*>(map_zero_pages(sizeof(ManyBins)));
  } catch (const std::bad_alloc&) {
    return;
  }
  mask_ = ~0u;
  words_[0] = 0;
  for (FreeNode* node = only_bin_.right; node != &only_bin_;)
    insert(static_cast<Block*>(std::exchange(node, node->right)));
}

BlockTree::Nodes& FreeBlocks::nodes() { return reinterpret_cast<ManyBins*>(bins_)->nodes; }

// ---- Trees. pre: there are many bins.

// Nothing: the segment's number or the place in it has too many bits (Note [Bins]).
std::optional<uint64_t> FreeBlocks::key_of(const Block* block) const {
  const unsigned shift = shift_of(block->size);
  if (!ties_by_segment_number_) return make_key(block->size + kBias, shift, block->address / 512);
  const Segment& segment = *block->segment();
  const auto number = static_cast<uint64_t>(segment.number);
  if ((number | segment.size / 512) >> kNumberBits) [[unlikely]]
    return std::nullopt;
  const uint64_t place = (block->address - segment.address) / 512;
  return make_key(block->size + kBias, shift, number << kNumberBits | place);
}

Block* FreeBlocks::first_in_tree(const Bin& bin, uint64_t size) {
  const uint64_t key = make_key(size + kBias, shift_of(size), 0);
  return BlockArena::block_beside(bin.first(), bin.tree.first_at_least(key));
}

// The bin is a tree, or is used for the first time.
[[gnu::noinline]] void FreeBlocks::insert_into_other(Block* block) {
  Bin& bin = bins_[place_of(block->size)];
  if (!bin.tree.empty()) return insert_into_tree(bin, block);
  bin.become_empty_list();
  insert(block);
}

void FreeBlocks::insert_into_tree(Bin& bin, Block* block) {
  using Insertion = BlockTree::Insertion;
  const auto key = key_of(block);
  const Insertion done = key ? bin.tree.insert(*key, block, nodes()) : Insertion::kNoMemory;
  block->left = nullptr;
  if (done == Insertion::kFirst) bin.right = block;
  if (done != Insertion::kNoMemory) return;
  // A list needs no memory and no key, so a free never fails here.
  make_list(bin);
  insert_into_list(bin, block);
}

void FreeBlocks::remove_from_tree(Block* block) {
  const unsigned number = place_of(block->size);
  Bin& bin = bins_[number];
  bin.tree.remove(*key_of(block), nodes());
  if (bin.tree.empty()) {
    bin.become_empty_list();
    clear_bit(number);
  } else if (bin.right == block) {
    bin.right = BlockArena::block_beside(block, bin.tree.first());
  }
}

// The list stays where memory or a key is missing, so the list's links are left as they are till then.
void FreeBlocks::make_tree(Bin& bin) {
  for (FreeNode* node = bin.right; node != &bin; node = node->right) {
    auto* const block = static_cast<Block*>(node);
    const auto key = key_of(block);
    if (key && bin.tree.insert(*key, block, nodes()) != BlockTree::Insertion::kNoMemory) continue;
    bin.tree.clear(nodes());
    return;
  }
  for (FreeNode* node = bin.right; node != &bin; node = node->right) node->left = nullptr;
  bin.left = nullptr;
}

void FreeBlocks::make_list(Bin& bin) {
  FreeNode* left = &bin;
  for (Block *block = bin.first(), *next = nullptr; block; left = block, block = next) {
    next = next_in_bin(bin, block);
    block->left = left;
    left->right = block;
  }
  left->right = &bin;
  bin.left = left;
  bin.tree.clear(nodes());
}

// ---- The auditor

bool FreeBlocks::is_consistent(uint64_t* count, uint64_t* bytes) const {
  const unsigned bins = has_one_bin() ? 1 : kBins;
  for (unsigned number = 0; number < bins; number++) {
    const bool bit = (words_[number / 64] >> (number % 64) & 1) != 0;
    const Bin& bin = bins_[number];
    const bool is_empty = bin.is_list() ? bin.right == &bin : bin.tree.empty();
    if (bit == is_empty) return false;
    if (bit && !is_bin_consistent(number, count, bytes)) return false;
  }
  return true;
}

bool FreeBlocks::is_bin_consistent(unsigned number, uint64_t* count, uint64_t* bytes) const {
  const Bin& bin = bins_[number];
  if (!bin.is_list() && !bin.tree.is_sound()) return false;
  if (!bin.is_list() && BlockArena::number_of(bin.first()) != bin.tree.first()) return false;
  const FreeNode* left = &bin;
  for (const Block* b = bin.first(); b; left = b, b = next_in_bin(bin, b)) {
    if (bin.is_list() ? b->left != left || !b->right : b->left != nullptr) return false;
    if (!bin.is_list() && bin.tree.first_at_least(*key_of(b)) != BlockArena::number_of(b))
      return false;
    if (place_of(b->size) != number || !b->is_free()) return false;
    if (left != &bin && !is_before(left, b)) return false;
    *bytes += b->size;
    ++*count;
  }
  return !bin.is_list() || bin.left == left;
}

}  // namespace cachalot
