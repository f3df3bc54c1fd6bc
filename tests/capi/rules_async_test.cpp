// SPDX-License-Identifier: MIT OR Apache-2.0
// backend:cudaMallocAsync [async 1 to 7, R70 to R72].
#include <atomic>
#include <thread>

#include "sim_fixture.h"

namespace cachalot_test {
namespace {

constexpr const char* kAsync = "backend:cudaMallocAsync";
constexpr const char* kPreparation =
    "pool_attribute 4 18446744073709551615; pool_attribute 1 1; pool_attribute 2 1; "
    "pool_attribute 3 1";
constexpr cachalot_stream kOther = 0x10;
constexpr cachalot_stream kThird = 0x20;
constexpr cachalot_pool_id kPool = SimAllocator::user_pool(1);

// One whose device has been prepared, and whose calls so far are forgotten.
class Async : public SimAllocator {
 public:
  explicit Async(SimSetup setup = {}) : SimAllocator(with_backend(std::move(setup))) {
    EXPECT_EQ(fraction() > 1e6, true) << "no limit is set";
    ok(cachalot_sim_log_calls(driver(), CACHALOT_SIM_LOG_CALLS | CACHALOT_SIM_LOG_WAITS, error()));
    take_calls();
  }

  double fraction() {
    double fraction = 0;
    ok(cachalot_memory_fraction(get(), 0, &fraction, error()));
    return fraction;
  }
  void set_fraction(double fraction) {
    ok(cachalot_set_memory_fraction(get(), 0, fraction, error()));
  }
  uint64_t largest(cachalot_stream stream = 0) {
    uint64_t size = 0;
    ok(cachalot_largest_block_on_stream(get(), 0, 0, stream, &size, error()));
    return size;
  }
  // The driver does not take it back.
  void search_and_keep_the_trial_block() {
    uint64_t size = 0;
    fail(CACHALOT_SIM_CALL_POOL_FREE, 700);
    refused(cachalot_largest_block(get(), 0, 0, &size, error()), CACHALOT_ERROR_DRIVER);
  }
  std::string refused_free(cachalot_address address) {
    return refused(cachalot_free(get(), address, error()), CACHALOT_ERROR_INVALID_ARGUMENT);
  }
  std::string not_supported(cachalot_status status) {
    return refused(status, CACHALOT_ERROR_NOT_SUPPORTED);
  }

