// SPDX-License-Identifier: MIT OR Apache-2.0
// Pools that sleep: what goes back, what comes back, what is refused (sleep.h).
#include <cstring>
#include <thread>

#include "sim_fixture.h"
#include "tenant_fixture.h"

namespace cachalot_test {
namespace {

constexpr cachalot_pool_id kPool = SimAllocator::user_pool(7);
constexpr cachalot_pool_id kOther = SimAllocator::user_pool(8);
constexpr cachalot_stream kStream = 0x10;
constexpr const char* kExpandable = "expandable_segments:True";

// A block of the pool, which is in use from then on.
cachalot_address block_of_pool(SimAllocator& with, uint64_t size, cachalot_pool_id id = kPool,
                               cachalot_stream stream = 0) {
  with.begin_pool(id);
  const cachalot_address block = with.allocate(size, stream);
  with.leave_pool(id);
  return block;
}

cachalot_status try_sleep(SimAllocator& with, int32_t contents = CACHALOT_SLEEP_DISCARD,
                          cachalot_pool_id id = kPool, uint64_t* bytes = nullptr) {
  return cachalot_pool_sleep(with.get(), 0, id, contents, kStream, bytes, with.error());
}

uint64_t sleep(SimAllocator& with, int32_t contents = CACHALOT_SLEEP_DISCARD,
               cachalot_pool_id id = kPool) {
  uint64_t bytes = 0;
  with.ok(try_sleep(with, contents, id, &bytes));
  return bytes;
}

cachalot_status try_wake(SimAllocator& with, cachalot_pool_id id = kPool) {
  return cachalot_pool_wake(with.get(), 0, id, kStream, with.error());
}

cachalot_sleep_stats sleep_stats(SimAllocator& with, cachalot_pool_id id = {0, 0}) {
  cachalot_sleep_stats stats = {};
  stats.struct_size = sizeof stats;
  with.ok(cachalot_get_sleep_stats(with.get(), 0, id, &stats, with.error()));
  return stats;
}

std::string why_not_asleep(SimAllocator& with, cachalot_status expected,
                           int32_t contents = CACHALOT_SLEEP_DISCARD) {
  return with.refused(try_sleep(with, contents), expected);
}

// ---- What goes and comes back

TEST(APoolThatSleeps, GivesItsPagesBackAndGetsThemAtTheSameAddresses) {
  for (const int32_t release : kReleases) {
    SimAllocator with(SimSetup{.config = kExpandable, .release = release});
    with.create_pool(kPool);
    const cachalot_address large = block_of_pool(with, 30 * MiB);
    const cachalot_address small = block_of_pool(with, 1000);
    const std::string before = with.layout(kPool);
    EXPECT_EQ(with.reserved(), 42 * MiB);
    with.take_calls();

    EXPECT_EQ(sleep(with), 42 * MiB);
    EXPECT_EQ(with.reserved(), 0u);
    EXPECT_EQ(with.take_calls().find("unreserve"), std::string::npos);
    EXPECT_EQ(sleep_stats(with, kPool).state, CACHALOT_POOL_ASLEEP);

    with.ok(try_wake(with));
    EXPECT_EQ(with.layout(kPool), before);
    EXPECT_EQ(with.reserved(), 42 * MiB);
    EXPECT_EQ(with.block(large).requested, 30 * MiB);
    EXPECT_EQ(with.block(small).requested, 1000u);
    EXPECT_EQ(sleep_stats(with, kPool).state, CACHALOT_POOL_AWAKE);
    with.free(large);
    with.free(small);
  }
}

// Also holes, free blocks between used ones, and streams.
TEST(APoolThatSleeps, ComesBackAsItWas) {
  SimAllocator with(kExpandable);
  with.create_pool(kPool);
  with.begin_pool(kPool);
  std::vector<cachalot_address> blocks;
  for (int i = 0; i < 40; i++)
    blocks.push_back(with.allocate((static_cast<uint64_t>(i) * 37 % 11 + 1) * MiB / 2,
                                   static_cast<cachalot_stream>(i % 3)));
  with.leave_pool(kPool);
  for (size_t i = 0; i < blocks.size(); i += 2) with.free(blocks[i]);
  const std::string before = with.layout(kPool);
  const cachalot_stats stats = with.stats();
  for (int turn = 0; turn < 3; turn++) {
    sleep(with, turn);
    EXPECT_EQ(with.stats().allocated_bytes.all.current, 0);
    EXPECT_EQ(with.stats().active_bytes.all.current, 0);
    with.ok(try_wake(with));
    EXPECT_EQ(with.layout(kPool), before);
    EXPECT_EQ(with.stats().allocated_bytes.all.current, stats.allocated_bytes.all.current);
    EXPECT_EQ(with.stats().requested_bytes.all.current, stats.requested_bytes.all.current);
    EXPECT_EQ(with.stats().allocated_bytes.all.peak, stats.allocated_bytes.all.peak);
    EXPECT_EQ(with.stats().reserved_bytes.all.current, stats.reserved_bytes.all.current);
  }
  EXPECT_EQ(sleep_stats(with).num_sleeps, 3u);
  EXPECT_EQ(sleep_stats(with).num_wakes, 3u);
  for (size_t i = 1; i < blocks.size(); i += 2) with.free(blocks[i]);
}

// The objects that stood for its blocks stand for others meanwhile.
TEST(APoolThatSleeps, ComesBackWithManyBlocksBesideMany) {
  SimAllocator with(kExpandable);
  with.create_pool(kPool);
  std::vector<cachalot_address> blocks;
  for (int i = 0; i < 1000; i++) blocks.push_back(block_of_pool(with, 1000));
  const std::string before = with.layout(kPool);
  sleep(with);
  for (int i = 0; i < 1000; i++) with.allocate(1000);
  with.ok(try_wake(with));
  EXPECT_EQ(with.layout(kPool), before);
  for (const cachalot_address block : blocks) with.free(block);
}

TEST(APoolThatSleeps, LeavesOtherPoolsAlone) {
  SimAllocator with(kExpandable);
  with.create_pool(kPool);
  with.create_pool(kOther);
  const cachalot_address mine = block_of_pool(with, 30 * MiB);
  const cachalot_address other = block_of_pool(with, 30 * MiB, kOther);
  const cachalot_address plain = with.allocate(30 * MiB);
  sleep(with);
  EXPECT_EQ(with.reserved(), 80 * MiB);
  EXPECT_EQ(with.block(other).size, 30 * MiB);
  with.free(plain);
  with.free(other);
  with.ok(try_wake(with));
  with.free(mine);
}

TEST(APoolThatSleeps, CountsInItsOwnStatisticsAndInTheReport) {
  SimAllocator with(kExpandable);
  with.create_pool(kPool);
  const cachalot_address block = block_of_pool(with, 30 * MiB);
  sleep(with, CACHALOT_SLEEP_KEEP);
  const cachalot_sleep_stats stats = sleep_stats(with);
  EXPECT_EQ(stats.pools, 1u);
  EXPECT_EQ(stats.blocks, 1u);
  EXPECT_EQ(stats.allocated_bytes, 30 * MiB);
  EXPECT_EQ(stats.asleep_bytes, 40 * MiB);
  EXPECT_EQ(stats.kept_bytes, 40 * MiB);
  cachalot_report* report = nullptr;
  with.ok(cachalot_report_create(with.get(), nullptr, &report, with.error()));
  cachalot_report_numbers numbers = {};
  numbers.struct_size = sizeof numbers;
  EXPECT_EQ(cachalot_report_get_numbers(report, &numbers), CACHALOT_OK);
  EXPECT_EQ(numbers.asleep, 40 * MiB);
  EXPECT_EQ(numbers.reserved, 0u);
  cachalot_report_destroy(report);
  with.ok(try_wake(with));
  EXPECT_EQ(sleep_stats(with).asleep_bytes, 0u);
  with.free(block);
}

// ---- Contents

// Over the host driver, whose memory has contents.
class HostAllocator {
 public:
  HostAllocator(int32_t track_labels = 0, const char* pinned_config = nullptr) {
    EXPECT_EQ(cachalot_driver_create_host(GiB, 1, &driver_, &error_), CACHALOT_OK);
    cachalot_allocator_options options = {};
    options.struct_size = sizeof options;
    options.driver = driver_;
    options.config = kExpandable;
    options.track_labels = track_labels;
    options.pinned_config = pinned_config;
    EXPECT_EQ(cachalot_allocator_create(&options, &allocator_, &error_), CACHALOT_OK)
        << error_.message;
    cachalot_pool_options pool = {};
    pool.struct_size = sizeof pool;
    ok(cachalot_pool_create(allocator_, 0, kPool, &pool, &error_));
  }
  ~HostAllocator() {
    EXPECT_EQ(cachalot_allocator_destroy_all(allocator_, &error_), CACHALOT_OK) << error_.message;
    cachalot_driver_destroy(driver_);
  }
  HostAllocator(const HostAllocator&) = delete;
  HostAllocator& operator=(const HostAllocator&) = delete;

