// SPDX-License-Identifier: MIT OR Apache-2.0
// The operations of a script, by chance.
#include <algorithm>

#include "base/text.h"
#include "script.h"
#include "wide.h"

namespace cachalot::policy_model {
namespace {

constexpr DriverCode kOtherCode = 999;

}  // namespace

void Script::take_step() {
  const uint64_t lot = random_.below(100);
  if (lot < 84) return random_.below(2 * setup_.most_live) < live_.size() ? free_one() : allocate();
  if (lot < 88) return record();
  if (lot < 90) return work();
  if (lot < 93) return finish();
  if (lot < 94) return random_.one_in(4) ? empty_cache() : trim();
  if (lot < 95) return limit();
  if (lot < 97 && setup_.has_failures) return fail_later();
  if (lot < 98 && setup_.has_pools) return random_.one_in(4) ? pool_pin_step() : pool_step();
  if (lot < 99 && setup_.has_captures) return capture_step();
  if (setup_.has_ends && random_.one_in(2)) return end_stream();
  if (setup_.has_pins) return pin_step();
  allocate();
}

void Script::allocate() {
  const uint64_t size = any_size();
  const Stream stream = any_stream();
  const Answer answer = allocate_on_both(size, stream);
  if (answer.address != 0) live_.push_back({answer.address, size, stream});
  if (answer.status == Status::kOutOfMemory && random_.one_in(2)) free_one();
}

void Script::free_one() {
  if (live_.empty()) return;
  std::swap(random_.pick(live_), live_.back());
  const Address address = live_.back().address;
  live_.pop_back();
  free_on_both(address);
}

// Most streams that are recorded have work under way.
void Script::record() {
  if (live_.empty()) return;
  const Address address = random_.pick(live_).address;
  const Stream stream = any_stream();
  record_on_both(address, stream);
  if (!random_.one_in(4))
    on_machines(format("work for %llx", wide(stream)),
                [&](SimMachine& machine) { machine.queue_work(0, stream); });
}

// A part of a live block, or the end of a pin; now and then one that does not exist.
void Script::pin_step() {
  if (pins_.size() > random_.below(4)) {
    std::swap(random_.pick(pins_), pins_.back());
    const auto [address, size] = pins_.back();
    pins_.pop_back();
    on_both(
        format("unpin %llu of %llx", wide(size), wide(address)),
        [&] { return model_.unpin(address, size), 0; },
        [&] { return library_.allocator().unpin(address, size), 0; });
    return;
  }
  if (live_.empty()) return;
  const Live& block = random_.pick(live_);
  const uint64_t offset = random_.below(block.size);
  const Address address = block.address + offset;
  const uint64_t size =
      random_.one_in(16) ? setup_.capacity : random_.between(1, block.size - offset);
  const Answer answer = on_both(
      format("pin %llu of %llx", wide(size), wide(address)),
      [&] { return model_.pin(address, size), 0; },
      [&] { return library_.allocator().pin(address, size), 0; });
  if (answer.status == Status::kOk || random_.one_in(8)) pins_.emplace_back(address, size);
}

// The next stream may have the same handle.
void Script::end_stream() {
  const Stream stream = any_stream();
  on_both(
      format("end %llx", wide(stream)), [&] { return model_.stream_ended(stream), 0; },
      [&] { return library_.allocator().stream_ended(0, stream), 0; });
}

void Script::work() {
  const Stream stream = any_stream();
  on_machines(format("work for %llx", wide(stream)),
              [&](SimMachine& machine) { machine.queue_work(0, stream); });
}

void Script::finish() {
  const Stream stream = any_stream();
  const uint64_t how = random_.below(4);
  on_machines(format("finish %llx, %llu", wide(stream), wide(how)), [&](SimMachine& machine) {
    if (how < 2) machine.finish_oldest(0, stream);
    if (how == 2) machine.finish_stream(0, stream);
    if (how == 3) machine.finish_device(0);
  });
}

void Script::empty_cache() {
  const Pool* pool = random_.one_in(3) ? any_pool(false) : nullptr;
  PoolId id = pool ? pool->id : PoolId{};
  if (!released_pools_.empty() && random_.one_in(4)) id = random_.pick(released_pools_);
  empty_on_both(id);
}

void Script::trim() {
  const uint64_t keep = random_.below(setup_.capacity);
  on_both(
      format("trim to %llu", wide(keep)), [&] { return model_.trim(keep), 0; },
      [&] {
        uint64_t released = 0;
        library_.allocator().trim(0, {.keep_bytes = keep}, &released);
        return 0;
      });
}

void Script::limit() {
  if (random_.one_in(2)) {
    const uint64_t sixteenths = random_.between(1, 16);
    const uint64_t allowed = sixteenths == 16 ? kUnlimited : setup_.capacity / 16 * sixteenths;
    on_both(
        format("allow %llu sixteenths", wide(sixteenths)),
        [&] { return model_.set_limit(allowed), 0; },
        [&] {
          const double fraction = static_cast<double>(sixteenths) / 16;
          return library_.allocator().set_memory_fraction(0, fraction), 0;
        });
    return;
  }
  const uint64_t bytes = random_.one_in(3) ? kUnlimited : random_.below(setup_.capacity);
  on_both(
      format("limit %llu", wide(bytes)), [&] { return model_.set_limit(bytes), 0; },
      [&] { return library_.allocator().set_memory_limit(0, bytes), 0; });
}

void Script::fail_later() {
  static constexpr SimCall kKinds[] = {
      SimCall::kCreate,           SimCall::kMap,         SimCall::kSetAccess,
      SimCall::kEventCreate,      SimCall::kEventRecord, SimCall::kStreamWait,
      SimCall::kReserve,          SimCall::kSynchronize, SimCall::kEventQuery,
      SimCall::kEventSynchronize, SimCall::kUnmap,       SimCall::kRelease,
      SimCall::kUnreserve};
  SimFailure failure;
  failure.calls = static_cast<uint32_t>(random_.pick(kKinds));
  failure.code = random_.one_in(2) ? kDriverOutOfMemory : kOtherCode;
  // The first errors of creations decide the handle type in 2.11 [exp 7.2], which is no rule of the policy.
  if (failure.calls == static_cast<uint32_t>(SimCall::kCreate) &&
      setup_.library.release == Release::k2_11)
    failure.code = kDriverOutOfMemory;
  failure.after = random_.below(8);
  failure.count = random_.between(1, 3);
  on_machines(format("fail %x with %d after %llu, %llu times", failure.calls, failure.code,
                     wide(failure.after), wide(failure.count)),
              [&](SimMachine& machine) { machine.fail(failure); });
}

// ---- Pools and captures

Script::Pool* Script::any_pool(bool is_routed) {
  if (pools_.empty()) return nullptr;
  Pool& pool = random_.pick(pools_);
  return pool.is_routed == is_routed && pool.id != captured_into_ ? &pool : nullptr;
}

void Script::pool_step() {
  Allocator& allocator = library_.allocator();
  if (pools_.size() < 2 && random_.one_in(2)) {
    const PoolId id = allocator.new_pool_id(false);
    const bool is_pinned = random_.one_in(4);
    pools_.push_back({id, false});
    on_both(
        is_pinned ? "create a pinned pool" : "create a pool",
        [&] { return model_.pool_create(id, is_pinned), 0; },
        [&] { return allocator.pool_create(0, id, {.is_pinned = is_pinned}), 0; });
    return;
  }
  Pool* pool = any_pool(false);
  if (pool && random_.one_in(3)) {
    const PoolId id = pool->id;
    pools_.erase(pools_.begin() + (pool - pools_.data()));
    released_pools_.push_back(id);
    on_both(
        "release a pool", [&] { return model_.pool_release(id), 0; },
        [&] { return allocator.pool_release(0, id), 0; });
    return;
  }
  if (pool) {
    const std::optional<Stream> only =
        random_.one_in(2) ? std::optional<Stream>(any_stream()) : std::nullopt;
    pool->is_routed = true;
    on_both(
        "route to a pool", [&] { return model_.pool_begin(pool->id, only), 0; },
        [&] {
          allocator.pool_begin(0, pool->id,
                               [only](Stream stream) { return !only || *only == stream; });
          return 0;
        });
    return;
  }
  pool = any_pool(true);
  if (!pool) return;
  pool->is_routed = false;
  on_both(
      "end a routing", [&] { return model_.pool_end(pool->id), model_.pool_release(pool->id), 0; },
      [&] { return allocator.pool_end(0, pool->id), allocator.pool_release(0, pool->id), 0; });
}

// Also of pools that are released, or gone.
void Script::pool_pin_step() {
  std::vector<PoolId> ids = released_pools_;
  for (const Pool& pool : pools_) ids.push_back(pool.id);
  if (ids.empty()) return;
  const PoolId id = random_.pick(ids);
  const bool is_pinned = random_.one_in(2);
  on_both(
      format("%s pool %llu %llu", is_pinned ? "pin" : "unpin", wide(id.first), wide(id.second)),
      [&] { return model_.pool_set_pinned(id, is_pinned), 0; },
      [&] { return library_.allocator().pool_set_pinned(0, id, is_pinned), 0; });
}

// A capture of one stream into a pool of its own.
void Script::capture_step() {
  if (captured_into_ != PoolId{}) return end_capture();
  Allocator& allocator = library_.allocator();
  const Stream stream = any_stream();
  captured_into_ = allocator.new_pool_id(true);
  captures_++;
  on_machines(format("capture %llx", wide(stream)),
              [&](SimMachine& machine) { machine.begin_capture(0, stream, captures_); });
  on_both(
      "begin the capture",
      [&] {
        model_.capture_begin();
        return model_.pool_begin(captured_into_, stream), 0;
      },
      [&] {
        allocator.capture_begin(0);
        allocator.pool_begin(0, captured_into_, [stream](Stream asked) { return asked == stream; });
        return 0;
      });
}

// The pool stays as long as its graph.
void Script::end_capture() {
  Allocator& allocator = library_.allocator();
  on_machines("end the capture", [&](SimMachine& machine) { machine.end_capture(0, captures_); });
  on_both(
      "end the routing",
      [&] {
        model_.pool_end(captured_into_);
        return model_.capture_end(), 0;
      },
      [&] {
        allocator.pool_end(0, captured_into_);
        return allocator.capture_end(0), 0;
      });
  pools_.push_back({captured_into_, false});
  captured_into_ = {};
}

// Failures that were ordered may still come, so an end may be refused.
void Script::free_all() {
  while (!live_.empty()) free_one();
  empty_cache();
}

// ---- Sizes

uint64_t Script::any_size() {
  const uint64_t page = setup_.library.serving.page_bytes;
  const auto near = [&](uint64_t size) {
    static constexpr int64_t kOff[] = {-513, -512, -1, 0, 1, 511, 512, 513};
    const int64_t found = static_cast<int64_t>(size) + random_.pick(kOff);
    return static_cast<uint64_t>(std::max<int64_t>(found, 1));
  };
  if (random_.one_in(512)) return 0;
  switch (setup_.sizes) {
    case Sizes::kFew:
      return random_.pick(favourites_);
    case Sizes::kNearThresholds:
      if (random_.one_in(3)) return near(random_.one_in(2) ? 512 : MiB);
      return near(page * random_.between(1, std::max<uint64_t>(1, setup_.largest_request / page)));
    case Sizes::kOfAnyMagnitude:
      return random_.of_any_magnitude(1, setup_.largest_request);
    case Sizes::kEven:
      break;
  }
  return random_.between(1, setup_.largest_request);
}

}  // namespace cachalot::policy_model
