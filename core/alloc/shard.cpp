// SPDX-License-Identifier: MIT OR Apache-2.0
#include "alloc/shard.h"

namespace cachalot {

ShardTable::ShardTable() {
  constexpr uint64_t kFirstSize = 16;
  all_slots_.push_back(std::make_unique<Slots>(kFirstSize));
  slots_.store(all_slots_.back().get());
}

ShardTable::~ShardTable() = default;

Shard* ShardTable::add(std::unique_ptr<Shard> shard) {
  all_.reserve(all_.size() + 1);
  reserve_slot();
  enter(*slots_, shard.get());
  all_.push_back(std::move(shard));
  return all_.back().get();
}

void ShardTable::give(Shard* shard, Stream stream) {
  reserve_slot();
  shard->stream.store(stream);
  enter(*slots_, shard);
}

// At most half of the slots are used. A table that is full of earlier streams is made anew.
void ShardTable::reserve_slot() {
  Slots& present = *slots_.load();
  if (2 * (entered_ + 1) <= present.size()) return;
  all_slots_.reserve(all_slots_.size() + 1);
  auto next = std::make_unique<Slots>(4 * all_.size() > present.size() ? 2 * present.size()
                                                                       : present.size());
  Slots* const made = next.get();
  all_slots_.push_back(std::move(next));
  entered_ = 0;
  for (const auto& shard : all_) enter(*made, shard.get());
  slots_.store(made, std::memory_order_release);
}

void ShardTable::enter(Slots& slots, Shard* shard) {
  uint64_t at = hash(shard->stream);
  while (slots[at].load()) at++;
  slots[at].store(shard, std::memory_order_release);
  entered_++;
}

}  // namespace cachalot
