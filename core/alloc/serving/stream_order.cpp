// SPDX-License-Identifier: MIT OR Apache-2.0
#include "alloc/serving/stream_order.h"

#include <algorithm>

#include "base/text.h"
#include "device/driver_error.h"

namespace cachalot {

// ---- Hand-outs

void StreamOrder::wait_in_stream(const Block* block, Stream stream) {
  const Stream own = block->segment()->stream;
  if (own != stream) wait_for(stream, own, block->requested);
  if (!block->is(Block::kForeign)) return;
  for (const auto& [other, stamp] : table_.at(block).stamps) {
    if (other != stream) wait_for(stream, other, stamp);
  }
}

bool StreamOrder::is_finished(Stream stream, uint64_t stamp) const {
  if (stamp <= all_finished_) return true;
  const auto found = finished_.find(stream);
  return found != finished_.end() && stamp <= found->second;
}

bool StreamOrder::is_known(Stream stream, Stream other, uint64_t stamp) const {
  if (is_finished(other, stamp)) return true;
  const auto for_all = waited_for_all_.find(stream);
  if (for_all != waited_for_all_.end() && stamp <= for_all->second) return true;
  const auto for_other = waited_.find({stream, other});
  return for_other != waited_.end() && stamp <= for_other->second;
}

void StreamOrder::wait_for(Stream stream, Stream other, uint64_t stamp) {
  if (is_known(stream, other, stamp)) return;
  if (stream == kAllStreams) return finish(other, stamp);  // no queue that could wait
  uint64_t& waited = announces() ? waited_[{stream, other}] : waited_for_all_[stream];
  const DriverCode code = queue_wait(stream, announces() ? std::optional(other) : std::nullopt);
  if (code != kSuccess) return finish(other, stamp);
  waited = device_.settings.clock();
  device_.settings.tick();
  stream_waits_++;
}

// One event serves all waits: a wait is for what the event had recorded when it was queued. other: none for
// all streams.
DriverCode StreamOrder::queue_wait(Stream stream, std::optional<Stream> other) {
  if (const DriverCode code = event_.create(); code != kSuccess) return code;
  const DriverCode code = other ? driver().event_record(device_.index, event_.handle(), *other)
                                : driver().event_record_all(device_.index, event_.handle());
  return code == kSuccess ? driver().stream_wait_event(device_.index, stream, event_.handle())
                          : code;
}

StreamOrder::Table::node_type StreamOrder::new_entry(const Stamps& stamps) {
  Table one;
  one[nullptr].stamps = stamps;
  return one.extract(one.begin());
}

void StreamOrder::insert_spare(Block* block) {
  CACHALOT_ASSERT(1, !spare_.empty() && !table_.contains(block));
  spare_.key() = block;
  table_.insert(std::move(spare_));
  block->set(Block::kForeign);
}

void StreamOrder::reserve_loan(Stream user) { spare_ = new_entry({{user, 0}}); }

void StreamOrder::handed_out(Block* found, Block* used) {
  if (found == used) {
    forget(used);
  } else {
    used->clear(Block::kForeign);  // copied by the split; the entry is the remainder's
  }
}

void StreamOrder::lend(Block* used, Stream user) {
  CACHALOT_ASSERT(1, !spare_.empty() && spare_.mapped().stamps.contains(user));
  spare_.mapped().user = user;
  insert_spare(used);
}

std::optional<Stream> StreamOrder::user_of(const Block* block) const {
  const auto found = table_.find(block);
  return found == table_.end() ? std::nullopt : found->second.user;
}

// ---- Frees and merges

void StreamOrder::freed(Block* block) {
  const uint64_t now = device_.settings.clock();
  if (block->is(Block::kForeign)) {
    // The range's own stream has no work behind the loan's begin.
    Entry& entry = table_.at(block);
    const Stream user = *std::exchange(entry.user, std::nullopt);
    if (user == block->segment()->stream) {
      forget(block);  // it has ended
    } else {
      entry.stamps.at(user) = now;
    }
    block->requested = 0;
  } else {
    block->requested = now;
  }
}

// Moves nodes instead of copying them, so it cannot fail.
void StreamOrder::absorb(Block* block, const Block* other, uint64_t stamp_of_other) {
  block->requested = std::max(block->requested, stamp_of_other);
  auto taken = table_.extract(other);
  if (taken.empty()) return;
  const auto own = table_.find(block);
  if (own == table_.end()) {
    taken.key() = block;
    table_.insert(std::move(taken));
    block->set(Block::kForeign);
    return;
  }
  Stamps& stamps = own->second.stamps;
  stamps.merge(taken.mapped().stamps);
  for (const auto& [stream, stamp] : taken.mapped().stamps)  // of streams that both have
    stamps.at(stream) = std::max(stamps.at(stream), stamp);
}

void StreamOrder::copy(const Block* from, Block* to) {
  const auto found = table_.find(from);
  if (found == table_.end()) return;
  table_.emplace(to, found->second);
  to->set(Block::kForeign);
}

void StreamOrder::forget(Block* block) {
  if (!block->is(Block::kForeign)) return;
  table_.erase(block);
  block->clear(Block::kForeign);
}

// ---- Pages that move

void StreamOrder::add_stamps_of(const Block* block, Stamps* stamps) const {
  const auto add = [&](Stream stream, uint64_t stamp) {
    uint64_t& latest = (*stamps)[stream];
    latest = std::max(latest, stamp);
  };
  if (block->requested != 0) add(block->segment()->stream, block->requested);
  if (!block->is(Block::kForeign)) return;
  for (const auto& [stream, stamp] : table_.at(block).stamps) add(stream, stamp);
}

void StreamOrder::reserve_cut(const Block* block) {
  if (block->is(Block::kForeign)) spare_ = new_entry(table_.at(block).stamps);
}

// The parts have copied the flag.
void StreamOrder::cut_out(Block* hole, Block* before, Block* behind) {
  auto entry = table_.extract(hole);
  if (entry.empty()) return;
  if (before && behind) insert_spare(behind);
  Block* const left = before ? before : behind;
  if (!left) return;
  entry.key() = left;
  table_.insert(std::move(entry));
}

void StreamOrder::reserve_stamps(const Stamps& stamps) { spare_ = new_entry(stamps); }

void StreamOrder::put_stamps(Block* block) {
  CACHALOT_ASSERT(1, !spare_.empty() && !block->is(Block::kForeign));
  const auto own = spare_.mapped().stamps.extract(block->segment()->stream);
  if (!own.empty()) block->requested = own.mapped();
  if (!spare_.mapped().stamps.empty()) insert_spare(block);
}

// ---- The host

bool StreamOrder::is_finished(const Block* block) const {
  if (!is_finished(block->segment()->stream, block->requested)) return false;
  if (!block->is(Block::kForeign)) return true;
  const Stamps& stamps = table_.at(block).stamps;
  return std::all_of(stamps.begin(), stamps.end(), [&](const auto& of_stream) {
    return is_finished(of_stream.first, of_stream.second);
  });
}

void StreamOrder::wait_on_host(Block* block) {
  finish(block->segment()->stream, block->requested);
  if (!block->is(Block::kForeign)) return;
  for (const auto& [stream, stamp] : table_.at(block).stamps) finish(stream, stamp);
  forget(block);
}

void StreamOrder::synchronize_before_unmap(Block* block) {
  const auto wait = [&](Stream stream, uint64_t stamp) {
    if (is_finished(stream, stamp)) return false;
    if (announces()) return synchronize(stream), false;
    return synchronize_device(), true;  // for all of them
  };
  bool all_done = wait(block->segment()->stream, block->requested);
  if (!block->is(Block::kForeign)) return;
  for (const auto& [stream, stamp] : table_.at(block).stamps) {
    if (!all_done) all_done = wait(stream, stamp);
  }
  forget(block);
}

bool StreamOrder::look_at_progress() {
  const bool can_tell = progress_.look();
  all_finished_ = std::max(all_finished_, progress_.done());
  return can_tell;
}

void StreamOrder::finish_all() {
  synchronize_device();
  all_finished_ = device_.settings.clock();
  device_.settings.tick();
  host_waits_++;
}

void StreamOrder::synchronize_device() {
  const DriverCode code = driver().device_synchronize(device_.index);
  if (code != kSuccess) throw runtime_error(driver(), code);
}

// A stream that the driver refuses to wait for is waited for with all others.
void StreamOrder::synchronize(Stream stream) {
  if (driver().stream_synchronize(device_.index, stream) != kSuccess) synchronize_device();
}

void StreamOrder::finish(Stream stream, uint64_t stamp) {
  if (is_finished(stream, stamp)) return;
  if (!announces()) return finish_all();
  uint64_t& finished = finished_[stream];
  synchronize(stream);
  finished = device_.settings.clock();
  device_.settings.tick();
  host_waits_++;
}

// The host waits first, and what can fail comes before the first change.
void StreamOrder::stream_ended(Stream stream) {
  synchronize(stream);
  Table ended;
  for_each_own(stream, [&](Block* block) {
    if (!block->is_free() && !block->is(Block::kForeign)) ended[block].user = stream;
  });
  table_.merge(ended);
  for_each_own(stream, [](Block* block) {
    if (block->is_free()) {
      block->requested = 0;
    } else {
      block->set(Block::kForeign);
    }
  });
  device_.heap.for_each_block([&](Block* block) {
    if (block->is(Block::kForeign)) forget_stream(block, stream);
  });
  std::erase_if(waited_, [&](const auto& wait) {
    return wait.first.first == stream || wait.first.second == stream;
  });
  waited_for_all_.erase(stream);
  finished_.erase(stream);
}

void StreamOrder::destroy_events() {
  event_.destroy();
  progress_.destroy_event();
}

// A cached block without stamps of other streams is like one that was never lent.
void StreamOrder::forget_stream(Block* block, Stream ended) {
  Entry& entry = table_.at(block);
  if (entry.user == ended) entry.user = block->segment()->stream;
  entry.stamps.erase(ended);
  if (block->is_free() && entry.stamps.empty()) forget(block);
}

// The blocks of a stream's ranges, but for holes.
template <class Visit>
void StreamOrder::for_each_own(Stream stream, Visit visit) const {
  for (const auto& [address, range] : device_.heap.segments()) {
    if (range->stream != stream) continue;
    for (Block* b = range->first(); b != &range->ends; b = b->next) {
      if (!b->is(Block::kUnmapped)) visit(b);
    }
  }
}

uint64_t StreamOrder::latest_stamp(const Block* block) const {
  uint64_t latest = block->requested;
  if (!block->is(Block::kForeign)) return latest;
  for (const auto& [stream, stamp] : table_.at(block).stamps) latest = std::max(latest, stamp);
  return latest;
}

std::string StreamOrder::check() const {
  size_t flagged = 0;
  std::string found;
  device_.heap.for_each_block([&](const Block* b) {
    if (!b->is(Block::kForeign)) return;
    flagged++;
    const auto entry = table_.find(b);
    if (entry == table_.end()) {
      found = "block " + hex_address(b->address) + " has no stamps of other streams";
    } else if (entry->second.user.has_value() == b->is_free()) {
      found = "block " + hex_address(b->address) + " is lent and free, or neither";
    } else if (entry->second.stamps.contains(b->segment()->stream)) {
      found = "block " + hex_address(b->address) + " counts its own stream among others";
    }
  });
  if (flagged != table_.size()) return "the table of stamps has blocks without the flag";
  return found;
}

}  // namespace cachalot
