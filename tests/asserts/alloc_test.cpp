// SPDX-License-Identifier: MIT OR Apache-2.0
// Faults in the use of the classes below the allocator of a device are found.
#include <gtest/gtest.h>

#include <memory>
#include <mutex>

#include "alloc/async/async_backend.h"
#include "alloc/config/option_reader.h"
#include "alloc/debug/memory_watch.h"
#include "alloc/heap/address_table.h"
#include "alloc/heap/block_arena.h"
#include "alloc/heap/block_pool.h"
#include "alloc/heap/hash_order.h"
#include "alloc/heap/page_table.h"
#include "alloc/heap/segment_copy.h"
#include "alloc/native/native_backend.h"
#include "alloc/shards/shard.h"
#include "alloc/shards/stream_table.h"
#include "alloc/stats/stats.h"
#include "alloc/tenants/labels.h"
#include "device/sim_driver.h"

namespace cachalot {
namespace {

constexpr Address kBase = 0x700000000000;

AllocatorOptions options_over(std::shared_ptr<Driver> driver) {
  AllocatorOptions options;
  options.driver = std::move(driver);
  return options;
}

class AllocDeathTest : public testing::Test {
 protected:
  Shard shard_{nullptr};
  const std::shared_ptr<SimDriver> driver_ = std::make_shared<SimDriver>();
  SharedState shared_{options_over(driver_)};
};

// ---- Blocks

TEST_F(AllocDeathTest, FindsABlockWithoutASegment) {
  const Block block{};
  EXPECT_DEATH(block.segment(), "home > kAllFlags");
}

TEST_F(AllocDeathTest, FindsFlagsThatThereAreNot) {
  Block block{};
  EXPECT_DEATH(block.set_flags(Block::kAllFlags + 1), "flags <= kAllFlags");
}

TEST_F(AllocDeathTest, FindsANumberThatNoBlockHas) {
  BlockArena arena;
  const uint32_t number = BlockArena::number_of(arena.add(&shard_, 1));
  EXPECT_EQ(arena.locate(number).shard, &shard_);
  EXPECT_DEATH(arena.locate(0), "is_given");
  EXPECT_DEATH(arena.locate(number + BlockArena::kRun), "is_given");
  EXPECT_DEATH(arena.locate(kChunkBlocks), "is_given");
}

TEST_F(AllocDeathTest, FindsABlockOfNoArenaAndNoOwner) {
  BlockArena arena;
  Block* const block = arena.add(&shard_, 1);
  Block* const detail = block + kChunkBlocks;
  EXPECT_DEATH(BlockArena::number_of(detail), "is_of");
  EXPECT_DEATH(detail->detail(), "kChunkBlocks");
  EXPECT_DEATH(arena.add(nullptr, 1), "owner && count > 0");
}

TEST_F(AllocDeathTest, FindsAnUnmappedBlockThatIsThereTwice) {
  Segment segment;
  segment.address = kBase;
  Block block{};
  block.address = kBase;
  block.set_home(&segment, Block::kUnmapped);
  BlockPool pool(false, nullptr);
  pool.insert_unmapped(BlockPool::new_unmapped(), &block);
  EXPECT_DEATH(pool.insert_unmapped(BlockPool::new_unmapped(), &block), "is_new");
  block.set(Block::kUsed);
  EXPECT_DEATH(pool.insert_unmapped(BlockPool::new_unmapped(), &block), "block->is_free");
}

TEST_F(AllocDeathTest, FindsACopyOfAnotherSegment) {
  Segment segment;
  Segment other;
  Block block{};
  block.set_home(&other, 0);
  SegmentCopy copy(&segment);
  EXPECT_DEATH(copy.preserve(&block), "block->segment.. == segment");
}

// ---- Tables

TEST_F(AllocDeathTest, FindsAnAddressThatNothingWasPreparedFor) {
  AddressTable table;
  table.prepare(kBase, 2 * MiB, true);
  EXPECT_DEATH(table.place(kBase + 2 * GiB), "is_prepared");
  EXPECT_DEATH(table.release(kBase + 2 * GiB, MiB), "is_prepared");
  EXPECT_DEATH(table.prepare(UINT64_MAX, 2, true), "UINT64_MAX");
}

TEST_F(AllocDeathTest, FindsAnAddressThatHasNoRoom) {
  AddressTable table;
  table.prepare(kBase, 2 * MiB, true);
  EXPECT_DEATH(table.set(kBase, 1), "place.has_room");
}

TEST_F(AllocDeathTest, FindsAStreamThatIsEnteredTwice) {
  StreamTable table;
  table.add(&shard_, 7);
  EXPECT_DEATH(table.add(&shard_, 7), "!find.stream");
}

TEST_F(AllocDeathTest, FindsAnEntryThatIsGivenAwayWithoutItsShard) {
  StreamTable table;
  StreamEntry* const entry = table.add(&shard_, 7);
  EXPECT_DEATH(table.give(entry, 8), "lock .shard. is not held");
}

TEST_F(AllocDeathTest, FindsAnEntryThatIsGivenAwayWhileItIsInUse) {
  StreamTable table;
  StreamEntry* const entry = table.add(&shard_, 7);
  const std::lock_guard guard(shard_.lock);
  entry->lists = 1;
  EXPECT_DEATH(table.give(entry, 8), "vacant->is_vacant");
}

TEST_F(AllocDeathTest, FindsAnEntryThatHasShelvesAndSaysThatItHasNone) {
  StreamTable table;
  StreamEntry* const entry = table.add(&shard_, 7);
  table.note_vacancy(entry);
  entry->default_lists[0] = reinterpret_cast<StreamFreeList*>(64);
  EXPECT_DEATH(table.find_vacant(), "default_lists");
}

TEST_F(AllocDeathTest, FindsAKeyWithTwoHashes) {
  HashOrder<int> order;
  order.insert(1, 10);
  EXPECT_DEATH(order.insert(1, 11), "has_with_another_hash");
}

// ---- Pages

TEST_F(AllocDeathTest, FindsPagesThatAreMappedTwice) {
  PageTable pages(shared_.driver, shared_.handle_types, shared_.log, 0, kBase, 2 * MiB, 8);
  ASSERT_TRUE(pages.map(kBase, 4 * MiB, {}));
  EXPECT_DEATH(pages.map(kBase + 2 * MiB, 4 * MiB, {}), "mapped_between.first, end. == 0");
  pages.give_back();
}

TEST_F(AllocDeathTest, FindsPagesThatAreNotMapped) {
  PageTable pages(shared_.driver, shared_.handle_types, shared_.log, 0, kBase, 2 * MiB, 8);
  EXPECT_DEATH(pages.unmap(kBase, 2 * MiB), "mapped_between.first, end. == end - first");
}

TEST_F(AllocDeathTest, FindsARangeThatIsNotOfWholePages) {
  PageTable pages(shared_.driver, shared_.handle_types, shared_.log, 0, kBase, 2 * MiB, 8);
  EXPECT_DEATH(pages.map(kBase + MiB, 2 * MiB, {}), "is_whole_pages");
  EXPECT_DEATH(pages.map(kBase, MiB, {}), "is_whole_pages");
  EXPECT_DEATH(pages.map(kBase, 18 * MiB, {}), "is_whole_pages");
  EXPECT_DEATH(pages.whole_pages(kBase - MiB, MiB), "address >= address_");
}

TEST_F(AllocDeathTest, FindsPagesThatAreLeftBehind) {
  EXPECT_DEATH(
      {
        PageTable pages(shared_.driver, shared_.handle_types, shared_.log, 0, kBase, 2 * MiB, 8);
        pages.map(kBase, 2 * MiB, {});
      },
      "mapped_pages_ == 0");
}

// ---- Statistics and labels

TEST_F(AllocDeathTest, FindsMoreThanWasCounted) {
  StatArray stats;
  stats.increase(true, 512);
  EXPECT_DEATH(stats.decrease(false, 512), "n <= of_kind");
  EXPECT_DEATH(stats.all.increase(-1), "n >= 0");
  EXPECT_DEATH(stat_value(Stats{}, {"none", sizeof(Stats)}), "row.offset < sizeof");
}

TEST_F(AllocDeathTest, FindsALabelThatIsLetGoTwice) {
  Labels labels;
  const Labels::Slot slot = labels.pin(std::make_shared<const std::string>("model"));
  labels.unpin(slot);
  EXPECT_DEATH(labels.unpin(slot), "pins > 0");
  EXPECT_DEATH(labels.pin_again(slot), "is_pinned");
  EXPECT_DEATH(labels.label(slot + 1), "slot < entries_.size");
}

TEST_F(AllocDeathTest, FindsABlockThatCountsForALabelThatItDoesNotPin) {
  Labels labels;
  LabelRows rows(labels);
  const Labels::Slot unknown = labels.pin(std::make_shared<const std::string>("unknown"));
  EXPECT_DEATH(rows.count(unknown, 512), "slot < rows_.size");
  EXPECT_DEATH(rows.keep(unknown), "slot < rows_.size");
  const Labels::Slot slot = rows.use(std::make_shared<const std::string>("model"));
  EXPECT_DEATH(rows.release(slot), "keepers > 0");
  rows.count(slot, 512);
  EXPECT_DEATH(rows.uncount(slot, 1024), "bytes <= rows_");
  rows.uncount(slot, 512);
  EXPECT_DEATH(rows.uncount(slot, 512), "allocation.current > 0");
  rows.use(std::make_shared<const std::string>("another"));
  EXPECT_DEATH(rows.count(slot, 512), "is_pinned");
}

// ---- Options

TEST_F(AllocDeathTest, FindsATokenWithoutCharacters) {
  EXPECT_DEATH(parse_integer(""), "!token.empty");
}

// ---- The state of all devices, and the other backend

TEST_F(AllocDeathTest, FindsSettingsThatAreLookedAtWithoutTheirLock) {
  EXPECT_DEATH(shared_.settings.advise_of({}), "lock .settings. is not held");
}

TEST_F(AllocDeathTest, FindsAHandleTypeThatIsNotDecided) {
  EXPECT_DEATH(shared_.handle_types.decide(HandleTypes::Probed::kUndecided), "kUndecided");
  EXPECT_DEATH(shared_.handle_types.for_device(1), "device < driver_.device_count");
}

TEST_F(AllocDeathTest, FindsAWatchedBlockThatIsNotInUse) {
  SlowPathFlags flags;
  const Captures captures(shared_.driver, shared_.rules, 0, flags);
  MemoryWatch watch(shared_.driver, captures, shared_.debug, 0, shared_.labels, shared_.log);
  Block block{};
  EXPECT_DEATH(watch.handed_out(&block, 0), "kUsed");
  EXPECT_DEATH(watch.damage(&block, 0), "kUsed");
  block.set(Block::kUsed);
  EXPECT_DEATH(watch.freed(&block, 0), "is_free");
}

TEST_F(AllocDeathTest, FindsADriversPoolThatIsUsedWithoutItsLock) {
  Mutex lock(LockRank::kAsyncBackend);
  AsyncCapture capture(*driver_);
  AsyncDevice device(shared_, 0, lock, capture);
  EXPECT_DEATH(device.prepare(), "lock .async backend. is not held");
  const std::lock_guard guard(lock);
  EXPECT_DEATH(device.allocate({.size = 512}), "is_prepared_");
  device.prepare();
  EXPECT_DEATH(device.allocate({.size = 512, .device = 1}), "request.device == device_");
  EXPECT_DEATH(device.uncount(1), "size <= used_");
}

TEST_F(AllocDeathTest, FindsARequestForADeviceThatABackendHasNot) {
  AsyncBackend async(shared_);
  EXPECT_DEATH(async.allocate({.size = 512, .device = 1}), "devices_.size");
  HitPath hits;
  NativeBackend native(shared_, options_over(driver_), &hits);
  EXPECT_DEATH(native.allocate({.size = 512, .device = 1}), "devices_.size");
}

}  // namespace
}  // namespace cachalot
