// SPDX-License-Identifier: MIT OR Apache-2.0
#include "alloc/free_blocks.h"

#include <cstdlib>
#include <new>
#include <tuple>
#include <utility>

#include "base/units.h"

namespace cachalot {
namespace {

// The treap's priority: a scrambled address, so that no order of inserts makes a chain.
uint32_t priority(const Block* block) {
  return static_cast<uint32_t>(reinterpret_cast<uintptr_t>(block) / sizeof(Block)) * 2654435761u;
}

// Splits a tree into what comes before the block and what comes after.
std::pair<Block*, Block*> split(const FreeBlocks& order, Block* root, const Block* block) {
  if (!root) return {nullptr, nullptr};
  if (order.before(root, block)) {
    auto [before, after] = split(order, root->child[1], block);
    root->child[1] = before;
    return {root, after};
  }
  auto [before, after] = split(order, root->child[0], block);
  root->child[0] = after;
  return {before, root};
}

Block* merge(Block* left, Block* right) {
  if (!left) return right;
  if (!right) return left;
  if (priority(left) > priority(right)) {
    left->child[1] = merge(left->child[1], right);
    return left;
  }
  right->child[0] = merge(left, right->child[0]);
  return right;
}

bool is_tree_in_order(const FreeBlocks& order, const Block* root, const Block** last,
                      uint64_t* count) {
  if (!root) return true;
  if (!is_tree_in_order(order, root->child[0], last, count)) return false;
  if (*last && !order.before(*last, root)) return false;
  *last = root;
  ++*count;
  return is_tree_in_order(order, root->child[1], last, count);
}

}  // namespace

FreeBlocks::FreeBlocks(bool ties_by_segment_number)
    : ties_by_segment_number_(ties_by_segment_number),
      bins_(static_cast<Bin*>(std::calloc(kBins, sizeof(Bin)))) {
  if (!bins_) throw std::bad_alloc();
}

FreeBlocks::~FreeBlocks() { std::free(bins_); }

Block* FreeBlocks::last_of(const Bin& bin) const {
  Block* block = bin.root ? bin.root : bin.first;
  while (bin.root ? block->child[1] : block->right)
    block = bin.root ? block->child[1] : block->right;
  return block;
}

Block* FreeBlocks::last_before_bin(unsigned bin) const {
  for (unsigned word = (bin + 63) / 64; word-- > 0;) {
    uint64_t bits = words_[word];
    if (word == bin / 64 && bin % 64 != 0) bits &= (uint64_t{1} << (bin % 64)) - 1;
    if (bits) return last_of(bins_[word * 64 + log2_floor(bits)]);
  }
  return nullptr;
}

void FreeBlocks::grow_tree(Bin& bin) {
  for (Block* b = bin.first; b; b = b->right) {
    b->child[0] = b->child[1] = nullptr;
    bin.root = merge(bin.root, b);  // the list is in order, so each goes behind those before
  }
}

Block* FreeBlocks::tree_predecessor(const Bin& bin, const Block* block) const {
  Block* found = nullptr;
  for (Block* b = bin.root; b;) {
    const bool earlier = before(b, block);
    if (earlier) found = b;
    b = b->child[earlier ? 1 : 0];
  }
  return found;
}

void FreeBlocks::insert_into_tree(Bin& bin, Block* block) {
  link(bin, block, tree_predecessor(bin, block));
  block->child[0] = block->child[1] = nullptr;
  Block** place = &bin.root;
  while (*place && priority(*place) > priority(block)) {
    place = &(*place)->child[before(*place, block) ? 1 : 0];
  }
  std::tie(block->child[0], block->child[1]) = split(*this, *place, block);
  *place = block;
}

void FreeBlocks::remove_from_tree(Bin& bin, Block* block) {
  Block** place = &bin.root;
  while (*place != block) place = &(*place)->child[before(*place, block) ? 1 : 0];
  *place = merge(block->child[0], block->child[1]);
}

bool FreeBlocks::is_consistent(uint64_t* count, uint64_t* bytes) const {
  for (unsigned number = 0; number < kBins; number++) {
    const Bin& bin = bins_[number];
    const bool bit = (words_[number / 64] >> (number % 64) & 1) != 0;
    if (bit != (bin.first != nullptr)) return false;
    const Block* left = nullptr;
    uint64_t listed = 0;
    for (const Block* b = bin.first; b; left = b, b = b->right, listed++) {
      if (b->left != left || bin_of(b->size) != number || !b->is_free()) return false;
      if (left && !before(left, b)) return false;
      *bytes += b->size;
    }
    *count += listed;
    const Block* last = nullptr;
    uint64_t in_tree = 0;
    if (!is_tree_in_order(*this, bin.root, &last, &in_tree)) return false;
    if (bin.root && in_tree != listed) return false;
  }
  for (unsigned word = 0; word < kWords; word++) {
    if (((summary_ >> word & 1) != 0) != (words_[word] != 0)) return false;
  }
  return true;
}

}  // namespace cachalot
