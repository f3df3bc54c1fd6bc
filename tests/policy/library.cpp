// SPDX-License-Identifier: MIT OR Apache-2.0
#include "library.h"

#include "alloc/native/hot_path.h"
#include "alloc/shards/device_lock.h"
#include "base/text.h"

namespace cachalot::policy_model {
namespace {

AllocatorOptions allocator_options(std::shared_ptr<NotingDriver> driver,
                                   const LibraryOptions& options) {
  AllocatorOptions result;
  result.driver = std::move(driver);
  result.serving = options.serving;
  result.rules = rules_of(options.release);
  result.check_every_call = options.checks_every_call;
  // Events are looked at by the handles of their streams. Else the order is that of PyTorch's hash
  // table, which is no rule of the policy.
  result.looks_in_stream_order = true;
  result.track_labels = options.attribution == Attribution::kLabels;
  if (options.divisions != 0)
    result.config =
        format("roundup_power2_divisions:%llu", static_cast<unsigned long long>(options.divisions));
  return result;
}

State state_of(const Block& block) {
  if (block.is(Block::kUsed)) return State::kUsed;
  if (block.is(Block::kUnmapped)) return block.is_free() ? State::kHole : State::kWaitingHole;
  return block.is(Block::kWaiting) ? State::kWaiting : State::kCached;
}

Counts counts_of(const StatArray& array) {
  const auto count = [](const Stat& stat) { return Count{stat.current, stat.peak}; };
  return {count(array.all), count(array.small_pool), count(array.large_pool)};
}

}  // namespace

Library::Library(std::shared_ptr<NotingDriver> driver, const LibraryOptions& options)
    : options_(options) {
  allocator_ = std::make_unique<Allocator>(allocator_options(std::move(driver), options),
                                           [this](DeviceState& device) {
                                             auto policy = std::make_unique<ServingPolicy>(device);
                                             device_ = &device;
                                             policy_ = policy.get();
                                             return policy;
                                           });
  if (options.attribution == Attribution::kLabels) push_label("script");
  if (options.attribution == Attribution::kTenants)
    tenant_ = allocator_->tenant_create({.name = "other"});
  if (options.attribution == Attribution::kHistory)
    allocator_->record_history(
        {.enabled = true, .context = ContextLevel::kAll, .max_entries = 1000});
}

Library::~Library() {
  if (options_.attribution == Attribution::kLabels) pop_label();
}

Address Library::allocate(uint64_t size, Stream stream) {
  const Address hit = options_.tries_hits ? allocator_->hits().try_allocate(size, 0, stream) : 0;
  return hit != 0 ? hit : allocator_->allocate(size, 0, stream);
}

void Library::free(Address address) {
  if (!options_.tries_hits || !allocator_->hits().try_free(address)) allocator_->free(address);
}

Picture Library::picture() {
  const DeviceLock lock(device_->shards);
  const StreamOrder& order = policy_->order();
  Picture picture{{}, device_->settings.clock(), order.waited(), order.finished()};
  for (const auto& [stream, clock] : order.waited_for_all())
    picture.waited[{stream, kAllStreams}] = clock;
  picture.finished[kAllStreams] = order.all_finished();
  // A wait that the driver refused leaves 0.
  std::erase_if(picture.waited, [](const auto& wait) { return wait.second == 0; });
  std::erase_if(picture.finished, [](const auto& wait) { return wait.second == 0; });
  device_->heap.for_each_block([&](const Block* block) {
    BlockRow row{block->address, block->size, state_of(*block)};
    if (row.state == State::kUsed || row.state == State::kWaiting)
      row.user = device_->stream_of(block);
    if (row.state == State::kCached) {
      row.stamps = order.foreign_stamps(block);
      // The stamp of the range's own stream.
      if (block->requested != 0) row.stamps[block->segment()->stream] = block->requested;
    }
    picture.blocks.push_back(row);
  });
  return picture;
}

Numbers Library::numbers() {
  const Stats stats = allocator_->stats(0);
  Numbers numbers;
  numbers.allocated = counts_of(stats.allocated_bytes);
  numbers.active = counts_of(stats.active_bytes);
  numbers.requested = counts_of(stats.requested_bytes);
  numbers.reserved = counts_of(stats.reserved_bytes);
  numbers.used_blocks = counts_of(stats.allocation);
  numbers.active_blocks = counts_of(stats.active);
  numbers.retries = static_cast<uint64_t>(stats.num_alloc_retries);
  numbers.out_of_memory = static_cast<uint64_t>(stats.num_ooms);
  numbers.policy = allocator_->policy_stats(0);
  return numbers;
}

}  // namespace cachalot::policy_model
