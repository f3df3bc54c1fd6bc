// SPDX-License-Identifier: MIT OR Apache-2.0
#include "freed_blocks.h"

#include <mutex>

#include "captures.h"
#include "device_wait.h"
#include "real_driver.h"

namespace cachalot::proxy {

FreedBlocks::FreedBlocks(DriverContext* context, Free free)
    : context_(context), free_(std::move(free)) {
  spare_nodes_.reserve(kSpareNodes);
  spare_lists_.reserve(kSpareLists);
}

bool FreedBlocks::holds(Address address) {
  if (!has_any()) return false;
  const std::lock_guard guard(mutex_);
  return addresses_.count(address) != 0;
}

// False: it is there.
bool FreedBlocks::insert(Address address) {
  if (spare_nodes_.empty()) return addresses_.insert(address).second;
  spare_nodes_.back().value() = address;
  auto result = addresses_.insert(std::move(spare_nodes_.back()));
  if (result.inserted)
    spare_nodes_.pop_back();
  else
    spare_nodes_.back() = std::move(result.node);
  return result.inserted;
}

Result FreedBlocks::add(const BlockInfo& block, uint64_t most_bytes) {
  const std::lock_guard guard(mutex_);
  if (open_.blocks.size() == open_.blocks.capacity())
    open_.blocks.reserve(2 * open_.blocks.size() + kBlocksOfABatch);
  if (!insert(block.address)) return kInvalidValue;
  open_.blocks.push_back({block.address, block.size});  // does not throw any more
  open_bytes_ += block.size;
  count_.fetch_add(1, std::memory_order_relaxed);
  bytes_.fetch_add(block.size, std::memory_order_relaxed);
  if (open_.blocks.size() < kBlocksOfABatch && open_bytes_ <= most_bytes / 8) return 0;
  const Result result = close();
  if (result != 0) take_back_newest();
  return result;
}

// The program has it still.
void FreedBlocks::take_back_newest() noexcept {
  const Block block = open_.blocks.back();
  open_.blocks.pop_back();
  open_bytes_ -= block.size;
  addresses_.erase(block.address);
  count_.fetch_sub(1, std::memory_order_relaxed);
  bytes_.fetch_sub(block.size, std::memory_order_relaxed);
}

// While a stream is captured the batch stays open.
Result FreedBlocks::close() {
  if (open_.blocks.empty()) return 0;
  const std::optional<ContextEvent> recorded = record_for_context(context_);
  if (!recorded || recorded->result != 0) return recorded ? recorded->result : 0;
  open_.event = recorded->event;
  closed_.push_back(std::move(open_));
  open_ = {};
  open_bytes_ = 0;
  if (!spare_lists_.empty()) {
    open_.blocks = std::move(spare_lists_.back());
    spare_lists_.pop_back();
  }
  has_unasked_event_.store(true, std::memory_order_relaxed);
  return 0;
}

Result FreedBlocks::free_done() {
  if (!has_unasked_event_.load(std::memory_order_relaxed)) return 0;
  const std::lock_guard guard(mutex_);
  return look_at_events();
}

Result FreedBlocks::free_all_done() {
  const std::lock_guard guard(mutex_);
  if (const Result result = close(); result != 0) return result;
  return look_at_events();
}

Result FreedBlocks::look_at_events() {
  Result result = 0;
  if (closed_.empty()) return 0;
  Captures::get().unless_any([&] {
    while (!closed_.empty() && !context_->has_ended) {
      EventHandle const event = closed_.front().event;
      result = event != nullptr ? real().cuEventQuery(event) : 0;
      if (result != 0) break;
      free_oldest();
    }
    // An error of the context is given to each request.
    has_unasked_event_.store(result != 0 && result != kNotReady, std::memory_order_relaxed);
  });
  return result == kNotReady ? 0 : result;
}

void FreedBlocks::free_oldest() noexcept {
  Batch& batch = closed_.front();
  for (const Block& block : batch.blocks) {
    auto node = addresses_.extract(block.address);
    if (spare_nodes_.size() < kSpareNodes) spare_nodes_.push_back(std::move(node));
    bytes_.fetch_sub(block.size, std::memory_order_relaxed);
    free_(block.address);
  }
  count_.fetch_sub(batch.blocks.size(), std::memory_order_relaxed);
  if (batch.event != nullptr) give_event(context_, batch.event);
  batch.blocks.clear();
  if (spare_lists_.size() < kSpareLists) spare_lists_.push_back(std::move(batch.blocks));
  closed_.pop_front();
}

bool FreedBlocks::can_wait() const {
  return !closed_.empty() && !context_->has_ended && !Captures::get().any();
}

// The event may be done, and stand for other blocks, when another thread has looked meanwhile: the wait is longer then.
Result FreedBlocks::wait_for_leash(uint64_t most_bytes) {
  for (;;) {
    EventHandle event = nullptr;
    {
      const std::lock_guard guard(mutex_);
      if (const Result result = look_at_events(); result != 0) return result;
      if (bytes() <= most_bytes) return 0;
      if (closed_.empty())
        if (const Result result = close(); result != 0) return result;
      if (!can_wait()) return 0;
      event = closed_.front().event;
    }
    if (event == nullptr) continue;
    if (const Result result = real().cuEventSynchronize(event); result != 0) return result;
  }
}

// Once, and not until nothing is here: other threads go on to free.
Result FreedBlocks::wait_for_all() {
  EventHandle newest = nullptr;
  {
    const std::lock_guard guard(mutex_);
    if (const Result result = close(); result != 0) return result;
    if (!can_wait()) return 0;
    newest = closed_.back().event;
  }
  if (newest != nullptr)
    if (const Result result = real().cuEventSynchronize(newest); result != 0) return result;
  const std::lock_guard guard(mutex_);
  return look_at_events();
}

void FreedBlocks::clear() {
  const std::lock_guard guard(mutex_);
  for (const Batch& batch : closed_)
    if (batch.event != nullptr) give_event(context_, batch.event);
  closed_.clear();
  open_ = {};
  open_bytes_ = 0;
  addresses_.clear();
  count_.store(0, std::memory_order_relaxed);
  bytes_.store(0, std::memory_order_relaxed);
}

}  // namespace cachalot::proxy
