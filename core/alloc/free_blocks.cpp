// SPDX-License-Identifier: MIT OR Apache-2.0
#include "alloc/free_blocks.h"

#include <new>
#include <utility>

#include "base/pages.h"
#include "base/units.h"

namespace cachalot {
namespace {

// The treap's priority: a scrambled address, so that no order of inserts makes a chain.
uint32_t priority(const Block* block) {
  return static_cast<uint32_t>(reinterpret_cast<uintptr_t>(block) / sizeof(Block)) * 2654435761u;
}

// One tree of two, all of `left` before all of `right`.
Block* join(Block* left, Block* right, Block* parent) {
  Block* root = nullptr;
  Block** place = &root;
  while (left && right) {
    const bool is_left = priority(left) > priority(right);
    Block*& top = is_left ? left : right;
    *place = top;
    top->detail().parent = parent;
    parent = top;
    place = is_left ? &top->right : &top->left;
    top = *place;
  }
  *place = left ? left : right;
  if (*place) (*place)->detail().parent = parent;
  return root;
}

// Of a tree; rightmost goes to the end of a list too.
Block* leftmost(Block* block) {
  while (block->left) block = block->left;
  return block;
}
Block* rightmost(Block* block) {
  while (block->right) block = block->right;
  return block;
}

// null: the block is the last of its tree.
Block* successor(const Block* block) {
  if (block->right) return leftmost(block->right);
  Block* parent = block->detail().parent;
  for (; parent && parent->right == block; parent = parent->detail().parent) block = parent;
  return parent;
}

// null: the block is the first of its tree.
Block* predecessor(const Block* block) {
  if (block->left) return rightmost(block->left);
  Block* parent = block->detail().parent;
  for (; parent && parent->left == block; parent = parent->detail().parent) block = parent;
  return parent;
}

bool is_tree_sound(const Block* root) {
  if (!root) return true;
  for (const Block* child : {root->left, root->right}) {
    if (child && (child->detail().parent != root || priority(child) > priority(root))) return false;
  }
  return is_tree_sound(root->left) && is_tree_sound(root->right);
}

}  // namespace

FreeBlocks::FreeBlocks(bool ties_by_segment_number)
    : ties_by_segment_number_(ties_by_segment_number) {}

FreeBlocks::~FreeBlocks() {
  if (!has_one_bin()) unmap_pages(bins_, kBins * sizeof(Bin));
}

Block* FreeBlocks::next(const Block* block) const {
  const unsigned bin = place_of(block->size);
  Block* const next = bins_[bin].root ? successor(block) : block->right;
  return next ? next : first_from_bin(bin + 1);
}

Block* FreeBlocks::previous(const Block* block) const {
  const unsigned bin = place_of(block->size);
  Block* const previous = bins_[bin].root ? predecessor(block) : block->left;
  return previous ? previous : last_before_bin(bin);
}

// So many steps were taken through a bin.
[[gnu::noinline]] void FreeBlocks::walked(Bin& bin, int steps) {
  const bool had_one_bin = has_one_bin();
  if (had_one_bin) make_bins();
  if (steps >= kLongWalk && has_one_bin() == had_one_bin) grow_tree(bin);
}

void FreeBlocks::make_bins() {
  Block* block = only_bin_.first;
  if (only_bin_.root) return;
  try {
    bins_ = static_cast<Bin*>(map_zero_pages(kBins * sizeof(Bin)));
  } catch (const std::bad_alloc&) {
    return;
  }
  mask_ = ~0u;
  summary_ = words_[0] = 0;
  while (block) insert(std::exchange(block, block->right));
}

Block* FreeBlocks::last_of(const Bin& bin) { return rightmost(bin.root ? bin.root : bin.first); }

Block* FreeBlocks::last_before_bin(unsigned bin) const {
  const unsigned word = bin / 64;
  if (const uint64_t bits = bin % 64 == 0 ? 0 : words_[word] & ((uint64_t{1} << (bin % 64)) - 1))
    return last_of(bins_[word * 64 + log2_floor(bits)]);
  const uint64_t earlier = summary_ & ((uint64_t{1} << word) - 1);
  if (earlier == 0) return nullptr;
  const unsigned last = log2_floor(earlier);
  return last_of(bins_[last * 64 + log2_floor(words_[last])]);
}

Block* FreeBlocks::first_in_tree(const Bin& bin, uint64_t size) {
  Block* found = nullptr;
  for (Block* b = bin.root; b;) {
    const bool fits = b->size >= size;
    if (fits) found = b;
    b = fits ? b->left : b->right;
  }
  return found;
}

void FreeBlocks::grow_tree(Bin& bin) {
  for (Block *b = bin.first, *next = nullptr; b; b = next) {
    next = b->right;
    b->left = b->right = nullptr;
    bin.root =
        join(bin.root, b, nullptr);  // the list is in order, so each goes behind those before
  }
}

// One way down: to where its priority puts the block, and on along the cut between what comes
// before it and what comes after.
void FreeBlocks::insert_into_tree(Bin& bin, Block* block) {
  const uint32_t own = priority(block);
  bool is_first = true;
  Block* parent = nullptr;
  Block** place = &bin.root;
  while (*place && priority(*place) > own) {
    parent = *place;
    const bool is_after = before(parent, block);
    if (is_after) is_first = false;
    place = is_after ? &parent->right : &parent->left;
  }
  Block* rest = std::exchange(*place, block);
  block->detail().parent = parent;
  Block** open[2] = {&block->left, &block->right};  // where the next of each side goes
  Block* above[2] = {block, block};
  while (rest) {
    const bool is_after = before(rest, block);
    if (is_after) is_first = false;
    const int side = is_after ? 0 : 1;
    *open[side] = rest;
    rest->detail().parent = std::exchange(above[side], rest);
    open[side] = is_after ? &rest->right : &rest->left;
    rest = *open[side];
  }
  *open[0] = *open[1] = nullptr;
  if (is_first) bin.first = block;
}

void FreeBlocks::remove_from_tree(Bin& bin, Block* block) {
  if (bin.first == block) bin.first = successor(block);
  Block* const parent = block->detail().parent;
  Block*& place = !parent ? bin.root : parent->right == block ? parent->right : parent->left;
  place = join(block->left, block->right, parent);
}

bool FreeBlocks::is_consistent(uint64_t* count, uint64_t* bytes) const {
  const unsigned bins = has_one_bin() ? 1 : kBins;
  for (unsigned number = 0; number < bins; number++) {
    const Bin& bin = bins_[number];
    const bool bit = (words_[number / 64] >> (number % 64) & 1) != 0;
    if (bit != (bin.first != nullptr)) return false;
    if (bin.root && (bin.root->detail().parent || !is_tree_sound(bin.root))) return false;
    if (bin.root && bin.first != leftmost(bin.root)) return false;
    const Block* left = nullptr;
    for (const Block* b = bin.first; b; left = b, b = bin.root ? successor(b) : b->right) {
      if (!bin.root && b->left != left) return false;
      if (place_of(b->size) != number || !b->is_free()) return false;
      if (left && !before(left, b)) return false;
      *bytes += b->size;
      ++*count;
    }
  }
  for (unsigned word = 0; word < (bins + 63) / 64; word++) {
    if (((summary_ >> word & 1) != 0) != (words_[word] != 0)) return false;
  }
  return true;
}

}  // namespace cachalot
