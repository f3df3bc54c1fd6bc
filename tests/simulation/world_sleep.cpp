// SPDX-License-Identifier: MIT OR Apache-2.0
// Steps with pools that sleep.
#include <algorithm>
#include <utility>

#include "sized.h"
#include "world.h"

namespace cachalot_test {
namespace {

constexpr int32_t kContents[] = {CACHALOT_SLEEP_DISCARD, CACHALOT_SLEEP_KEEP,
                                 CACHALOT_SLEEP_KEEP_ALL};

}  // namespace

// ---- A model that is loaded

// A pool with blocks of all sizes, to which nothing is routed any more.
void World::load_pool() {
  if (pools_.size() >= kMostPools) forget_dead_pools();
  if (pools_.size() >= kMostPools) return;
  Pool pool = {{}, actor().device, false, 0};
  require(cachalot_pool_new_id(allocator_, 0, &pool.id, &error_));
  const PoolKey key = pool.key();
  auto options = sized<cachalot_pool_options>();
  if (choices_.one_in(4)) options.flags = CACHALOT_POOL_WHOLE_BLOCKS;
  begin_call();
  if (!worked(cachalot_pool_create(allocator_, pool.device, pool.id, &options, &error_))) return;
  begin(pool, CACHALOT_ROUTE_THIS_THREAD);
  pools_.push_back(pool);
  for (uint64_t i = choices_.between(1, 16); i > 0 && model_.live().size() < kMostLive; i--) {
    const uint64_t size = any_size();
    const cachalot_stream stream = any_stream();
    cachalot_address address = 0;
    if (ask(size, key.device, stream, &address)) add_block(address, size, stream, key.device);
    if (choices_.one_in(8)) free_one();
  }
  // Others may have ended the routing meanwhile, or forgotten the pool.
  for (Pool& known : pools_)
    if (known.key() == key && known.is_routed) return end_routing(known);
}

// ---- Falling asleep

// Half of the time one that has blocks and that nothing is routed to, if there is one.
const World::Pool& World::any_pool_to_sleep() {
  if (choices_.one_in(2)) return choices_.pick(pools_);
  const auto start = static_cast<size_t>(choices_.below(pools_.size()));
  for (size_t i = 0; i < pools_.size(); i++) {
    const Pool& pool = pools_[(start + i) % pools_.size()];
    const bool has_blocks =
        std::any_of(model_.live().begin(), model_.live().end(),
                    [&](const LiveBlock& block) { return block.pool == pool.key(); });
    if (has_blocks && !pool.is_routed) return pool;
  }
  return pools_[start];
}

void World::pool_sleep() {
  if (pools_.empty()) return;
  const Pool pool = any_pool_to_sleep();
  const int32_t contents = choices_.pick(kContents);
  put_to_sleep(pool, contents, any_stream());
}

// While the contents are copied other threads act, and what they have begun is a reason to refuse, too.
void World::put_to_sleep(const Pool& pool, int32_t contents, cachalot_stream stream) {
  const auto may_be_under_way = [&] { return captures_ > 0 || is_any_routed(pool.device); };
  const bool must_be_refused = is_asleep(pool) || pool.is_routed;
  const bool may_be_refused =
      must_be_refused || depth_ > 0 || use_count(pool) <= 0 || may_be_under_way();
  // If it sleeps already its own entry stays as it is.
  ContentsOfLabels by_label = set_contents(pool);
  SleepingPool* const falling =
      must_be_refused ? nullptr : &note_falling(pool, contents, std::move(by_label));
  uint64_t bytes = 0;
  begin_call();
  const cachalot_status status =
      cachalot_pool_sleep(allocator_, pool.device, pool.id, contents, stream, &bytes, &error_);
  if (status == CACHALOT_OK && must_be_refused)
    report_defect("a pool falls asleep that sleeps, or that requests are routed to");
  if (status == CACHALOT_OK) {
    has_fallen_asleep(*falling, bytes);
  } else {
    if (falling != nullptr) sleeping_.remove(*falling);
    judge_refused_sleep(pool.key(), status, may_be_refused || may_be_under_way());
  }
  compare_sleep(pool.device);
}

SleepingPool& World::note_falling(const Pool& pool, int32_t contents, ContentsOfLabels by_label) {
  SleepingPool& falling = sleeping_.add(pool.key(), contents, depth_);
  falling.by_label = std::move(by_label);
  for (const Actor& any : actors_)
    for (const cachalot_stream used : any.streams)
      falling.work.emplace_back(used, machine_->queued(pool.device, used));
  return falling;
}

// Of each label anew, since a pool that has come and gone meanwhile has forgotten them.
World::ContentsOfLabels World::set_contents(const Pool& pool) {
  ContentsOfLabels all;
  if (!setup_.tracks_labels) return all;
  for (const char* label : {"weights", "kv-cache"}) {
    const int32_t contents = kContents[choices_.below(2)];
    begin_call();
    if (worked(cachalot_pool_set_sleep_contents(allocator_, pool.device, pool.id, label, contents,
                                                &error_)))
      all[label] = contents;
  }
  return all;
}

// The blocks that were handed out when the pages went, which is behind the last step of others.
void World::has_fallen_asleep(SleepingPool& pool, uint64_t bytes) {
  pool.state = CACHALOT_POOL_ASLEEP;
  pool.bytes = bytes;
  pool.blocks = model_.fall_asleep(pool.key);
  pool.work.clear();
  for (LiveBlock& block : pool.blocks)
    if (!pool.keeps(block)) std::fill(std::begin(block.marks), std::end(block.marks), 0);
  tally_.sleeps++;
  tally_.asleep += pool.blocks.size();
  sleeping_.counts(pool.key.device).sleeps++;
  if (!setup_.is_sim && !setup_.refuses_returns) require_given_back(pool);
  if (settle(pool)) note_kept(pool);
}

void World::require_given_back(const SleepingPool& pool) {
  if (pool.given_back != pool.bytes)
    report_defect("a pool that falls asleep gives " + std::to_string(pool.given_back) +
                  " bytes back, and says " + std::to_string(pool.bytes));
  for (const LiveBlock& block : pool.blocks)
    if (machine_->usable(block.device, block.address, block.size) != 0)
      report_defect("a block that sleeps has memory");
}

// Whole pages are kept, and how many of them blocks share only the statistics tell. What others have
// freed meanwhile was copied in vain.
void World::note_kept(SleepingPool& pool) {
  auto stats = sized<cachalot_sleep_stats>();
  require(cachalot_get_sleep_stats(allocator_, pool.key.device, pool.key.id, &stats, &error_));
  pool.kept = stats.kept_bytes;
  uint64_t least = 0;
  for (const LiveBlock& block : pool.blocks)
    if (pool.keeps(block)) least += block.size;
  const uint64_t most = pool.keeps_nothing() ? 0 : pool.bytes;
  if (pool.kept < least || pool.kept > most)
    report_defect("of " + std::to_string(pool.bytes) + " bytes that sleep " +
                  std::to_string(pool.kept) + " are kept");
}

// is_known: the world sees a reason by itself.
void World::judge_refused_sleep(const PoolKey& pool, cachalot_status status, bool is_known) {
  const std::string text = error_.message;
  worked(status);
  if (has_fault_come()) return;
  if (status == CACHALOT_ERROR_INVALID_STATE && is_known) return;
  if (status == CACHALOT_ERROR_NOT_SUPPORTED && (is_async_ || has_plain_segment(pool))) return;
  report_defect("a pool cannot fall asleep: " + text);
}

bool World::has_plain_segment(const PoolKey& pool) {
  auto options = sized<cachalot_snapshot_options>();
  options.pool = pool.id;
  cachalot_snapshot* taken = nullptr;
  begin_call();
  if (!worked(cachalot_snapshot_take(allocator_, &options, &taken, &error_))) return true;
  bool is_found = false;
  for (size_t i = 0; i < cachalot_snapshot_segment_count(taken); i++) {
    auto row = sized<cachalot_segment_row>();
    cachalot_snapshot_segment(taken, i, &row);
    is_found = is_found || (row.device == pool.device && row.is_expandable == 0);
  }
  cachalot_snapshot_destroy(taken);
  return is_found;
}

// Under 2.11 a capture may be under way then.
bool World::is_any_routed(int32_t device) const {
  return setup_.release == CACHALOT_RELEASE_2_11 &&
         std::any_of(pools_.begin(), pools_.end(),
                     [&](const Pool& pool) { return pool.device == device && pool.is_routed; });
}

SleepingPool& World::any_sleeping_pool() {
  auto pool = sleeping_.pools().begin();
  std::advance(pool, choices_.below(sleeping_.pools().size()));
  return *pool;
}

// ---- Waking

void World::pool_wake() {
  if (sleeping_.pools().empty()) return;
  SleepingPool& pool = any_sleeping_pool();
  const cachalot_stream stream = any_stream();
  const PoolKey key = pool.key;
  if (pool.is_in_transit()) {
    begin_call();
    return require_asleep(cachalot_pool_wake(allocator_, key.device, key.id, stream, &error_),
                          "wakes twice");
  }
  pool.state = CACHALOT_POOL_WAKING;
  pool.depth = depth_;
  const uint64_t interleaved = tally_.interleaved;
  const uint64_t resets = resets_;
  begin_call();
  const cachalot_status status =
      cachalot_pool_wake(allocator_, key.device, key.id, stream, &error_);
  if (status == CACHALOT_OK) {
    has_woken(pool);
  } else {
    pool.state = CACHALOT_POOL_ASLEEP;
    if (status == CACHALOT_ERROR_OUT_OF_MEMORY && resets_ == resets)
      model_.device(key.device).out_of_memory++;
    judge_refused_wake(pool, status, tally_.interleaved == interleaved);
    settle(pool);
  }
  compare_sleep(key.device);
}

void World::has_woken(SleepingPool& pool) {
  tally_.wakes++;
  sleeping_.counts(pool.key.device).wakes++;
  for (LiveBlock& block : pool.blocks) require_back(pool, block);
  model_.wake(pool.blocks);
  sleeping_.remove(pool);
}

void World::require_back(const SleepingPool& pool, LiveBlock& block) {
  auto known = sized<cachalot_block>();
  if (cachalot_get_block(allocator_, block.address, &known, &error_) != CACHALOT_OK ||
      known.size != block.size || known.requested != block.requested ||
      known.stream != block.stream || !(PoolKey{known.device, known.pool} == pool.key))
    report_defect("a block has not come back as it was");
  const uint64_t usable = machine_->usable(block.device, block.address, block.size);
  if (usable != UINT64_MAX && usable != block.size)
    report_defect("a block has come back without memory");
  const cachalot_address places[] = {block.address, block.address + block.size - 1};
  for (size_t i = 0; i < 2; i++) {
    const uint64_t mark = machine_->read(places[i]);
    if (block.marks[i] != 0 && mark != UINT64_MAX && mark != block.marks[i])
      report_defect("what was kept of a block has not come back");
    block.marks[i] = mark;
  }
}

// is_alone: no other thread has acted meanwhile, so that the numbers are still those of the failure.
void World::judge_refused_wake(const SleepingPool& pool, cachalot_status status, bool is_alone) {
  const std::string text = error_.message;
  const uint64_t requested = error_.requested;
  worked(status);
  const bool is_fault = has_fault_come();
  const int32_t device = pool.key.device;
  if (status == CACHALOT_ERROR_OUT_OF_MEMORY) {
    if (requested != pool.bytes) report_defect("a wake names another size than sleeps");
    if (!is_fault && is_alone && !is_short_of(device, pool.bytes))
      report_defect("a wake is out of memory although there is enough: " + text);
    return;
  }
  if (is_fault) return;
  if (status == CACHALOT_ERROR_INVALID_STATE && (captures_ > 0 || is_any_routed(device))) return;
  report_defect("a pool cannot wake: " + text);
}

// Of the device's memory, or of the limit. Memory that is still cached counts as used: the wake has released all that it
// could.
bool World::is_short_of(int32_t device, uint64_t bytes) {
  uint64_t limit = 0;
  auto totals = sized<cachalot_device_totals>();
  begin_call();
  require(cachalot_memory_limit(allocator_, device, &limit, &error_));
  if (!worked(cachalot_get_device_totals(allocator_, device, &totals, &error_))) return true;
  return totals.used + bytes > totals.total || totals.reserved + bytes > limit;
}

// ---- Blocks that sleep

void World::free_asleep() {
  if (sleeping_.pools().empty()) return;
  SleepingPool& pool = any_sleeping_pool();
  if (pool.blocks.empty()) return;
  free_asleep_at(pool, static_cast<size_t>(choices_.below(pool.blocks.size())));
}

void World::free_asleep_at(SleepingPool& pool, size_t index) {
  const LiveBlock block = pool.blocks[index];
  const int32_t device = pool.key.device;
  begin_call();
  const cachalot_status status = cachalot_free(allocator_, block.address, &error_);
  if (status != CACHALOT_OK)
    report_defect(std::string("a block that sleeps cannot be freed: ") + error_.message);
  pool.blocks.erase(pool.blocks.begin() + static_cast<std::ptrdiff_t>(index));
  model_.forget_asleep(block);
  settle(pool);
  require_invalid_free(block.address);
  compare_sleep(device);
}

// A pool without blocks needs nothing of what was kept of them, and one without users does not wake
// any more. False: the pool has ended.
bool World::settle(SleepingPool& pool) {
  if (pool.is_in_transit() || !pool.blocks.empty()) return true;
  const bool is_used = use_count({pool.key.id, pool.key.device, false, 0}) > 0;
  if (!is_used || pool.contents != CACHALOT_SLEEP_KEEP_ALL) pool.kept = 0;
  if (!is_used) sleeping_.remove(pool);
  return is_used;
}

// Calls that need the memory of a pool that sleeps.
void World::use_asleep() {
  if (sleeping_.pools().empty()) return;
  const SleepingPool& pool = any_sleeping_pool();
  const auto [device, id] = pool.key;
  begin_call();
  switch (choices_.below(3)) {
    case 0:
      return require_asleep(
          cachalot_pool_sleep(allocator_, device, id, CACHALOT_SLEEP_DISCARD, 0, nullptr, &error_),
          "falls asleep twice");
    case 1:
      return require_asleep(cachalot_pool_empty(allocator_, device, id, &error_), "is emptied");
    default:
      if (!pool.blocks.empty()) use_block_asleep(choices_.pick(pool.blocks));
  }
}

void World::use_block_asleep(const LiveBlock& block) {
  auto known = sized<cachalot_block>();
  cachalot_address address = 0;
  char bytes[256];
  size_t size = 0;
  uint64_t number = 0;
  auto request = sized<cachalot_request>();
  request.device = block.device;
  request.stream = block.stream;
  request.at = block.address;
  request.size = block.size;
  switch (choices_.below(5)) {
    case 0:
      return require_asleep(cachalot_record_stream(allocator_, block.address, 0x100, &error_),
                            "records a use");
    case 1:
      return require_asleep(cachalot_get_block(allocator_, block.address, &known, &error_),
                            "tells of a block");
    case 2:
      return require_asleep(
          cachalot_base_allocation(allocator_, block.address, &address, &number, &error_),
          "tells of a segment");
    case 3:
      if (worked(cachalot_share(allocator_, block.address, bytes, sizeof bytes, &size, &number,
                                &error_)))
        report_defect("a block that sleeps is shared");
      return;
    default:
      if (worked(cachalot_allocate_with(allocator_, &request, &address, &error_)))
        report_defect("a block that sleeps is handed out");
  }
}

void World::require_asleep(cachalot_status status, const char* what) {
  const std::string text = status == CACHALOT_OK ? "" : error_.message;
  if (status == CACHALOT_ERROR_INVALID_STATE) return void(worked(status));
  if (status == CACHALOT_OK || !worked_or_unwilling(status))
    report_defect(std::string("a pool that sleeps ") + what + ": " + text);
}

// ---- Statistics and the end

void World::compare_sleep(int32_t device) {
  auto stats = sized<cachalot_sleep_stats>();
  require(cachalot_get_sleep_stats(allocator_, device, {0, 0}, &stats, &error_));
  cachalot_sleep_stats expected;
  const bool is_whole = sleeping_.expect(device, &expected);
  const auto words = [&](const cachalot_sleep_stats& row) {
    std::string text = std::to_string(row.pools) + " pools";
    if (!is_whole) return text;
    for (const uint64_t number : {row.blocks, row.allocated_bytes, row.asleep_bytes, row.kept_bytes,
                                  row.num_sleeps, row.num_wakes})
      text += ", " + std::to_string(number);
    return text;
  };
  if (words(stats) != words(expected))
    report_defect("asleep are " + words(stats) + "; the model has " + words(expected));
}

// Half of the pools wake before their blocks are freed.
void World::empty_sleeping_pools() {
  while (!sleeping_.pools().empty()) {
    if (choices_.one_in(2)) pool_wake();
    if (sleeping_.pools().empty()) return;
    SleepingPool& pool = sleeping_.pools().front();
    if (pool.blocks.empty()) report_defect("a pool without users and blocks sleeps");
    free_asleep_at(pool, 0);
  }
}

}  // namespace cachalot_test