 private:
  static SimSetup with_backend(SimSetup setup) {
    setup.config = kAsync + (setup.config.empty() ? "" : "," + setup.config);
    return setup;
  }
};

// ---- Set-up [async 1]

TEST(AsyncBackend, IsChosenByTheFirstBackendKeyOnly) {
  const auto backend_of = [](const std::string& config) {
    return std::string(cachalot_allocator_backend(SimAllocator(config).get()));
  };
  EXPECT_EQ(backend_of(kAsync), "cudaMallocAsync");
  EXPECT_EQ(backend_of("expandable_segments:True, backend:cudaMallocAsync"), "cudaMallocAsync");
  EXPECT_EQ(backend_of("backend:cudaMallocAsync,backend:native"), "cudaMallocAsync");
  EXPECT_EQ(backend_of("backend:native"), "native");
  EXPECT_EQ(backend_of(""), "native");
}

TEST(AsyncBackend, NeedsADriverWithStreamOrderedMemory) {
  cachalot_error error = CACHALOT_ERROR_INIT;
  cachalot_driver* host = nullptr;
  ASSERT_EQ(cachalot_driver_create_host(0, 0, &host, &error), CACHALOT_OK);
  cachalot_allocator_options options = {};
  options.struct_size = sizeof options;
  options.driver = host;
  options.config = kAsync;
  cachalot_allocator* none = nullptr;
  EXPECT_EQ(cachalot_allocator_create(&options, &none, &error), CACHALOT_ERROR_NOT_SUPPORTED);
  EXPECT_STREQ(error.message,
               "backend:cudaMallocAsync needs stream-ordered memory, which the driver host does "
               "not have");
  EXPECT_EQ(none, nullptr);
  cachalot_driver_destroy(host);
}

TEST(AsyncBackend, CannotBeChangedLater) {
  Async with;
  with.refused(cachalot_configure(with.get(), "backend:native", with.error()),
               CACHALOT_ERROR_INVALID_STATE);
  with.configure(kAsync);
  EXPECT_EQ(with.take_log(), "");
}

TEST(AsyncBackend, PreparesADeviceOnItsFirstUse) {
  SimAllocator with(SimSetup{.config = kAsync, .device_count = 2});
  with.empty_cache();
  EXPECT_EQ(with.stats().max_split_size, 0);
  EXPECT_EQ(with.take_calls(), "") << "not yet";
  with.allocate(MiB, 0, 1);
  EXPECT_EQ(with.take_calls(), kPreparation + std::string("; malloc_async 1M 0 ") +
                                   std::to_string(uint64_t{1} << 22) + "M")
      << "of the second device only";
  with.allocate(MiB, 0, 1);
  with.empty_cache();
  const std::string calls = with.take_calls();
  EXPECT_EQ(calls.find("pool_attribute"), calls.npos);
  EXPECT_EQ(calls.substr(calls.find("; ") + 2), "device_sync; pool_trim 0") << "once";
}

TEST(AsyncBackend, IsPreparedAgainAfterAFailure) {
  SimAllocator with(kAsync);
  with.fail(CACHALOT_SIM_CALL_STREAM_CREATE, 999);
  EXPECT_EQ(with.try_allocate(MiB).status, CACHALOT_ERROR_DRIVER);
  with.take_calls();
  with.allocate(MiB);
  EXPECT_EQ(with.take_calls(), kPreparation + std::string("; malloc_async 1M 0 0"));
}

// ---- Allocate [async 2]

TEST(AsyncAllocate, AsksForExactlyWhatWasRequested) {
  Async with;
  const cachalot_address block = with.allocate(1001, kOther);
  EXPECT_EQ(with.take_calls(), "malloc_async 1001 10 0");
  const cachalot_block row = with.block(block);
  EXPECT_EQ(row.size, 1001u);
  EXPECT_EQ(row.requested, 1001u);
  EXPECT_EQ(row.stream, kOther);
  EXPECT_EQ(with.allocate(0), 0u);
  EXPECT_EQ(with.take_calls(), "");
}

TEST(AsyncAllocate, RefusesAnExabyteAtOnce) {
  Async with;
  const Outcome outcome = with.try_allocate(uint64_t{1} << 60);
  EXPECT_EQ(outcome.status, CACHALOT_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(outcome.message(), "CUDA out of memory. Tried to allocate more than 1EB memory.");
  EXPECT_EQ(with.take_calls(), "");
}

TEST(AsyncAllocate, RaisesAPendingErrorFirst) {
  Async with;
  with.ok(cachalot_sim_set_pending_error(with.driver(), 700, with.error()));
  EXPECT_EQ(with.try_allocate(1000).error.driver_code, 700);
  EXPECT_EQ(with.take_calls(), "");
  with.allocate(1000);
}

TEST(AsyncAllocate, RefusesWhatExceedsTheLimitWithoutAskingTheDriver) {
  Async with({.capacity = 600 * MiB});
  with.allocate(1000);
  with.set_fraction(0.5);
  with.take_calls();
  const Outcome outcome = with.try_allocate(300 * MiB);
  EXPECT_EQ(outcome.status, CACHALOT_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(outcome.message(),
            "Allocation on device 0 would exceed allowed memory. (out of memory)\n"
            "Currently allocated     : 1000 bytes\n"
            "Requested               : 300.00 MiB\n"
            "Device limit            : 600.00 MiB\n"
            "Free (according to CUDA): 600.00 MiB\n"
            "PyTorch limit (set by user-supplied memory fraction)\n"
            "                        : 300.00 MiB");
  EXPECT_EQ(outcome.error.requested, 300 * MiB);
  EXPECT_EQ(outcome.error.limit, 300 * MiB);
  EXPECT_EQ(outcome.error.allocated, 1000u);
  EXPECT_EQ(with.take_calls(), "");
  with.allocate(300 * MiB - 1000);
}

TEST(AsyncAllocate, NamesNoLimitAsTheReferenceDoes) {
  Async with({.release = CACHALOT_RELEASE_2_11, .capacity = 10 * MiB});
  const std::string text = with.try_allocate(20 * MiB).message();
  EXPECT_NE(text.find(": 17179869184.00 GiB"), text.npos) << text;
  EXPECT_EQ(with.take_calls(), "malloc_async 20M 0 oom");
  EXPECT_EQ(with.stats().num_ooms, 0);
}

// R70.
TEST(AsyncAllocate, TrimsThePoolAndRetriesSince214) {
  Async with;
  with.fail(CACHALOT_SIM_CALL_POOL_ALLOCATE, CACHALOT_DRIVER_OUT_OF_MEMORY);
  with.allocate(MiB, kOther);
  EXPECT_EQ(with.take_calls(),
            "malloc_async 1M 10 oom; stream_sync 10; pool_trim 0; malloc_async 1M 10 0");
  with.fail(CACHALOT_SIM_CALL_POOL_ALLOCATE, CACHALOT_DRIVER_OUT_OF_MEMORY, 0, 2);
  EXPECT_EQ(with.try_allocate(MiB).status, CACHALOT_ERROR_OUT_OF_MEMORY);
  with.take_calls();
  with.fail(CACHALOT_SIM_CALL_POOL_ALLOCATE, CACHALOT_DRIVER_OUT_OF_MEMORY);
  with.fail(CACHALOT_SIM_CALL_SYNCHRONIZE, 719);
  EXPECT_EQ(with.try_allocate(MiB).error.driver_code, 719);
  EXPECT_EQ(with.take_calls(), "malloc_async 1M 0 oom; stream_sync 0 error 719");
}

TEST(AsyncAllocate, LeavesEverythingAsItWasAfterADriverError) {
  Async with;
  with.fail(CACHALOT_SIM_CALL_POOL_ALLOCATE, 700);
  EXPECT_EQ(with.try_allocate(MiB).error.driver_code, 700);
  EXPECT_EQ(with.take_calls(), "malloc_async 1M 0 error 700") << "no retry";
  EXPECT_EQ(with.stats().allocated_bytes.all.current, 0);
}

// ---- Free [async 3]

TEST(AsyncFree, GoesToTheStreamOfCreation) {
  Async with;
  const cachalot_address block = with.allocate(1000, kOther);
  with.take_calls();
  with.free(block);
  EXPECT_EQ(with.take_calls(), "free_async 0 10");
}

TEST(AsyncFree, RefusesAddressesThatAreNoBlock) {
  Async with;
  const cachalot_address block = with.allocate(1000);
  with.free(0);
  EXPECT_EQ(with.refused_free(block + 1), "invalid device pointer: 0x700000000001");
  with.free(block);
  with.take_calls();
  EXPECT_EQ(with.refused_free(block), "invalid device pointer: 0x700000000000");
  EXPECT_EQ(with.take_calls(), "");
}

TEST(AsyncFree, RaisesAPendingErrorAndKeepsTheBlock) {
  Async with;
  const cachalot_address block = with.allocate(1000);
  with.ok(cachalot_sim_set_pending_error(with.driver(), 700, with.error()));
  with.refused(cachalot_free(with.get(), block, with.error()), CACHALOT_ERROR_DRIVER);
  with.free(block);
}

TEST(AsyncFree, KeepsTheBlockWhenTheDriverRefuses) {
  Async with;
  const cachalot_address block = with.allocate(1000);
  with.record_stream(block, kOther);
  for (const uint32_t call : {CACHALOT_SIM_CALL_EVENT_CREATE, CACHALOT_SIM_CALL_EVENT_RECORD,
                              CACHALOT_SIM_CALL_STREAM_WAIT, CACHALOT_SIM_CALL_POOL_FREE}) {
    with.fail(call, 700);
    with.refused(cachalot_free(with.get(), block, with.error()), CACHALOT_ERROR_DRIVER);
    EXPECT_EQ(with.block(block).size, 1000u);
  }
  with.free(block);
}

TEST(AsyncFree, OfAUsedBlockComesAfterAllItsStreamsOnTheUnifyingOne) {
  Async with;
  const cachalot_address block = with.allocate(1000, kOther);
  for (const cachalot_stream stream : {kThird, kThird}) with.record_stream(block, stream);
  with.take_calls();
  with.free(block);
  EXPECT_EQ(with.take_calls(),
            "event_create; event_record 10; stream_wait 501000; event_destroy; "
            "event_create; event_record 20; stream_wait 501000; event_destroy; "
            "free_async 0 501000");
}

// Asked of PyTorch's binary.
TEST(AsyncFree, WaitsForManyStreamsInTheOrderOfTheReferencesTable) {
  Async with;
  const cachalot_address block = with.allocate(1000, 0x7000);
  for (const cachalot_stream stream : {0x9000, 0x8000, 0xd000, 0x1000, 0xa000, 0xb000, 0x2000})
    with.record_stream(block, stream);
  with.ok(cachalot_sim_log_calls(with.driver(), CACHALOT_SIM_LOG_CALLS, with.error()));
  with.take_calls();
  with.free(block);
  std::string records;
  std::istringstream calls(with.take_calls());
  for (std::string call; calls >> call;) {
    if (call == "event_record" && calls >> call) records += call;
  }
  EXPECT_EQ(records, "7000;d000;b000;9000;1000;a000;8000;2000;");
}

TEST(AsyncFree, OfAnOlderBlockDuringACaptureIsPutOffUntilTheFirstRequestAfterIt) {
  Async with;
  const cachalot_address first = with.allocate(1000);
  const cachalot_address second = with.allocate(2000, kOther);
  with.begin_pool(kPool);
  with.take_calls();
  with.free(first);
  with.free(second);
  EXPECT_EQ(with.take_log(),
            "freeAsync() was called on an uncaptured allocation during graph capture (address = "
            "0x700000000000). This may be benign, for example, a Python tensor in the capture "
            "might happen to shadow (use the same name as) an unrelated temporary tensor from "
            "somewhere before capture, pushing the earlier tensor out of scope. However, if the "
            "tensor we're freeing here IS used by the capture, freeing it is an error, and may "
            "cause illegal memory accesses or memory corruption during graph replay.")
      << "once";
  with.allocate(3000);
  with.end_pool(kPool);
  EXPECT_EQ(with.take_calls(), "malloc_async 3000 0 4M") << "no free yet";
  with.allocate(4000);
  EXPECT_EQ(with.take_calls(), "free_async 0 0; free_async 2M 10; malloc_async 4000 0 0");
}

TEST(AsyncFree, ThatWasPutOffIsTheCallersNoMore) {
  Async with;
  const cachalot_address block = with.allocate(1000);
  with.begin_pool(kPool);
  with.free(block);
  EXPECT_EQ(with.refused_free(block), "invalid device pointer: 0x700000000000");
  with.refused(cachalot_record_stream(with.get(), block, kOther, with.error()),
               CACHALOT_ERROR_INVALID_STATE);
  EXPECT_EQ(with.stats().allocated_bytes.all.current, 1000) << "but the driver's";
  with.end_pool(kPool);
}

TEST(AsyncFree, ThatWasPutOffIsTriedAgainAfterAFailure) {
  Async with;
  const cachalot_address block = with.allocate(1000);
  with.begin_pool(kPool);
  with.free(block);
  with.end_pool(kPool);
  with.fail(CACHALOT_SIM_CALL_POOL_FREE, 700);
  EXPECT_EQ(with.try_allocate(2000).error.driver_code, 700);
  with.take_calls();
  with.allocate(2000);
  EXPECT_EQ(with.take_calls(), "free_async 0 0; malloc_async 2000 0 0");
}

TEST(AsyncFree, OfACapturedBlockOutsideTheCaptureIsWarnedAboutEachTime) {
  Async with;
  with.begin_pool(kPool);
  const cachalot_address first = with.allocate(1000);
  const cachalot_address second = with.allocate(1000);
  with.end_pool(kPool);
  with.take_calls();
  with.free(first);
  with.free(second);
  EXPECT_EQ(with.take_log(),
            "Attempting uncaptured free of a captured allocation with address 0x700000000000; "
            "Attempting uncaptured free of a captured allocation with address 0x700000200000");
  EXPECT_EQ(with.take_calls(), "free_async 0 0; free_async 2M 0");
}

TEST(AsyncFree, DuringACaptureLetsTheCapturedStreamWaitAtItsEnd) {
  Async with;
  with.begin_pool(kPool);
  const cachalot_address first = with.allocate(1000, kOther);
  const cachalot_address second = with.allocate(1000, kThird);
  const cachalot_address third = with.allocate(1000, kThird);
  for (const cachalot_address block : {first, second, third}) with.free(block);
  with.take_calls();
  with.ok(cachalot_pool_end_on_stream(with.get(), 0, kPool, 0x30, with.error()));
  EXPECT_EQ(with.take_calls(),
            "event_create; event_record 20; stream_wait 30; event_destroy; "
            "event_create; event_record 10; stream_wait 30; event_destroy");
}

TEST(AsyncFree, LetsTheStreamOfTheFirstRequestWaitWhereNoneIsNamed) {
  Async with;
  with.begin_pool(kPool);
  const cachalot_address block = with.allocate(1000, kThird);
  with.allocate(1000, kOther);
  with.free(block);
  with.take_calls();
  with.end_pool(kPool);
  EXPECT_EQ(with.take_calls(), "event_create; event_record 20; stream_wait 20; event_destroy");
}

// ---- Captures [async 5]

TEST(AsyncCapture, IsOnlyOneAtATime) {
  Async with({.device_count = 2});
  with.begin_pool(kPool);
  EXPECT_EQ(with.refused(cachalot_pool_begin(with.get(), 1, kPool, nullptr, with.error()),
                         CACHALOT_ERROR_INVALID_STATE),
            "Only one capture at a time is allowed in a process.");
  with.end_pool(kPool);
  EXPECT_EQ(with.refused(cachalot_pool_end(with.get(), 0, kPool, with.error()),
                         CACHALOT_ERROR_INVALID_STATE),
            "CudaMallocAsync::notifyCaptureAboutToEnd called, but "
            "CudaMallocAsync::capture_underway is false.");
  with.release_pool(kPool);
}

TEST(AsyncCapture, IsOverAlsoWhenAStreamCannotBeJoined) {
  Async with;
  with.begin_pool(kPool);
  with.free(with.allocate(1000));
  with.fail(CACHALOT_SIM_CALL_EVENT_RECORD, 901);
  with.refused(cachalot_pool_end(with.get(), 0, kPool, with.error()), CACHALOT_ERROR_DRIVER);
  with.begin_pool(kPool);
  with.end_pool(kPool);
}

// ---- Streams [async 4]

TEST(AsyncRecordStream, OfTheBlocksOwnStreamIsWarnedAboutOnce) {
  Async with;
  const cachalot_address block = with.allocate(1000, kOther);
  with.record_stream(block, kOther);
  with.record_stream(block, kOther);
  EXPECT_EQ(with.take_log(),
            "Called record_stream on tensor whose original creation stream matches the recorded "
            "stream. This is unnecessary and has no effect.");
  with.take_calls();
  with.free(block);
  EXPECT_EQ(with.take_calls(), "free_async 0 10");
}

TEST(AsyncRecordStream, IgnoresNullAndRefusesForeignAddresses) {
  Async with;
  with.record_stream(0, kOther);
  EXPECT_EQ(with.refused(cachalot_record_stream(with.get(), 0x123, kOther, with.error()),
                         CACHALOT_ERROR_INVALID_STATE),
            "0x123 is not a live block");
}

// ---- Other calls [async 5]

TEST(AsyncFraction, IsOfTheDevicesMemoryAndNotRounded) {
  Async with({.capacity = 1001});
  EXPECT_GT(with.fraction(), 1e15) << "none is set";
  with.set_fraction(0.999);
  uint64_t limit = 0;
  with.ok(cachalot_memory_limit(with.get(), 0, &limit, with.error()));
  EXPECT_EQ(limit, 999u);
  EXPECT_DOUBLE_EQ(with.fraction(), 999.0 / 1001.0);
  with.set_fraction(1);
  EXPECT_EQ(with.try_allocate(1002).status, CACHALOT_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(with.take_calls(), "") << "1 is a limit too";
  EXPECT_EQ(with.refused(cachalot_set_memory_fraction(with.get(), 0, 1.5, with.error()),
                         CACHALOT_ERROR_INVALID_ARGUMENT),
            "invalid fraction:1.5. Please set within (0, 1).");
  EXPECT_DOUBLE_EQ(with.fraction(), 1);
}

TEST(AsyncFraction, IsNotReadFromTheOptions) {
  Async with({.config = "per_process_memory_fraction:0.5"});
  EXPECT_GT(with.fraction(), 1e6);
}

TEST(AsyncEmptyCache, TrimsThePoolAfterAllWork) {
  Async with;
  with.free(with.allocate(MiB));
  EXPECT_EQ(with.reserved(), MiB);
  with.take_calls();
  with.empty_pool(kPool);
  EXPECT_EQ(with.take_calls(), "device_sync; pool_trim 0");
  EXPECT_EQ(with.reserved(), 0u);
}

TEST(AsyncCaching, CannotBeSwitchedOff) {
  Async with;
  with.ok(cachalot_set_caching_enabled(with.get(), 0, with.error()));
  EXPECT_EQ(cachalot_is_caching_enabled(with.get()), 1);
  with.allocate(MiB);
  EXPECT_EQ(with.take_calls(), "malloc_async 1M 0 0");
}

TEST(AsyncLargestBlock, ThatTheDriverDidNotTakeBackIsGivenBackAtTheEnd) {
  SimAllocator with(SimSetup{.capacity = 20 * MiB});
  cachalot_allocator_options options = {};
  options.struct_size = sizeof options;
  options.driver = with.driver();
  options.config = "backend:cudaMallocAsync";
  cachalot_allocator* async = nullptr;
  with.ok(cachalot_allocator_create(&options, &async, with.error()));
  uint64_t size = 0;
  with.fail(CACHALOT_SIM_CALL_POOL_FREE, 700);
  with.refused(cachalot_largest_block(async, 0, 0, &size, with.error()), CACHALOT_ERROR_DRIVER);
  with.take_calls();
  with.ok(cachalot_allocator_destroy(async, with.error()));
  EXPECT_NE(with.take_calls().find("free_async"), std::string::npos);
}

TEST(AsyncLargestBlock, ThatTheDriverDidNotTakeBackIsGivenBackWithTheCache) {
  Async with({.capacity = 20 * MiB});
  with.search_and_keep_the_trial_block();
  EXPECT_EQ(cachalot_memory_allocated(with.get(), 0), 20 * MiB);
  with.fail(CACHALOT_SIM_CALL_POOL_FREE, 700);
  with.ok(cachalot_empty_cache(with.get(), with.error()));
  EXPECT_EQ(cachalot_memory_allocated(with.get(), 0), 20 * MiB) << "the driver refuses again";
  with.ok(cachalot_empty_cache(with.get(), with.error()));
  EXPECT_EQ(cachalot_memory_allocated(with.get(), 0), 0u);
  EXPECT_EQ(cachalot_memory_reserved(with.get(), 0), 0u);
}

TEST(AsyncLargestBlock, ThatTheDriverDidNotTakeBackIsGivenBackBeforeARequestFails) {
  Async with({.capacity = 20 * MiB});
  with.search_and_keep_the_trial_block();
  with.allocate(20 * MiB);
}

TEST(AsyncLargestBlock, IsFoundByTrial) {
  Async with({.capacity = 64 * MiB});
  with.allocate(24 * MiB);
  with.take_calls();
  with.fail(CACHALOT_SIM_CALL_POOL_ALLOCATE, CACHALOT_DRIVER_OUT_OF_MEMORY);
  EXPECT_EQ(with.largest(kOther), 20 * MiB);
  EXPECT_EQ(with.take_calls(),
            "malloc_async 40M 10 oom; malloc_async 20M 10 24M; free_async 24M 10");
  with.set_fraction(0.5);
  with.take_calls();
  EXPECT_EQ(with.largest(), 8 * MiB) << "up to the limit";
  with.fail(CACHALOT_SIM_CALL_POOL_ALLOCATE, CACHALOT_DRIVER_OUT_OF_MEMORY, 0, 100);
  EXPECT_EQ(with.largest(), 0u) << "and it ends";
  with.set_fraction(0.1);
  with.take_calls();
  EXPECT_EQ(with.largest(), 0u) << "the limit is below what is used";
  EXPECT_EQ(with.take_calls(), "");
}

TEST(AsyncBaseAllocation, IsTheBlockItself) {
  Async with;
  const cachalot_address block = with.allocate(1000);
  cachalot_address base = 0;
  uint64_t size = 0;
  with.ok(cachalot_base_allocation(with.get(), block, &base, &size, with.error()));
  EXPECT_EQ(base, block);
  EXPECT_EQ(size, 1000u);
  with.refused(cachalot_base_allocation(with.get(), block + 1, &base, &size, with.error()),
               CACHALOT_ERROR_INVALID_ARGUMENT);
}

TEST(AsyncPeerAccess, IsOfThePeersPool) {
  Async with({.device_count = 2});
  with.ok(cachalot_enable_peer_access(with.get(), 0, 1, with.error()));
  EXPECT_EQ(with.take_calls(), "pool_access 1 0");
}

TEST(AsyncRefusals, NameTheBackend) {
  Async with;
  const auto text = [](const char* call) {
    return std::string("cudaMallocAsync does not yet support ") + call +
           ". If you need it, please file an issue describing your use case.";
  };
  int32_t number = 0;
  EXPECT_EQ(with.not_supported(cachalot_pool_create(with.get(), 0, kPool, nullptr, with.error())),
            text("createOrIncrefPool"));
  EXPECT_EQ(
      with.not_supported(cachalot_pool_use_count(with.get(), 0, kPool, &number, with.error())),
      text("getPoolUseCount"));
  EXPECT_EQ(with.not_supported(cachalot_pool_set_use_on_oom(with.get(), 0, kPool, 1, with.error())),
            text("setUseOnOOM"));
  EXPECT_EQ(with.not_supported(cachalot_pool_set_no_split(with.get(), 0, kPool, with.error())),
            text("setNoSplit"));
  EXPECT_EQ(with.not_supported(cachalot_pool_set_pinned(with.get(), 0, kPool, 1, with.error())),
            text("setPinned"));
  const char* const kPins =
      "backend:cudaMallocAsync cannot pin: the driver's pool keeps its memory to itself";
  EXPECT_EQ(with.not_supported(cachalot_pin(with.get(), 512, 1, with.error())), kPins);
  EXPECT_EQ(with.not_supported(cachalot_unpin(with.get(), 512, 1, with.error())), kPins);
  EXPECT_EQ(with.not_supported(
                cachalot_pool_has_live(with.get(), 0, kPool, nullptr, 0, &number, with.error())),
            text("checkPoolLiveAllocations"));
  cachalot_history_options history = {};
  history.struct_size = sizeof history;
  EXPECT_EQ(with.not_supported(cachalot_record_history(with.get(), &history, with.error())),
            text("recordHistory"));
  const auto watch = [](void*, const cachalot_trace_entry*) {};
  EXPECT_EQ(with.not_supported(
                cachalot_observe_trace(with.get(), watch, nullptr, nullptr, nullptr, with.error())),
            text("attachAllocatorTraceTracker"));
  const auto hear = [](void*, const cachalot_out_of_memory*) {};
  EXPECT_EQ(with.not_supported(cachalot_observe_out_of_memory(with.get(), hear, nullptr, nullptr,
                                                              nullptr, with.error())),
            text("attachOutOfMemoryObserver"));
  const auto reject = [](void*, const cachalot_rejection*) {};
  EXPECT_EQ(with.not_supported(cachalot_observe_rejection(with.get(), reject, nullptr, nullptr,
                                                          nullptr, with.error())),
            text("attachOomRejectionObserver"))
      << "R72";
  size_t count = 0;
  EXPECT_EQ(with.not_supported(
                cachalot_expandable_segments(with.get(), 0, nullptr, 0, &count, with.error())),
            "CUDAMallocAsyncAllocator does not yet support getExpandableSegmentSizes.");
  cachalot_snapshot* none = nullptr;
  EXPECT_EQ(with.not_supported(cachalot_snapshot_take(with.get(), nullptr, &none, with.error()))
                .rfind("Calling snapshot with backend:cudaMallocAsync is not meaningful.", 0),
            0u);
}

TEST(AsyncRefusals, OfAllocationAtAnAddressComeBeforeAnyCall) {
  Async with;
  cachalot_request request = {};
  request.struct_size = sizeof request;
  request.at = 512;
  cachalot_address address = 0;
  with.not_supported(cachalot_allocate_with(with.get(), &request, &address, with.error()));
  EXPECT_EQ(with.take_calls(), "");
}

TEST(AsyncAnnotations, AreWarnedAboutOnce) {
  Async with;
  with.ok(cachalot_annotate(with.get(), 0x123, "text", with.error()));
  with.ok(cachalot_annotate(with.get(), 0x123, "text", with.error()));
  EXPECT_EQ(with.take_log().rfind("cudaMallocAsync does not support memory annotations", 0), 0u);
  uint64_t context = 7;
  with.ok(cachalot_context_of(with.get(), with.allocate(1000), &context, with.error()));
  EXPECT_EQ(context, 0u);
}

// ---- Statistics [async 6]

TEST(AsyncStats, AreThePoolsOwn) {
  Async with({.release = CACHALOT_RELEASE_2_11});
  const cachalot_address block = with.allocate(3 * MiB);
  with.allocate(MiB);
  with.free(block);
  with.ok(cachalot_sim_set_graph_memory(with.driver(), 0, 5 * MiB, 7 * MiB, with.error()));
  const cachalot_stats stats = with.stats();
  for (const cachalot_stat& stat : {stats.allocated_bytes.all, stats.active_bytes.all}) {
    EXPECT_EQ(stat.current, int64_t{MiB});
    EXPECT_EQ(stat.peak, int64_t{4 * MiB});
    EXPECT_EQ(stat.allocated, 0);
  }
  EXPECT_EQ(stats.reserved_bytes.all.current, int64_t{4 * MiB});
  EXPECT_EQ(stats.allocation.all.current, 0);
  EXPECT_EQ(stats.num_device_alloc, 0);
  EXPECT_EQ(stats.max_split_size, 0);
}

// R71.
TEST(AsyncStats, CountGraphMemorySince214) {
  Async with;
  with.allocate(MiB);
  with.ok(cachalot_sim_set_graph_memory(with.driver(), 0, 5 * MiB, 7 * MiB, with.error()));
  with.ok(cachalot_sim_set_graph_memory(with.driver(), 0, 2 * MiB, 3 * MiB, with.error()));
  const cachalot_stats stats = with.stats();
  EXPECT_EQ(stats.allocated_bytes.all.current, int64_t{3 * MiB});
  EXPECT_EQ(stats.active_bytes.all.peak, int64_t{6 * MiB});
  EXPECT_EQ(stats.reserved_bytes.all.current, int64_t{4 * MiB});
  EXPECT_EQ(stats.reserved_bytes.all.peak, int64_t{8 * MiB});
}

TEST(AsyncStats, ResetTheHighMarksOfThePool) {
  for (const int32_t release : kReleases) {
    Async with({.release = release});
    with.free(with.allocate(MiB));
    with.take_calls();
    with.ok(cachalot_reset_peak_stats(with.get(), 0, with.error()));
    EXPECT_EQ(with.take_calls(), release == CACHALOT_RELEASE_2_11
                                     ? "pool_attribute 6 0; pool_attribute 8 0"
                                     : "pool_attribute 6 0; pool_attribute 8 0; "
                                       "graph_attribute 3 0; graph_attribute 1 0");
    EXPECT_EQ(with.stats().allocated_bytes.all.peak, 0);
  }
}

TEST(AsyncStats, HaveNoAccumulatedValuesToReset) {
  Async with;
  for (int i = 0; i < 2; i++)
    with.ok(cachalot_reset_accumulated_stats(with.get(), 0, with.error()));
  EXPECT_EQ(with.take_log(), "For backend:cudaMallocAsync, resetAccumulatedStats has no effect.");
}

TEST(AsyncStats, AnswerForADeviceWhosePoolCannotBeAskedWithTheDriversError) {
  Async with;
  with.fail(CACHALOT_SIM_CALL_POOL_ATTRIBUTE, 700);
  cachalot_stats stats = {};
  stats.struct_size = sizeof stats;
  with.refused(cachalot_get_stats(with.get(), 0, &stats, with.error()), CACHALOT_ERROR_DRIVER);
}

TEST(AsyncTotals, TellWhatThePoolHasObtained) {
  Async with({.capacity = 10 * MiB});
  with.free(with.allocate(3 * MiB));
  with.allocate(MiB);
  cachalot_device_totals totals = {};
  totals.struct_size = sizeof totals;
  with.ok(cachalot_get_device_totals(with.get(), 0, &totals, with.error()));
  EXPECT_EQ(totals.total, 10 * MiB);
  EXPECT_EQ(totals.used, MiB);
  EXPECT_EQ(totals.reserved, 3 * MiB);
}

// ---- Options [async 7, opt 4.16]

TEST(AsyncOptions, AreNotLookedAtUntilSomethingAsksForThem) {
  Async with({.config = "unknown_key:1"});
  with.allocate(MiB);
  const std::string text = "Unrecognized key 'unknown_key' in Accelerator allocator config.";
  for (int i = 0; i < 2; i++) {
    EXPECT_EQ(with.refused(cachalot_configure(with.get(), "", with.error()),
                           CACHALOT_ERROR_INVALID_ARGUMENT),
              text);
  }
  cachalot_settings settings = {};
  settings.struct_size = sizeof settings;
  EXPECT_EQ(with.refused(cachalot_get_settings(with.get(), &settings, with.error()),
                         CACHALOT_ERROR_INVALID_ARGUMENT),
            text);
}

TEST(AsyncOptions, AreReadBeforeTheFirstChange) {
  Async with({.config = "large_segment_size_mb:40,pinned_num_register_threads:4"});
  EXPECT_EQ(with.settings().large_segment_size, 40 * MiB);
  EXPECT_EQ(with.take_log(),
            "backend:cudaMallocAsync ignores max_split_size_mb,roundup_power2_divisions, and "
            "garbage_collect_threshold.");
  EXPECT_EQ(with.refused(cachalot_configure(with.get(), "max_split_size_mb:30", with.error()),
                         CACHALOT_ERROR_INVALID_ARGUMENT),
            "CachingAllocator option max_split_size_mb too small, must be >= 40");
}

TEST(AsyncOptions, AreWarnedAboutWhereAStringNamesTheBackendAndAnotherOfItsPart) {
  Async with;
  with.configure("backend:cudaMallocAsync,max_split_size_mb:64");
  with.configure("release_lock_on_cudamalloc:True");
  EXPECT_EQ(with.take_log(), "");
  with.configure("release_lock_on_cudamalloc:True,backend:cudaMallocAsync");
  EXPECT_EQ(with.take_log(),
            "backend:cudaMallocAsync ignores max_split_size_mb,roundup_power2_divisions, and "
            "garbage_collect_threshold.");
}

// ---- Lifetimes and threads

TEST(AsyncAllocator, IsNotDestroyedWithLiveBlocks) {
  Async with;
  const cachalot_address block = with.allocate(1000);
  EXPECT_EQ(with.refused(cachalot_allocator_destroy(with.get(), with.error()),
                         CACHALOT_ERROR_INVALID_STATE),
            "1 block is still live");
  with.free(block);
}

TEST(AsyncAllocator, GivesEverythingBackInTheEnd) {
  cachalot_sim_options sim = {};
  sim.struct_size = sizeof sim;
  cachalot_driver* driver = nullptr;
  cachalot_error error = CACHALOT_ERROR_INIT;
  ASSERT_EQ(cachalot_sim_create(&sim, &driver, &error), CACHALOT_OK);
  cachalot_allocator_options options = {};
  options.struct_size = sizeof options;
  options.driver = driver;
  options.config = kAsync;
  cachalot_allocator* allocator = nullptr;
  ASSERT_EQ(cachalot_allocator_create(&options, &allocator, &error), CACHALOT_OK);
  cachalot_address block = 0;
  for (const uint64_t size : {MiB, 2 * MiB})
    ASSERT_EQ(cachalot_allocate(allocator, size, 0, 0, &block, &error), CACHALOT_OK);
  ASSERT_EQ(cachalot_pool_begin(allocator, 0, kPool, nullptr, &error), CACHALOT_OK);
  ASSERT_EQ(cachalot_free(allocator, block, &error), CACHALOT_OK) << "put off";
  ASSERT_EQ(cachalot_sim_log_calls(driver, CACHALOT_SIM_LOG_CALLS, &error), CACHALOT_OK);
  EXPECT_EQ(cachalot_allocator_destroy_all(allocator, &error), CACHALOT_OK);
  char text[512];
  ASSERT_EQ(cachalot_sim_read_calls(driver, text, sizeof text, nullptr, &error), CACHALOT_OK);
  const std::string calls = text;
  EXPECT_EQ(calls.rfind("device_sync\n", 0), 0u) << calls;
  EXPECT_NE(calls.find("free_async 700000000000 0"), calls.npos) << calls;
  EXPECT_NE(calls.find("free_async 700000200000 0"), calls.npos) << calls;
  EXPECT_NE(calls.find("pool_trim 0"), calls.npos) << calls;
  cachalot_driver_destroy(driver);
}

TEST(AsyncAllocator, ServesManyThreads) {
  Async with({.device_count = 2});
  std::atomic<int> failures{0};
  const auto work = [&](int32_t device, cachalot_stream stream) {
    for (uint64_t size = 1; size <= 300; size++) {
      cachalot_address block = 0;
      failures += cachalot_allocate(with.get(), size, device, stream, &block, nullptr) != 0;
      failures += cachalot_record_stream(with.get(), block, kOther, nullptr) != 0;
      failures += cachalot_free(with.get(), block, nullptr) != 0;
    }
  };
  std::thread threads[] = {std::thread(work, 0, 0x100), std::thread(work, 1, 0x200),
                           std::thread(work, 0, 0x300), std::thread(work, 1, 0x400)};
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failures, 0);
  EXPECT_EQ(with.stats(0).allocated_bytes.all.current, 0);
  EXPECT_EQ(with.stats(1).allocated_bytes.all.current, 0);
}

}  // namespace
}  // namespace cachalot_test
