// SPDX-License-Identifier: MIT OR Apache-2.0
#include "alloc/shards/shards.h"

#include <thread>

#include "alloc/shards/last_free.h"
#include "base/pause.h"

namespace cachalot {
namespace {

constexpr int kSpins = 256;  // then the thread that has the shard's lock may need this core

}  // namespace

// ---- Stopping the shards

// What every call does first at a shard. Afterwards nothing is kept or open there.
void Shards::begin_at(Shard& shard) {
  shard.lock.assert_held();
  flush(heap_, rules_, shard);
  // In this order: see Note [Reading statistics].
  const uint64_t reading = peaks_.reading_number();
  if (has(kReading)) Peaks::preserve(shard.account, reading);
  shard.preserves_for = has(kCopying) ? copy_number_ : 0;
}

// What a hit of a device that is used as a whole may have kept. pre: the device's lock.
void Shards::flush_only_shard() {
  if (shards_.size() == 1 && !shards_.front()->last.is_empty())
    flush(heap_, rules_, *shards_.front());
}

std::unique_lock<Lock> Shards::lock_at(Shard& shard) {
  std::unique_lock guard(shard.lock);
  begin_at(shard);
  return guard;
}

// Waits for each shard in turn; a hit keeps its lock for less than a microsecond.
void Shards::visit_shards(bool for_a_move) {
  recalling_.assert_held();
  for (const auto& shard : shards_) {
    std::unique_lock guard(shard->lock, std::try_to_lock);
    // A shard that goes away during the wait may keep its lock until it comes back.
    for (int tries = 0; !guard && !shard->account.away.load(); tries++) {
      tries < kSpins ? pause_briefly(4) : std::this_thread::yield();
      static_cast<void>(guard.try_lock());  // the loop looks at the guard
    }
    if (!guard) continue;
    begin_at(*shard);
    peaks_.visit(shard->account, for_a_move);
  }
}

// A move was refused after the recall with this number. pre: no shard's lock, except that of a shard
// that is away; the check of the lock order finds others.
// Of several threads that were refused one recalls; the others find that a later recall has come,
// and try their move again.
void Shards::recall_headroom(uint64_t last) {
  const std::lock_guard guard(recalling_);
  if (peaks_.is_recalled() || peaks_.recall_number() != last) return;
  peaks_.begin_recall();
  visit_shards(true);
  peaks_.end_recall();
}

// pre: no shard's lock; the check of the lock order finds it.
void Shards::stop() {
  lock_.assert_held();
  if (is_used_as_whole()) {  // no call uses a shard by itself
    flush_only_shard();
    return flags_.add(kHeld);
  }
  const std::lock_guard guard(recalling_);
  peaks_.begin_recall();
  flags_.add(kHeld);
  visit_shards(false);
  peaks_.end_recall();
}

// While a lasting flag is set, the device stays a whole, and headroom stays where it is.
void Shards::go_on() {
  lock_.assert_held();
  if (has(kWholeDevice & ~kHeld)) return flags_.drop(kHeld);
  peaks_.lend_again();
  flags_.drop(kHeld);
}

// ---- Streams

// The entry of a stream; made where there is none. pre: no shard's lock. Throws std::bad_alloc.
StreamEntry& Shards::entry_for(Stream stream) {
  lock_.assert_held();
  if (StreamEntry* const found = streams_.find(stream)) return *found;
  // The entry of a stream that is gone, with its shard: so the number of entries follows the number
  // of live streams.
  if (StreamEntry* const vacant = streams_.find_vacant()) {
    const std::lock_guard guard(vacant->shard->lock);
    streams_.give(vacant, stream);
    return *vacant;
  }
  Shard* const shard = shards_.size() < kMaxShards ? add_shard() : next_shard();
  return *streams_.add(shard, stream);
}

// In turns, so that later streams spread over all shards.
Shard* Shards::next_shard() { return shards_[next_shard_++ % kMaxShards].get(); }

// The second shard makes the first one an ordinary one: it no longer has all headroom.
Shard* Shards::add_shard() {
  const std::lock_guard no_recall(recalling_);
  shards_.reserve(kMaxShards);
  auto made = std::make_unique<Shard>(device_);
  if (shards_.size() == 1) {
    Shard& first = *shards_.front();
    const std::lock_guard guard(first.lock);
    flush(heap_, rules_, first);
    peaks_.open_next_to_others(first.account);
  }
  // Before the shard is in the list, so that no recall meets an account that is not open.
  peaks_.open(made->account, shards_.empty());
  return shards_.emplace_back(std::move(made)).get();
}

// ---- Counting

// Below its own limits an account moves by itself; all else is decided by Peaks. False: recall
// headroom, then try again.
bool Shards::count(Shard& shard, bool is_small, const Counters::Move& move) {
  CACHALOT_ASSERT(1, shard.lock.is_held() || is_used_as_whole());
  Account& account = shard.account;
  const bool may_use_headroom =
      !account.is_shared && !is_used_as_whole() && !(has(kScarce) && peaks_.has_joined(account));
  if (may_use_headroom && account.counters.move(is_small, move)) return true;
  return peaks_.move(account, is_small, move);
}

// ---- Statistics

// See Note [Reading statistics].
void Shards::read(Stats* stats) {
  lock_.assert_held();
  if (is_used_as_whole()) {
    flush_only_shard();
    return write(stats);
  }
  const std::lock_guard no_recall(recalling_);
  for (const auto& shard : shards_) shard->account.preserved.prepare();
  peaks_.begin_reading();
  Peaks::Sums preserved{};
  for (const auto& shard : shards_) const auto visit = lock_at(*shard);
  peaks_.end_reading();
  preserved.add(peaks_.preserved_shared());
  for (const auto& shard : shards_) preserved.add(shard->account.preserved.rows());
  peaks_.write(preserved, stats);
}

// The present values. read() instead sums up those of one moment without the whole device.
Peaks::Sums Shards::sums() const {
  CACHALOT_ASSERT(1, lock_.is_held() && is_used_as_whole());
  Peaks::Sums sums{};
  sums.add(peaks_.shared());
  for (const auto& shard : shards_) sums.add(shard->account.counters.rows());
  return sums;
}

// pre: the whole device.
void Shards::reset_peaks() {
  for (const auto& shard : shards_) peaks_.return_headroom(shard->account);
  peaks_.reset_peak();
}

void Shards::reset_accumulated() {
  for (const auto& shard : shards_) shard->account.counters.reset_accumulated();
  peaks_.reset_accumulated(sums());
}

std::string Shards::check_limits() const {
  if (!peaks_.is_sound()) return "the shared account has passed its limit";
  for (const auto& shard : shards_) {
    if (!shard->account.counters.is_sound()) return "a shard has passed its limit";
  }
  return "";
}

// ---- Copying blocks

uint32_t Shards::begin_copying() {
  copy_number_++;  // first: a shard that sees the flag reads the number
  flags_.add(kCopying);
  return copy_number_;
}

// Each shard's lock is taken once: afterwards no call is left that saw the flag.
void Shards::end_copying() {
  flags_.drop(kCopying);
  for (const auto& shard : shards_) {
    const std::lock_guard guard(shard->lock);
    shard->preserves_for = 0;
  }
}

}  // namespace cachalot