  void ok(cachalot_status status) { EXPECT_EQ(status, CACHALOT_OK) << error_.message; }
  cachalot_allocator* get() { return allocator_; }
  cachalot_error* error() { return &error_; }

  // Filled with this byte.
  unsigned char* block(uint64_t size, unsigned char byte, const char* label = nullptr) {
    if (label != nullptr) ok(cachalot_label_push(label, &error_));
    cachalot_pool_route route = {};
    route.struct_size = sizeof route;
    route.kind = CACHALOT_ROUTE_THIS_THREAD;
    ok(cachalot_pool_begin(allocator_, 0, kPool, &route, &error_));
    cachalot_address address = 0;
    ok(cachalot_allocate(allocator_, size, 0, 0, &address, &error_));
    ok(cachalot_pool_end(allocator_, 0, kPool, &error_));
    ok(cachalot_pool_release(allocator_, 0, kPool, &error_));
    if (label != nullptr) ok(cachalot_label_pop(&error_));
    auto* const bytes = reinterpret_cast<unsigned char*>(address);
    std::memset(bytes, byte, size);
    return bytes;
  }
  void nap(int32_t contents) {
    ok(cachalot_pool_sleep(allocator_, 0, kPool, contents, 0, nullptr, &error_));
    ok(cachalot_pool_wake(allocator_, 0, kPool, 0, &error_));
  }
  void set_contents(const char* label, int32_t contents) {
    ok(cachalot_pool_set_sleep_contents(allocator_, 0, kPool, label, contents, &error_));
  }
  uint64_t kept_bytes() {
    cachalot_sleep_stats stats = {};
    stats.struct_size = sizeof stats;
    ok(cachalot_get_sleep_stats(allocator_, 0, kPool, &stats, &error_));
    return stats.kept_bytes;
  }

