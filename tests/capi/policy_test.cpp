// SPDX-License-Identifier: MIT OR Apache-2.0
// The serving policy as programs see it: how it is chosen, what it counts, what pins keep, streams that end.
#include "cachalot/policy.h"

#include <cstdlib>
#include <string>
#include <vector>

#include "sim_fixture.h"

namespace cachalot_test {
namespace {

constexpr cachalot_stream kFirst = 0x10;
constexpr cachalot_stream kSecond = 0x20;
constexpr cachalot_pool_id kPool = SimAllocator::user_pool(7);

SimSetup serving(uint64_t capacity = 1 * GiB) {
  SimSetup setup;
  setup.capacity = capacity;
  setup.policy.policy = CACHALOT_POLICY_SERVING;
  return setup;
}

cachalot_policy read(const std::string& text, cachalot_status expected = CACHALOT_OK,
                     std::string* message = nullptr) {
  cachalot_policy policy = {};
  policy.struct_size = sizeof policy;
  cachalot_error error = CACHALOT_ERROR_INIT;
  EXPECT_EQ(cachalot_policy_read(text.c_str(), &policy, &error), expected) << error.message;
  if (message != nullptr) *message = error.message;
  return policy;
}

cachalot_policy policy_of(SimAllocator& with) {
  cachalot_policy policy = {};
  policy.struct_size = sizeof policy;
  with.ok(cachalot_get_policy(with.get(), &policy, with.error()));
  return policy;
}

cachalot_policy_stats stats_of(SimAllocator& with) {
  cachalot_policy_stats stats = {};
  stats.struct_size = sizeof stats;
  with.ok(cachalot_get_policy_stats(with.get(), 0, &stats, with.error()));
  return stats;
}

// ---- How it is chosen

TEST(PolicyText, NamesThePolicyAndItsOptions) {
  EXPECT_EQ(read("pytorch").policy, CACHALOT_POLICY_PYTORCH);
  EXPECT_EQ(read("pytorch,page=4MiB").page_bytes, 4 * MiB);
  const cachalot_policy plain = read("serving");
  EXPECT_EQ(plain.policy, CACHALOT_POLICY_SERVING);
  EXPECT_EQ(plain.thrift, 0);
  EXPECT_EQ(plain.borrow, CACHALOT_BORROW_FIRST);
  EXPECT_EQ(plain.streams, CACHALOT_STREAMS_UNANNOUNCED);
  EXPECT_EQ(plain.page_bytes, 0u);
  EXPECT_EQ(read("serving,streams=announced,streams=unannounced").streams,
            CACHALOT_STREAMS_UNANNOUNCED);
  const cachalot_policy full = read("serving,borrow=at_limit,page=8MiB,streams=announced,thrift");
  EXPECT_EQ(full.thrift, 1);
  EXPECT_EQ(full.streams, CACHALOT_STREAMS_ANNOUNCED);
  EXPECT_EQ(full.borrow, CACHALOT_BORROW_AT_LIMIT);
  EXPECT_EQ(full.page_bytes, 8 * MiB);
  EXPECT_EQ(read("serving,borrow=never,page=65536").borrow, CACHALOT_BORROW_NEVER);
}

TEST(PolicyText, ThatIsWrongIsRefusedWithWhatWasExpected) {
  for (const char* text :
       {"", "Serving", "serving,", "serving,,thrift", "serving,page",
        "serving,page=", "serving,page=0", "serving,page=8MB", "serving,borrow=maybe",
        "serving thrift", "serving,thrift=1", "serving,streams=gone", "serving,streams",
        "pytorch,thrift", "pytorch,borrow=never", "pytorch,streams=unannounced", "thrift"}) {
    std::string message;
    read(text, CACHALOT_ERROR_INVALID_ARGUMENT, &message);
    EXPECT_EQ(message, "policy \"" + std::string(text) +
                           "\": expected pytorch[,page=SIZE], or serving with any of thrift, "
                           "page=SIZE, borrow=first, "
                           "at_limit or never and streams=announced or unannounced, for example "
                           "serving,thrift,page=8MiB");
  }
  std::string message;
  read("serving,page=3MiB", CACHALOT_ERROR_INVALID_ARGUMENT, &message);
  EXPECT_EQ(message, "a page of 3145728 bytes: a page is a power of two, at most 1 GiB");
}

// What an allocator with these options is refused with.
std::string refusal(const cachalot_policy& policy, const char* config = "",
                    cachalot_status expected = CACHALOT_ERROR_INVALID_ARGUMENT) {
  cachalot_error error = CACHALOT_ERROR_INIT;
  cachalot_sim_options sim = {};
  sim.struct_size = sizeof sim;
  cachalot_driver* driver = nullptr;
  EXPECT_EQ(cachalot_sim_create(&sim, &driver, &error), CACHALOT_OK);
  cachalot_allocator_options options = {};
  options.struct_size = sizeof options;
  options.driver = driver;
  options.config = config;
  options.policy = policy.policy;
  options.thrift = policy.thrift;
  options.borrow = policy.borrow;
  options.streams = policy.streams;
  options.page_bytes = policy.page_bytes;
  cachalot_allocator* allocator = nullptr;
  EXPECT_EQ(cachalot_allocator_create(&options, &allocator, &error), expected);
  EXPECT_EQ(allocator, nullptr);
  cachalot_driver_destroy(driver);
  return error.message;
}

TEST(Policy, IsPyTorchsUnlessItIsAskedFor) {
  SimAllocator with;
  EXPECT_EQ(policy_of(with).policy, CACHALOT_POLICY_PYTORCH);
  EXPECT_EQ(policy_of(with).page_bytes, 0u);
  with.allocate(1);
  EXPECT_EQ(stats_of(with).pages_created, 0u);
}

TEST(Policy, OfTheEnvironmentCountsWhereOptionsNameNone) {
  ASSERT_EQ(setenv("CACHALOT_POLICY", "serving,thrift,page=4MiB", 1), 0);
  {
    SimAllocator with;
    EXPECT_EQ(policy_of(with).policy, CACHALOT_POLICY_SERVING);
    EXPECT_EQ(policy_of(with).thrift, 1);
    EXPECT_EQ(policy_of(with).page_bytes, 4 * MiB);
    SimSetup named;
    named.policy.policy = CACHALOT_POLICY_PYTORCH;
    SimAllocator other(named);
    EXPECT_EQ(policy_of(other).policy, CACHALOT_POLICY_PYTORCH);
  }
  ASSERT_EQ(setenv("CACHALOT_POLICY", "frugal", 1), 0);
  EXPECT_EQ(refusal({}).substr(0, 82),
            "the environment variable CACHALOT_POLICY is \"frugal\": expected pytorch[,page=SIZE]");
  unsetenv("CACHALOT_POLICY");
}

TEST(Policy, FieldsThatDoNotGoTogetherAreRefused) {
  EXPECT_EQ(refusal({.policy = 3}), "policy is 3: expected 0 to 2");
  EXPECT_EQ(refusal({.policy = CACHALOT_POLICY_SERVING, .borrow = 3}),
            "borrow is 3: expected 0 to 2");
  const std::string serving_only =
      "thrift, borrow and streams are options of the serving policy: policy is to be "
      "CACHALOT_POLICY_SERVING";
  EXPECT_EQ(refusal({.thrift = 1}), serving_only);
  EXPECT_EQ(refusal({.policy = CACHALOT_POLICY_PYTORCH, .borrow = 1}), serving_only);
  EXPECT_EQ(refusal({.page_bytes = 4 * MiB}),
            "page_bytes is an option of a policy, and policy is 0");
  EXPECT_EQ(refusal({.policy = CACHALOT_POLICY_SERVING, .page_bytes = 1 * MiB}),
            "pages of 1024.00 KiB are not a multiple of the driver's 2.00 MiB");
  EXPECT_EQ(
      refusal({.policy = CACHALOT_POLICY_SERVING}, "backend:cudaMallocAsync"),
      "the serving policy and pages need a cache, and backend:cudaMallocAsync leaves it to the "
      "driver");
}

TEST(Policy, NeedsADriverWithVirtualMemory) {
  cachalot_device_ops ops = {};
  ops.struct_size = sizeof ops;
  ops.memory_info = [](void*, int32_t, uint64_t*, uint64_t*) -> int32_t { return 0; };
  ops.allocate = [](void*, int32_t, uint64_t, cachalot_address*) -> int32_t { return 0; };
  ops.free = [](void*, int32_t, cachalot_address) -> int32_t { return 0; };
  const Outcome outcome = create_serving_over(ops, nullptr);
  EXPECT_EQ(outcome.status, CACHALOT_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(outcome.message(),
            "the serving policy and pages need virtual memory, which the driver custom does not "
            "have");
}

TEST(Policy, LetsPeersUsePagesThatAreNewAndThatMove) {
  SimSetup setup = serving(16 * MiB);
  setup.device_count = 2;
  SimAllocator with(setup);
  with.ok(cachalot_enable_peer_access(with.get(), 1, 0, with.error()));
  with.take_calls();
  const cachalot_address block = with.allocate(12 * MiB, kFirst);
  EXPECT_NE(with.take_calls().find("; access 0 12M device 0; access 0 12M device 1"),
            std::string::npos);
  with.free(block);
  with.allocate(14 * MiB, kSecond);
  const std::string calls = with.take_calls();
  EXPECT_NE(calls.find(" 14M device 0; access"), std::string::npos) << calls;
  EXPECT_NE(calls.find(" 14M device 1"), std::string::npos) << calls;
}

TEST(Policy, OnTheHostDriverHasPagesOfSixtyFourKiBAndMore) {
  cachalot_error error = CACHALOT_ERROR_INIT;
  cachalot_driver* driver = nullptr;
  ASSERT_EQ(cachalot_driver_open("host:64MiB", &driver, &error), CACHALOT_OK) << error.message;
  cachalot_allocator_options options = {};
  options.struct_size = sizeof options;
  options.driver = driver;
  options.config = "";
  options.policy = CACHALOT_POLICY_SERVING;
  options.page_bytes = 64 * KiB;
  cachalot_allocator* allocator = nullptr;
  ASSERT_EQ(cachalot_allocator_create(&options, &allocator, &error), CACHALOT_OK) << error.message;
  cachalot_address address = 0;
  ASSERT_EQ(cachalot_allocate(allocator, 100 * KiB, 0, 0, &address, &error), CACHALOT_OK);
  EXPECT_EQ(cachalot_memory_reserved(allocator, 0), 128 * KiB);
  static_cast<char*>(reinterpret_cast<void*>(address))[100 * KiB - 1] = 1;
  EXPECT_EQ(cachalot_allocator_destroy_all(allocator, &error), CACHALOT_OK);
  cachalot_driver_destroy(driver);
}

TEST(Policy, OfPyTorchWithPagesOfAnotherSizeGrowsByThem) {
  SimSetup setup;
  setup.config = "expandable_segments:True";
  setup.policy.policy = CACHALOT_POLICY_PYTORCH;
  setup.policy.page_bytes = 2 * MiB;
  SimAllocator with(setup);
  with.allocate(30 * MiB);
  EXPECT_EQ(with.reserved(), 30 * MiB);
  EXPECT_EQ(policy_of(with).page_bytes, 2 * MiB);
}

// ---- Borrowing

TEST(Borrowing, ComesFirstUnlessTheOptionsSayOtherwise) {
  SimAllocator with(serving());
  with.free(with.allocate(8 * MiB, kFirst));
  with.allocate(8 * MiB, kSecond);
  EXPECT_EQ(with.reserved(), 8 * MiB);
  EXPECT_EQ(stats_of(with).blocks_borrowed, 1u);
  EXPECT_EQ(stats_of(with).stream_waits, 1u);
}

TEST(Borrowing, AtTheLimitServesWhereNoNewPageIsToBeHad) {
  SimSetup setup = serving(24 * MiB);
  setup.policy.borrow = CACHALOT_BORROW_AT_LIMIT;
  SimAllocator with(setup);
  with.free(with.allocate(12 * MiB, kFirst));
  const cachalot_address own = with.allocate(8 * MiB, kSecond);
  EXPECT_EQ(stats_of(with).blocks_borrowed, 0u);
  EXPECT_EQ(with.reserved(), 20 * MiB);
  with.allocate(10 * MiB, kSecond);
  EXPECT_EQ(stats_of(with).blocks_borrowed, 1u);
  EXPECT_EQ(stats_of(with).pages_moved, 0u);
  EXPECT_EQ(with.reserved(), 20 * MiB) << "pages that did not suffice have gone back";
  with.free(own);
}

TEST(Borrowing, ThatIsOffLeavesPagesToMove) {
  SimSetup setup = serving(16 * MiB);
  setup.policy.borrow = CACHALOT_BORROW_NEVER;
  SimAllocator with(setup);
  with.free(with.allocate(12 * MiB, kFirst));
  with.allocate(10 * MiB, kSecond);
  const cachalot_policy_stats stats = stats_of(with);
  EXPECT_EQ(stats.blocks_borrowed, 0u);
  EXPECT_EQ(stats.stream_waits, 0u);
  EXPECT_EQ(stats.pages_created, 6u);
  EXPECT_EQ(stats.pages_moved, 5u);
  EXPECT_EQ(stats.host_waits, 0u) << "the device has nothing to do";
}

TEST(Borrowing, WithThriftAtTheLimitComesAfterIdlePages) {
  SimSetup setup = serving();
  setup.policy.borrow = CACHALOT_BORROW_AT_LIMIT;
  setup.policy.thrift = 1;
  SimAllocator with(setup);
  with.free(with.allocate(12 * MiB, kFirst));
  with.allocate(8 * MiB, kSecond);
  EXPECT_EQ(with.reserved(), 12 * MiB);
  EXPECT_EQ(stats_of(with).blocks_borrowed, 0u);
  EXPECT_EQ(stats_of(with).pages_moved, 4u);
}

// ---- Counters

TEST(PolicyStats, TellWhereThePagesWent) {
  SimAllocator with(serving(32 * MiB));
  with.free(with.allocate(20 * MiB, kFirst));
  with.queue_work(kFirst);
  with.free(with.allocate(30 * MiB, kSecond));
  cachalot_policy_stats stats = stats_of(with);
  EXPECT_EQ(stats.pages_created, 15u);
  EXPECT_EQ(stats.pages_moved, 10u);
  EXPECT_EQ(stats.pages_released, 0u);
  EXPECT_EQ(stats.host_waits, 0u);
  with.empty_cache();
  EXPECT_EQ(stats_of(with).host_waits, 1u) << "the old addresses were mapped still";
  stats = stats_of(with);
  EXPECT_EQ(stats.pages_created - stats.pages_released, 0u);
  EXPECT_EQ(with.reserved(), 0u);
}

// ---- Pins

void pin(SimAllocator& with, cachalot_address address, uint64_t size) {
  with.ok(cachalot_pin(with.get(), address, size, with.error()));
}
void unpin(SimAllocator& with, cachalot_address address, uint64_t size) {
  with.ok(cachalot_unpin(with.get(), address, size, with.error()));
}

TEST(Pin, KeepsThePagesUnderItAndNoOthers) {
  SimAllocator with(serving());
  const cachalot_address block = with.allocate(10 * MiB, kFirst);
  pin(with, block + 5 * MiB, 2 * MiB);  // the third and the fourth page
  EXPECT_EQ(stats_of(with).pinned_bytes, 4 * MiB);
  with.free(block);
  with.empty_cache();
  EXPECT_EQ(with.reserved(), 4 * MiB);
  EXPECT_EQ(with.layout(), "4M: free 4M");
  unpin(with, block + 5 * MiB, 2 * MiB);
  EXPECT_EQ(stats_of(with).pinned_bytes, 0u);
  with.empty_cache();
  EXPECT_EQ(with.reserved(), 0u);
}

TEST(Pin, KeepsPagesFromMoving) {
  SimAllocator with(serving(16 * MiB));
  const cachalot_address block = with.allocate(16 * MiB, kFirst);
  pin(with, block + 8 * MiB, 1);
  with.free(block);
  EXPECT_EQ(with.try_allocate(15 * MiB, kSecond).address, block) << "borrowed where it is";
  with.free(block);
  pin(with, with.allocate(1, kFirst), 1);  // a small block: its page comes from the front
  EXPECT_EQ(with.reserved(), 16 * MiB);
  EXPECT_EQ(with.try_allocate(16 * MiB, kSecond).status, CACHALOT_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(with.try_allocate(8 * MiB, kSecond).status, CACHALOT_OK);
}

TEST(Pin, IsCountedAndEndsWithTheLastUnpin) {
  SimAllocator with(serving());
  const cachalot_address block = with.allocate(4 * MiB);
  for (int i = 0; i < 2; i++) pin(with, block, 4 * MiB);
  pin(with, block, 1);
  with.free(block);
  unpin(with, block, 4 * MiB);
  with.empty_cache();
  EXPECT_EQ(with.reserved(), 4 * MiB);
  unpin(with, block, 4 * MiB);
  with.empty_cache();
  EXPECT_EQ(with.reserved(), 2 * MiB);
  EXPECT_EQ(with.refused(cachalot_unpin(with.get(), block, 4 * MiB, with.error()),
                         CACHALOT_ERROR_INVALID_ARGUMENT),
            "4194304 bytes at 0x700000000000 are not pinned");
  unpin(with, block, 1);
}

TEST(Pin, NeedsALiveBlockAroundIt) {
  SimAllocator with(serving());
  const cachalot_address block = with.allocate(4 * MiB);
  const auto refused = [&](cachalot_address address, uint64_t size) {
    return with.refused(cachalot_pin(with.get(), address, size, with.error()),
                        CACHALOT_ERROR_INVALID_ARGUMENT);
  };
  EXPECT_EQ(refused(block, 4 * MiB + 1),
            "4194305 bytes at 0x700000000000 do not lie in one live block of the cache");
  EXPECT_NE(refused(block + 4 * MiB, 1), "");
  EXPECT_NE(refused(block - 1, 1), "");
  EXPECT_NE(refused(block, UINT64_MAX), "");
  EXPECT_EQ(refused(block, 0), "0 bytes cannot be pinned");
  with.free(block);
  EXPECT_NE(refused(block, 1), "");
  EXPECT_EQ(stats_of(with).pinned_bytes, 0u);
}

// Under PyTorch's decisions too: plain segments stay whole, expandable ones page by page.
TEST(Pin, HoldsUnderPyTorchsDecisions) {
  SimAllocator with;
  const cachalot_address large = with.allocate(30 * MiB);
  const cachalot_address other = with.allocate(40 * MiB);
  pin(with, large + 7, 1);
  EXPECT_EQ(stats_of(with).pinned_bytes, 30 * MiB);
  with.free(large);
  with.free(other);
  with.empty_cache();
  EXPECT_EQ(with.reserved(), 30 * MiB);
  with.ok(cachalot_trim(with.get(), 0, 0, 0, nullptr, with.error()));
  EXPECT_EQ(with.reserved(), 30 * MiB);
  EXPECT_EQ(with.allocate(30 * MiB), large) << "the cache has it as before";
  with.free(large);
  unpin(with, large + 7, 1);
  with.empty_cache();
  EXPECT_EQ(with.reserved(), 0u);

  SimAllocator pages("expandable_segments:True");
  const cachalot_address block = pages.allocate(100 * MiB);
  pin(pages, block + 45 * MiB, 1);
  pages.free(block);
  pages.empty_cache();
  EXPECT_EQ(pages.reserved(), 20 * MiB);
  unpin(pages, block + 45 * MiB, 1);
}

TEST(Pin, KeepsASegmentFromCollectionAndFromTheReleasesOfAMiss) {
  SimAllocator with(SimSetup{.config = "max_split_size_mb:64,garbage_collection_threshold:0.5",
                             .capacity = 300 * MiB});
  const cachalot_address pinned = with.allocate(100 * MiB);
  pin(with, pinned, 100 * MiB);
  with.free(pinned);
  with.set_limit(280 * MiB);
  with.cache({80});
  EXPECT_EQ(with.try_allocate(200 * MiB).status, CACHALOT_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(with.reserved(), 100 * MiB);
  EXPECT_EQ(with.allocate(100 * MiB), pinned);
  with.free(pinned);
  unpin(with, pinned, 100 * MiB);
  EXPECT_EQ(with.try_allocate(200 * MiB).status, CACHALOT_OK);
}

TEST(Pin, OfAPoolKeepsItsMemoryAfterTheLastRelease) {
  for (const bool is_serving : {false, true}) {
    SimAllocator with(is_serving ? serving() : SimSetup{});
    with.cache_in_pool(kPool, {20}, CACHALOT_POOL_PINNED);
    with.release_pool(kPool);
    with.empty_cache();
    with.empty_pool(kPool);
    with.ok(cachalot_trim(with.get(), 0, 0, 0, nullptr, with.error()));
    EXPECT_EQ(with.reserved(), 20 * MiB);
    with.ok(cachalot_pool_set_pinned(with.get(), 0, kPool, 0, with.error()));
    with.empty_cache();
    EXPECT_EQ(with.reserved(), 0u);
    EXPECT_EQ(with.refused(cachalot_pool_set_pinned(with.get(), 0, kPool, 1, with.error()),
                           CACHALOT_ERROR_INVALID_STATE),
              "there is no pool with this id");
  }
}

// ---- Streams that end

SimSetup announced() {
  SimSetup setup = serving();
  setup.policy.streams = CACHALOT_STREAMS_ANNOUNCED;
  return setup;
}

// A driver ends the process at the handle of a stream that is gone.
TEST(UnannouncedStream, IsNeverNamedToTheDriver) {
  SimAllocator with(serving(16 * MiB));
  with.free(with.allocate(8 * MiB, kFirst));
  with.take_calls();
  const cachalot_address lent = with.allocate(8 * MiB, kSecond);
  EXPECT_EQ(with.take_calls(), "event_create; event_record_all");
  with.free(lent);
  with.queue_work(kSecond);
  with.allocate(14 * MiB, kSecond);  // the pages move
  with.free(with.allocate(1, kFirst));
  with.empty_cache();
  const std::string calls = with.take_calls();
  EXPECT_NE(calls.find("device_sync"), std::string::npos);
  EXPECT_EQ(calls.find("stream_sync"), std::string::npos);
  EXPECT_EQ(calls.find("event_record "), std::string::npos);
}

// The wait was for all streams.
TEST(UnannouncedStream, IsCoveredByAWaitForAnother) {
  SimAllocator with(serving());
  const cachalot_address large = with.allocate(8 * MiB, kFirst);
  with.free(with.allocate(4 * MiB, 0x30));
  with.free(large);
  with.allocate(8 * MiB, kSecond);
  with.allocate(4 * MiB, kSecond);
  EXPECT_EQ(stats_of(with).blocks_borrowed, 2u);
  EXPECT_EQ(stats_of(with).stream_waits, 1u);
}

TEST(UnannouncedStream, IsWaitedForOnTheHostWhereTheDriverHasNoEventOfAllStreams) {
  SimAllocator with(serving());
  with.free(with.allocate(8 * MiB, kFirst));
  with.fail(CACHALOT_SIM_CALL_EVENT_RECORD, 801);
  with.allocate(8 * MiB, kSecond);
  EXPECT_EQ(stats_of(with).stream_waits, 0u);
  EXPECT_EQ(stats_of(with).host_waits, 1u);
}

void end_stream(SimAllocator& with, cachalot_stream stream) {
  with.ok(cachalot_stream_ended(with.get(), 0, stream, with.error()));
}

TEST(EndedStream, IsWaitedForOnceAndNeverAgain) {
  SimAllocator with(announced());
  const cachalot_address cached = with.allocate(8 * MiB, kFirst);
  const cachalot_address late = with.allocate(8 * MiB, kFirst);
  const cachalot_address used = with.allocate(2 * MiB, kSecond);
  with.record_stream(used, kFirst);
  with.free(cached);
  with.take_calls();
  end_stream(with, kFirst);
  EXPECT_EQ(with.take_calls(), "stream_sync 10");
  with.free(late);
  with.free(used);
  EXPECT_EQ(with.allocate(16 * MiB, kSecond), cached);
  EXPECT_EQ(with.take_calls(), "") << "nothing names the stream";
  EXPECT_EQ(stats_of(with).blocks_borrowed, 1u);
  EXPECT_EQ(stats_of(with).stream_waits, 0u);
}

TEST(EndedStream, MayHaveASuccessorWithItsHandle) {
  SimAllocator with(announced());
  with.free(with.allocate(8 * MiB, kFirst));
  end_stream(with, kFirst);
  with.free(with.allocate(8 * MiB, kFirst));
  with.allocate(8 * MiB, kSecond);
  EXPECT_EQ(stats_of(with).stream_waits, 1u) << "for the successor's work";
}

TEST(EndedStream, LeavesWhatItBorrowedToTheLender) {
  SimAllocator with(announced());
  with.free(with.allocate(8 * MiB, kFirst));
  const cachalot_address lent = with.allocate(8 * MiB, kSecond);
  EXPECT_EQ(stats_of(with).stream_waits, 1u);
  end_stream(with, kSecond);
  with.free(lent);
  EXPECT_EQ(with.allocate(8 * MiB, kFirst), lent);
  EXPECT_EQ(stats_of(with).stream_waits, 1u);
}

TEST(EndedStream, CannotEndWhileACaptureMayBeUnderWay) {
  SimAllocator with(announced());
  with.begin_capture(SimAllocator::graph_pool(1), kFirst, 1);
  EXPECT_EQ(with.refused(cachalot_stream_ended(with.get(), 0, kSecond, with.error()),
                         CACHALOT_ERROR_INVALID_STATE),
            "the end of a stream cannot be told while a capture may be under way");
  with.end_capture(SimAllocator::graph_pool(1), 1);
  end_stream(with, kSecond);
}

TEST(EndedStream, IsNothingToPyTorchsDecisions) {
  SimAllocator with;
  with.free(with.allocate(8 * MiB, kFirst));
  with.take_calls();
  end_stream(with, kFirst);
  EXPECT_EQ(with.take_calls(), "");
}

// Ranges whose pages have all moved go, so that short-lived streams leave nothing behind.
TEST(EndedStream, LeavesNoAddressesReserved) {
  SimSetup setup = announced();
  setup.capacity = 64 * MiB;
  SimAllocator with(setup);
  for (cachalot_stream stream = 0x100; stream < 0x100 + 200; stream++) {
    with.free(with.allocate(40 * MiB + (stream % 7) * 2 * MiB, stream));
    with.free(with.allocate(1, stream));
    end_stream(with, stream);
  }
  uint64_t bytes = 0;
  uint64_t ranges = 0;
  with.ok(cachalot_expandable_totals(with.get(), &bytes, &ranges, with.error()));
  EXPECT_LE(ranges, 4u);
}

}  // namespace
}  // namespace cachalot_test