 private:
  cachalot_driver* driver_ = nullptr;
  cachalot_allocator* allocator_ = nullptr;
  cachalot_error error_ = CACHALOT_ERROR_INIT;
};

bool is_filled(const unsigned char* bytes, uint64_t size, unsigned char byte) {
  return bytes[0] == byte && std::memcmp(bytes, bytes + 1, size - 1) == 0;
}

TEST(Contents, ThatAreKeptComeBack) {
  for (const char* pinned_config : {static_cast<const char*>(nullptr), ""}) {
    HostAllocator with(0, pinned_config);
    const unsigned char* const large = with.block(70 * MiB, 17);
    const unsigned char* const small = with.block(1000, 18);
    for (int turn = 0; turn < 3; turn++) {
      with.nap(CACHALOT_SLEEP_KEEP);
      EXPECT_TRUE(is_filled(large, 70 * MiB, 17));
      EXPECT_TRUE(is_filled(small, 1000, 18));
      EXPECT_EQ(with.kept_bytes(), 0u) << "it is awake";
    }
  }
}

TEST(Contents, ThatAreDiscardedTakeNoMemoryOfTheHost) {
  HostAllocator with;
  const unsigned char* const block = with.block(70 * MiB, 17);
  with.ok(
      cachalot_pool_sleep(with.get(), 0, kPool, CACHALOT_SLEEP_DISCARD, 0, nullptr, with.error()));
  EXPECT_EQ(with.kept_bytes(), 0u);
  with.ok(cachalot_pool_wake(with.get(), 0, kPool, 0, with.error()));
  EXPECT_TRUE(is_filled(block, 70 * MiB, 0)) << "new pages";
}

TEST(Contents, OfFreeMemoryAreKeptOnlyWhereAllAre) {
  HostAllocator with;
  unsigned char* const free_block = with.block(40 * MiB, 17);
  with.block(20 * MiB, 18);
  with.ok(cachalot_free(with.get(), reinterpret_cast<cachalot_address>(free_block), with.error()));
  with.nap(CACHALOT_SLEEP_KEEP_ALL);
  EXPECT_TRUE(is_filled(free_block, 40 * MiB, 17));
  with.nap(CACHALOT_SLEEP_KEEP);
  EXPECT_FALSE(is_filled(free_block, 40 * MiB, 17));
}

TEST(Contents, AreKeptByLabel) {
  HostAllocator with(1);
  with.set_contents("kv", CACHALOT_SLEEP_DISCARD);
  const unsigned char* const weights = with.block(40 * MiB, 17, "weights");
  const unsigned char* const cache = with.block(40 * MiB, 18, "kv");
  with.nap(CACHALOT_SLEEP_KEEP);
  EXPECT_TRUE(is_filled(weights, 40 * MiB, 17));
  EXPECT_FALSE(is_filled(cache, 40 * MiB, 18));
  with.set_contents("weights", CACHALOT_SLEEP_KEEP);
  std::memset(const_cast<unsigned char*>(cache), 18, 40 * MiB);
  with.nap(CACHALOT_SLEEP_DISCARD);
  EXPECT_TRUE(is_filled(weights, 40 * MiB, 17)) << "the label's own rule";
  EXPECT_FALSE(is_filled(cache, 40 * MiB, 18));
}

TEST(Contents, OfAPageThatTwoLabelsShareFollowTheOneThatIsKept) {
  HostAllocator with(1);
  with.set_contents("kv", CACHALOT_SLEEP_DISCARD);
  const unsigned char* const cache = with.block(5 * MiB, 18, "kv");
  const unsigned char* const weights = with.block(5 * MiB, 17, "weights");
  with.nap(CACHALOT_SLEEP_KEEP);
  EXPECT_TRUE(is_filled(weights, 5 * MiB, 17));
  EXPECT_TRUE(is_filled(cache, 5 * MiB, 18)) << "both are in the first page of 20 MiB";
}

TEST(Contents, ByLabelNeedLabels) {
  SimAllocator with(kExpandable);
  with.create_pool(kPool);
  EXPECT_EQ(with.refused(cachalot_pool_set_sleep_contents(with.get(), 0, kPool, "kv",
                                                          CACHALOT_SLEEP_KEEP, with.error()),
                         CACHALOT_ERROR_INVALID_STATE),
            "labels are not tracked (track_labels)");
}

// ---- Calls while a pool sleeps

TEST(WhileAPoolSleeps, ItsBlocksCanOnlyBeFreed) {
  SimAllocator with(kExpandable);
  with.create_pool(kPool);
  const cachalot_address block = block_of_pool(with, 30 * MiB);
  sleep(with);
  const std::string text =
      "the block at 0x" + std::string("700000000000") + " sleeps with pool (0, 7)";
  cachalot_block info = {};
  info.struct_size = sizeof info;
  const auto expect_refusal = [&](cachalot_status status) {
    EXPECT_EQ(with.refused(status, CACHALOT_ERROR_INVALID_STATE), text);
  };
  expect_refusal(cachalot_get_block(with.get(), block, &info, with.error()));
  expect_refusal(cachalot_record_stream(with.get(), block, kStream, with.error()));
  EXPECT_EQ(with.refused(cachalot_pin(with.get(), block + 512, 1, with.error()),
                         CACHALOT_ERROR_INVALID_STATE),
            "pool (0, 7) sleeps");
  cachalot_address base = 0;
  cachalot_shared_block* shared = nullptr;
  EXPECT_NE(with.refused(cachalot_shared_block_create(with.get(), block, &shared, with.error()),
                         CACHALOT_ERROR_INVALID_ARGUMENT),
            "");
  uint64_t size = 0;
  expect_refusal(cachalot_base_allocation(with.get(), block, &base, &size, with.error()));
  EXPECT_NE(with.refused(cachalot_free(with.get(), block + 512, with.error()),
                         CACHALOT_ERROR_INVALID_ARGUMENT),
            "")
      << "no block begins there";
  with.free(block);
  EXPECT_NE(
      with.refused(cachalot_free(with.get(), block, with.error()), CACHALOT_ERROR_INVALID_ARGUMENT),
      "")
      << "a second time";
  EXPECT_EQ(sleep_stats(with).blocks, 0u);
  with.ok(try_wake(with));
  EXPECT_EQ(with.layout(kPool), "0: free 40M");
}

// Nothing is left of small blocks in the table of addresses while they sleep.
TEST(WhileAPoolSleeps, EachOfItsBlocksIsRefusedToStreams) {
  SimAllocator with(kExpandable);
  with.create_pool(kPool);
  std::vector<cachalot_address> blocks;
  for (const uint64_t size : {1000 * KiB, 1000 * KiB, 5 * MiB, 5 * MiB})
    blocks.push_back(block_of_pool(with, size));
  sleep(with);
  for (const cachalot_address block : blocks)
    EXPECT_NE(with.refused(cachalot_record_stream(with.get(), block, kStream, with.error()),
                           CACHALOT_ERROR_INVALID_STATE)
                  .find(" sleeps with pool (0, 7)"),
              std::string::npos);
  for (const cachalot_address block : blocks) with.free(block);
}

TEST(WhileAPoolSleeps, CallsOnItAreErrors) {
  SimAllocator with(kExpandable);
  with.create_pool(kPool);
  const cachalot_address block = block_of_pool(with, 30 * MiB);
  sleep(with);
  const auto expect_refusal = [&](cachalot_status status) {
    EXPECT_EQ(with.refused(status, CACHALOT_ERROR_INVALID_STATE), "pool (0, 7) sleeps");
  };
  cachalot_pool_route route = {};
  route.struct_size = sizeof route;
  expect_refusal(cachalot_pool_begin(with.get(), 0, kPool, &route, with.error()));
  EXPECT_EQ(with.use_count(kPool), 2) << "as after any beginning that is refused";
  with.ok(cachalot_pool_release(with.get(), 0, kPool, with.error()));
  expect_refusal(cachalot_pool_create(with.get(), 0, kPool, nullptr, with.error()));
  expect_refusal(cachalot_pool_set_pinned(with.get(), 0, kPool, 1, with.error()));
  expect_refusal(cachalot_pool_set_whole_blocks(with.get(), 0, kPool, with.error()));
  expect_refusal(cachalot_pool_empty(with.get(), 0, kPool, with.error()));
  int32_t equal = 0;
  expect_refusal(cachalot_pool_has_live(with.get(), 0, kPool, &block, 1, &equal, with.error()));
  cachalot_checkpoint* checkpoint = nullptr;
  expect_refusal(cachalot_checkpoint_take(with.get(), 0, kPool, &checkpoint, with.error()));
  EXPECT_EQ(why_not_asleep(with, CACHALOT_ERROR_INVALID_STATE),
            "pool (0, 7) sleeps already, or is about to, or wakes");
  with.ok(try_wake(with));
  EXPECT_EQ(with.refused(try_wake(with), CACHALOT_ERROR_INVALID_STATE),
            "pool (0, 7) does not sleep");
  with.free(block);
}

TEST(WhileAPoolSleeps, ItServesNoRequestThatWouldFail) {
  SimAllocator with(SimSetup{.config = kExpandable, .capacity = 100 * MiB});
  with.create_pool(kPool, CACHALOT_POOL_USE_ON_OOM);
  const cachalot_address block = block_of_pool(with, 30 * MiB);
  sleep(with);
  const cachalot_address all = with.allocate(100 * MiB);
  EXPECT_EQ(with.try_allocate(20 * MiB).status, CACHALOT_ERROR_OUT_OF_MEMORY);
  with.free(all);
  with.empty_cache();
  with.ok(try_wake(with));
  with.free(block);
}

TEST(WhileAPoolSleeps, ItEndsWithItsLastBlockWhereItHasNoUser) {
  SimAllocator with(kExpandable);
  with.create_pool(kPool);
  const cachalot_address first = block_of_pool(with, 30 * MiB);
  const cachalot_address second = block_of_pool(with, 1000);
  sleep(with, CACHALOT_SLEEP_KEEP);
  with.free(first);
  with.release_pool(kPool);
  EXPECT_EQ(with.use_count(kPool), 0);
  with.take_calls();
  with.free(second);
  EXPECT_NE(with.take_calls().find("unreserve"), std::string::npos);
  EXPECT_EQ(sleep_stats(with).pools, 0u);
  EXPECT_NE(with.refused(try_wake(with), CACHALOT_ERROR_INVALID_STATE), "");
}

TEST(WhileAPoolSleeps, AnAllocatorThatEndsGivesItsAddressesBack) {
  SimAllocator with(kExpandable);
  with.create_pool(kPool);
  block_of_pool(with, 30 * MiB);
  block_of_pool(with, 1000);
  sleep(with, CACHALOT_SLEEP_KEEP);
  EXPECT_EQ(with.refused(cachalot_allocator_destroy(with.get(), with.error()),
                         CACHALOT_ERROR_INVALID_STATE),
            "2 blocks are still live");
  with.take_calls();
  with.destroy_all();
  const std::string calls = with.take_calls();
  for (const char* range : {"unreserve 0 92160M", "unreserve 92160M 92160M"})
    EXPECT_NE(calls.find(range), std::string::npos) << calls;
  EXPECT_EQ(calls.find("unmap"), std::string::npos) << "nothing was mapped: " << calls;
}

// ---- What cannot sleep

TEST(APool, ThatDoesNotExistDoesNotSleep) {
  SimAllocator with(kExpandable);
  EXPECT_EQ(why_not_asleep(with, CACHALOT_ERROR_INVALID_STATE), "there is no pool with this id");
}

TEST(APool, WithAPlainSegmentDoesNotSleep) {
  SimAllocator with;
  with.create_pool(kPool);
  const cachalot_address block = block_of_pool(with, 30 * MiB);
  EXPECT_EQ(why_not_asleep(with, CACHALOT_ERROR_NOT_SUPPORTED),
            "pool (0, 7) has a plain segment of 31457280 bytes at 0x700000000000: only expandable "
            "segments come back at their addresses");
  EXPECT_EQ(with.block(block).size, 30 * MiB);
  with.free(block);
}

TEST(APool, ThatIsRoutedToDoesNotSleep) {
  SimAllocator with(kExpandable);
  with.create_pool(kPool);
  with.begin_pool(kPool);
  EXPECT_EQ(why_not_asleep(with, CACHALOT_ERROR_INVALID_STATE),
            "requests are routed to pool (0, 7)");
  with.leave_pool(kPool);
}

TEST(APool, ThatOthersHaveRegisteredDoesNotSleep) {
  SimAllocator with(kExpandable);
  with.create_pool(kPool);
  const cachalot_address block = block_of_pool(with, 30 * MiB);
  with.ok(cachalot_pin(with.get(), block, 1000, with.error()));
  EXPECT_EQ(why_not_asleep(with, CACHALOT_ERROR_INVALID_STATE),
            "pool (0, 7) has pinned memory in the segment at 0x700000000000");
  with.ok(cachalot_unpin(with.get(), block, 1000, with.error()));
  with.ok(cachalot_pool_set_pinned(with.get(), 0, kPool, 1, with.error()));
  EXPECT_EQ(why_not_asleep(with, CACHALOT_ERROR_INVALID_STATE), "pool (0, 7) is pinned");
  with.ok(cachalot_pool_set_pinned(with.get(), 0, kPool, 0, with.error()));
  sleep(with);
  with.ok(try_wake(with));
  with.free(block);
}

TEST(APool, WithABlockThatIsSharedDoesNotSleep) {
  SimAllocator with(kExpandable);
  with.create_pool(kPool);
  const cachalot_address block = block_of_pool(with, 30 * MiB);
  cachalot_shared_block* shared = nullptr;
  with.ok(cachalot_shared_block_create(with.get(), block, &shared, with.error()));
  EXPECT_EQ(why_not_asleep(with, CACHALOT_ERROR_INVALID_STATE),
            "pool (0, 7) has a block that is shared with other processes at 0x700000000000");
  cachalot_shared_block_destroy(shared);  // which frees the block
  sleep(with);
  with.ok(try_wake(with));
}

TEST(APool, DoesNotSleepWhileACaptureMayBeUnderWay) {
  SimAllocator with(kExpandable);
  with.create_pool(kPool);
  const cachalot_address block = block_of_pool(with, 30 * MiB);
  with.begin_capture(SimAllocator::graph_pool(3), kStream, 5);
  EXPECT_EQ(why_not_asleep(with, CACHALOT_ERROR_INVALID_STATE),
            "no pool falls asleep while a capture may be under way");
  with.end_capture(SimAllocator::graph_pool(3), 5);
  with.free(block);
}

TEST(APool, OfTheServingPolicyDoesNotSleep) {
  cachalot_policy policy = {};
  policy.policy = CACHALOT_POLICY_SERVING;
  SimAllocator with(SimSetup{.policy = policy});
  with.create_pool(kPool);
  const cachalot_address block = block_of_pool(with, 30 * MiB);
  EXPECT_EQ(why_not_asleep(with, CACHALOT_ERROR_NOT_SUPPORTED),
            "pools do not sleep under the serving policy");
  with.free(block);
}

TEST(APool, SleepsOnlyWithContentsThatThereAre) {
  SimAllocator with(kExpandable);
  with.create_pool(kPool);
  for (const int32_t contents : {-1, 3})
    EXPECT_NE(why_not_asleep(with, CACHALOT_ERROR_INVALID_ARGUMENT, contents), "");
}

// ---- Failures

TEST(ASleepThatFails, ChangesNothing) {
  for (const uint32_t call : {CACHALOT_SIM_CALL_COPY, CACHALOT_SIM_CALL_HOST_ALLOCATE,
                              CACHALOT_SIM_CALL_EVENT_CREATE, CACHALOT_SIM_CALL_EVENT_RECORD,
                              CACHALOT_SIM_CALL_EVENT_SYNCHRONIZE, CACHALOT_SIM_CALL_SYNCHRONIZE}) {
    SimAllocator with(kExpandable);
    with.create_pool(kPool);
    const cachalot_address block = block_of_pool(with, 30 * MiB);
    const std::string before = with.layout(kPool);
    with.fail(call, 700);
    with.refused(try_sleep(with, CACHALOT_SLEEP_KEEP), CACHALOT_ERROR_DRIVER);
    EXPECT_EQ(with.layout(kPool), before) << call;
    EXPECT_EQ(sleep_stats(with, kPool).state, CACHALOT_POOL_AWAKE);
    sleep(with, CACHALOT_SLEEP_KEEP);
    with.ok(try_wake(with));
    EXPECT_EQ(with.layout(kPool), before) << call;
    with.free(block);
  }
}

TEST(AWake, WithoutMemoryFailsAsARequestDoesAndCanBeRepeated) {
  SimAllocator with(SimSetup{.config = kExpandable, .capacity = 400 * MiB});
  with.create_pool(kPool);
  const cachalot_address block = block_of_pool(with, 300 * MiB);
  const std::string before = with.layout(kPool);
  sleep(with, CACHALOT_SLEEP_KEEP);
  const cachalot_address other = with.allocate(200 * MiB);
  for (int turn = 0; turn < 2; turn++) {
    EXPECT_EQ(with.refused(try_wake(with), CACHALOT_ERROR_OUT_OF_MEMORY),
              "CUDA out of memory. To wake, pool (0, 7) on GPU 0 needs 300.00 MiB, and 120.00 MiB "
              "could be had: 200.00 MiB of 400.00 MiB are free, and 200.00 MiB are reserved by "
              "cachalot. The pool sleeps on.");
    EXPECT_EQ(with.error()->requested, 300 * MiB);
    EXPECT_EQ(with.reserved(), 200 * MiB) << "what was mapped is given back";
    EXPECT_EQ(sleep_stats(with, kPool).state, CACHALOT_POOL_ASLEEP);
    EXPECT_EQ(sleep_stats(with, kPool).kept_bytes, 300 * MiB);
  }
  EXPECT_EQ(with.stats().num_ooms, 2);
  with.free(other);
  with.ok(try_wake(with));  // which releases what is cached
  EXPECT_EQ(with.layout(kPool), before);
  with.free(block);
}

TEST(AWake, KeepsTheLimit) {
  SimAllocator with(kExpandable);
  with.create_pool(kPool);
  const cachalot_address block = block_of_pool(with, 300 * MiB);
  sleep(with);
  with.set_limit(200 * MiB);
  EXPECT_NE(with.refused(try_wake(with), CACHALOT_ERROR_OUT_OF_MEMORY)
                .find(", whose limit is 200.00 MiB"),
            std::string::npos);
  with.set_limit(300 * MiB);
  with.ok(try_wake(with));
  with.free(block);
}

TEST(AWakeThatTheDriverRefuses, LeavesThePoolAsleep) {
  for (const uint32_t call : {CACHALOT_SIM_CALL_CREATE, CACHALOT_SIM_CALL_MAP,
                              CACHALOT_SIM_CALL_SET_ACCESS, CACHALOT_SIM_CALL_COPY}) {
    for (const uint64_t after : {0, 1, 2}) {
      SimAllocator with(kExpandable);
      with.create_pool(kPool);
      const cachalot_address block = block_of_pool(with, 300 * MiB);
      const std::string before = with.layout(kPool);
      sleep(with, CACHALOT_SLEEP_KEEP);
      with.fail(call, 700, after);
      with.refused(try_wake(with), CACHALOT_ERROR_DRIVER);
      EXPECT_EQ(with.reserved(), 0u);
      with.ok(try_wake(with));
      EXPECT_EQ(with.layout(kPool), before);
      with.free(block);
    }
  }
}

// ---- Tenants

TEST(TenantsAndSleep, BytesThatSleepAreNotHadAndKeepTheTenant) {
  SimAllocator with(kExpandable);
  with.create_pool(kPool);
  TestTenant tenant(with, {.name = "a"});
  with.begin_pool(kPool);
  tenant.allocate(30 * MiB);
  with.leave_pool(kPool);
  sleep(with);
  EXPECT_EQ(tenant.stats().allocated_bytes.current, 0);
  EXPECT_EQ(tenant.stats().asleep_bytes, 30 * MiB);
  EXPECT_EQ(with.refused(cachalot_tenant_destroy(tenant.get(), with.error()),
                         CACHALOT_ERROR_INVALID_STATE),
            "tenant 'a' has 30.00 MiB in blocks that sleep");
  with.ok(try_wake(with));
  EXPECT_EQ(tenant.stats().allocated_bytes.current, static_cast<int64_t>(30 * MiB));
  EXPECT_EQ(tenant.stats().asleep_bytes, 0u);
}

TEST(TenantsAndSleep, AWakeIsRefusedWhereTheTenantIsNotGrantedItsBytes) {
  SimAllocator with(kExpandable);
  with.create_pool(kPool);
  TestTenant tenant(with, {.name = "a", .can_be_asked = false});
  with.begin_pool(kPool);
  tenant.allocate(30 * MiB);
  with.leave_pool(kPool);
  sleep(with);
  tenant.set_bytes(0, 20 * MiB);
  EXPECT_NE(with.refused(try_wake(with), CACHALOT_ERROR_OUT_OF_MEMORY)
                .find("Tenant 'a' is out of memory"),
            std::string::npos)
      << with.error()->message;
  tenant.set_bytes(0, 0);
  with.ok(try_wake(with));
}

// Another process has taken memory and given it back, which shows when the driver is asked.
TEST(TenantsAndSleep, AWakeIsGrantedWhatTheDeviceHasAgain) {
  SimAllocator with(SimSetup{.config = kExpandable, .capacity = 200 * MiB});
  with.create_pool(kPool);
  TestTenant tenant(with, {.name = "a", .can_be_asked = false});
  TestTenant guaranteed(with, {.name = "b", .guaranteed = 60 * MiB, .can_be_asked = false});
  with.begin_pool(kPool);
  tenant.allocate(80 * MiB);
  with.leave_pool(kPool);
  sleep(with);
  cachalot_allocator_options options = {};
  options.struct_size = sizeof options;
  options.driver = with.driver();
  options.config = "";
  cachalot_allocator* other = nullptr;
  with.ok(cachalot_allocator_create(&options, &other, with.error()));
  cachalot_address taken = 0;
  with.ok(cachalot_allocate(other, 120 * MiB, 0, 0, &taken, with.error()));
  EXPECT_EQ(tenant.outcome_of(150 * MiB), "OUT_OF_MEMORY") << "which asks the driver";
  with.ok(cachalot_allocator_destroy_all(other, with.error()));
  with.ok(try_wake(with));
}

// The pool is released, and its last block freed, by the callback of a wake that fails.
TEST(TenantsAndSleep, APoolThatIsGivenUpWhileItWakesEnds) {
  SimAllocator with(SimSetup{.config = kExpandable, .capacity = 200 * MiB});
  with.create_pool(kPool);
  const cachalot_address mine = block_of_pool(with, 100 * MiB);
  TestTenant other(with, {.name = "other"});
  sleep(with, CACHALOT_SLEEP_KEEP);
  other.allocate(150 * MiB);
  other.answer = [&](const cachalot_pressure&) -> uint64_t {
    EXPECT_EQ(sleep_stats(with, kPool).state, CACHALOT_POOL_WAKING);
    with.free(mine);
    with.release_pool(kPool);
    return 0;
  };
  cachalot_error error = CACHALOT_ERROR_INIT;
  EXPECT_EQ(cachalot_pool_wake(with.get(), 0, kPool, kStream, &error),
            CACHALOT_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(sleep_stats(with).pools, 0u);
  EXPECT_EQ(sleep_stats(with).kept_bytes, 0u);
  EXPECT_NE(with.refused(try_wake(with), CACHALOT_ERROR_INVALID_STATE), "");
}

TEST(TenantsAndSleep, APoolWithoutMemoryIsNotPutToSleepForNothing) {
  SimAllocator with(SimSetup{.config = kExpandable, .capacity = 200 * MiB});
  with.create_pool(kPool);
  TestTenant tenant(with, {.name = "a", .can_be_asked = false});
  with.ok(cachalot_tenant_set_sleep(with.get(), tenant.get(), 0, kPool, CACHALOT_SLEEP_DISCARD,
                                    kStream, with.error()));
  tenant.allocate(150 * MiB);
  EXPECT_EQ(tenant.outcome_of(100 * MiB), "OUT_OF_MEMORY");
  EXPECT_EQ(sleep_stats(with, kPool).state, CACHALOT_POOL_AWAKE);
}

// A caller that uses a pool keeps requests routed to it meanwhile.
TEST(TenantsAndSleep, APoolThatIsRoutedToStaysAwake) {
  SimAllocator with(SimSetup{.config = kExpandable, .capacity = 400 * MiB});
  with.create_pool(kPool);
  TestTenant first(with, {.name = "first", .can_be_asked = false});
  TestTenant second(with, {.name = "second", .can_be_asked = false});
  with.ok(cachalot_tenant_set_sleep(with.get(), first.get(), 0, kPool, CACHALOT_SLEEP_KEEP, kStream,
                                    with.error()));
  with.begin_pool(kPool);
  first.allocate(300 * MiB);
  with.leave_pool(kPool);
  with.begin_pool(kPool, CACHALOT_ROUTE_NONE);
  EXPECT_EQ(second.outcome_of(300 * MiB), "OUT_OF_MEMORY");
  with.leave_pool(kPool);
  EXPECT_EQ(second.outcome_of(300 * MiB), "OK");
}

// Two models that do not fit together take turns, and no caller says so.
TEST(TenantsAndSleep, APoolFallsAsleepBeforeAnybodyIsRefused) {
  SimAllocator with(SimSetup{.config = kExpandable, .capacity = 400 * MiB});
  with.create_pool(kPool);
  with.create_pool(kOther);
  TestTenant first(with, {.name = "first", .can_be_asked = false});
  TestTenant second(with, {.name = "second", .can_be_asked = false});
  with.ok(cachalot_tenant_set_sleep(with.get(), first.get(), 0, kPool, CACHALOT_SLEEP_KEEP, kStream,
                                    with.error()));
  with.ok(cachalot_tenant_set_sleep(with.get(), second.get(), 0, kOther, CACHALOT_SLEEP_KEEP,
                                    kStream, with.error()));
  with.begin_pool(kPool);
  first.allocate(300 * MiB);
  with.leave_pool(kPool);
  with.begin_pool(kOther);
  second.allocate(300 * MiB);
  with.leave_pool(kOther);
  EXPECT_EQ(sleep_stats(with, kPool).state, CACHALOT_POOL_ASLEEP);
  for (int turn = 0; turn < 4; turn++) {
    const cachalot_pool_id wakes = turn % 2 == 0 ? kPool : kOther;
    with.ok(try_wake(with, wakes));
    EXPECT_EQ(sleep_stats(with, turn % 2 == 0 ? kOther : kPool).state, CACHALOT_POOL_ASLEEP);
    EXPECT_EQ(with.reserved(), 300 * MiB);
  }
  EXPECT_EQ(first.stats().num_pressure_calls, 3);
  with.ok(cachalot_tenant_set_sleep(with.get(), second.get(), 0, kOther, CACHALOT_SLEEP_NEVER, 0,
                                    with.error()));
  EXPECT_NE(with.refused(try_wake(with), CACHALOT_ERROR_OUT_OF_MEMORY), "") << "not any more";
}

// ---- Threads

// Other pools are used while pools fall asleep and wake, and blocks of a sleeping pool are freed.
TEST(PoolsThatSleep, LetOtherThreadsGoOn) {
  SimAllocator with(SimSetup{.config = kExpandable, .check_every_call = false});
  with.create_pool(kPool);
  const cachalot_address kept = block_of_pool(with, 300 * MiB);
  std::vector<cachalot_address> some;
  for (int i = 0; i < 50; i++) some.push_back(block_of_pool(with, 3 * MiB));
  std::thread other([&] {
    cachalot_error error = CACHALOT_ERROR_INIT;
    for (int i = 0; i < 2000; i++) {
      cachalot_address address = 0;
      EXPECT_EQ(cachalot_allocate(with.get(), 5 * MiB, 0, 3, &address, &error), CACHALOT_OK)
          << error.message;
      EXPECT_EQ(cachalot_free(with.get(), address, &error), CACHALOT_OK) << error.message;
      if (i % 100 == 0) {
        EXPECT_EQ(cachalot_free(with.get(), some[static_cast<size_t>(i / 100)], &error),
                  CACHALOT_OK)
            << error.message;
      }
    }
  });
  for (int turn = 0; turn < 20; turn++) {
    sleep(with, turn % 3);
    with.ok(try_wake(with));
  }
  other.join();
  for (size_t i = 20; i < some.size(); i++) with.free(some[i]);
  with.free(kept);
}

}  // namespace
}  // namespace cachalot_test
