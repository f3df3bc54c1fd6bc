// SPDX-License-Identifier: MIT OR Apache-2.0
// Memory between processes as PyTorch shares it [core 23.2, exp 7, R60 to R63, U14, U15]. Real processes: share_test.cpp.
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <thread>
#include <vector>

#include "sim_fixture.h"

namespace cachalot_test {
namespace {

constexpr const char* kPages = "expandable_segments:True";

struct Shared {
  std::string bytes;
  uint64_t offset = 0;
};

Shared share(SimAllocator& of, cachalot_address address) {
  Shared shared{std::string(4096, '\0'), 0};
  size_t size = 0;
  of.ok(cachalot_share(of.get(), address, shared.bytes.data(), shared.bytes.size(), &size,
                       &shared.offset, of.error()));
  shared.bytes.resize(size);
  return shared;
}

cachalot_address open(SimAllocator& in, const Shared& shared, int32_t device = 0) {
  cachalot_address address = 0;
  in.ok(cachalot_open_shared(in.get(), device, shared.bytes.data(), shared.bytes.size(), &address,
                             in.error()));
  return address;
}

void close(SimAllocator& in, cachalot_address address) {
  in.ok(cachalot_close_shared(in.get(), address, in.error()));
}

std::string refusal(SimAllocator& in, const std::string& bytes, cachalot_status status) {
  cachalot_address address = 77;
  const std::string text = in.refused(
      cachalot_open_shared(in.get(), 0, bytes.data(), bytes.size(), &address, in.error()), status);
  EXPECT_EQ(address, 77u);
  return text;
}

template <class T>
T value_at(const std::string& bytes, size_t place) {
  T value{};
  std::memcpy(&value, bytes.data() + place, sizeof value);
  return value;
}

uint64_t opened_segments(SimAllocator& in) {
  uint64_t bytes = 0;
  uint64_t count = 0;
  in.ok(cachalot_expandable_totals(in.get(), &bytes, &count, in.error()));
  return count;
}

TEST(SharedSegment, HasTheHandleOfTheSegmentAndTheOffsetOfTheBlock) {
  for (const int32_t release : kReleases) {
    SimAllocator a(SimSetup{.release = release});
    const cachalot_address first = a.allocate(1000);
    const cachalot_address second = a.allocate(5000);
    a.take_calls();
    const Shared of_first = share(a, first);
    const Shared of_second = share(a, second);
    EXPECT_EQ(a.take_calls(), "ipc_handle 0; ipc_handle 0");
    EXPECT_EQ(of_first.bytes, of_second.bytes);
    EXPECT_EQ(of_first.bytes.size(), 66u);
    EXPECT_EQ(of_first.bytes.substr(0, 2), release == CACHALOT_RELEASE_2_11 ? "\2c" : "\3c");
    EXPECT_EQ(of_first.offset, 0u);
    EXPECT_EQ(of_second.offset, 1 * KiB);
    a.free(first);
    a.free(second);
  }
}

TEST(SharedSegment, IsOpenedOnceAndClosedByItsLastUser) {
  SimAllocator a;
  const cachalot_address block = a.allocate(1000);
  Shared shared = share(a, block);
  a.take_calls();
  const cachalot_address opened = open(a, shared);
  EXPECT_EQ(open(a, shared), opened);
  EXPECT_EQ(a.take_calls(), "ipc_open " + address_text(opened));
  shared.bytes = shared.bytes.substr(2);  // The driver's handle alone.
  EXPECT_EQ(open(a, shared), opened);
  close(a, opened);
  close(a, opened);
  EXPECT_EQ(a.take_calls(), "");
  close(a, opened);
  EXPECT_EQ(a.take_calls(), "ipc_close " + address_text(opened));
  EXPECT_EQ(cachalot_close_shared(a.get(), opened, a.error()), CACHALOT_ERROR_INVALID_ARGUMENT);
}

TEST(SharedSegment, IsOpenedOnceByItsBytesAndByItsTicket) {
  for (const int32_t release : kReleases) {
    SimAllocator a(SimSetup{.release = release});
    const cachalot_address block = a.allocate(1000);
    cachalot_shared_block* shared = nullptr;
    a.ok(cachalot_shared_block_create(a.get(), block, &shared, a.error()));
    char ticket[CACHALOT_TICKET_CAPACITY];
    a.ok(cachalot_shared_block_ticket(shared, ticket, sizeof ticket, nullptr, a.error()));
    const Shared bytes = share(a, block);
    a.take_calls();
    const cachalot_address opened = open(a, bytes);
    cachalot_opened_block* also = nullptr;
    a.ok(cachalot_opened_block_create(a.get(), 0, ticket, &also, a.error()));
    cachalot_address address = 0;
    a.ok(cachalot_opened_block_address(also, &address, nullptr, a.error()));
    EXPECT_EQ(address, opened) << release;
    EXPECT_EQ(a.take_calls(), "ipc_open " + address_text(opened)) << release;
    cachalot_opened_block_destroy(also);
    cachalot_shared_block_destroy(shared);
    close(a, opened);
  }
}

TEST(SharedPages, AreDescribedAsTheReleaseDoes) {
  for (const int32_t release : kReleases) {
    SimAllocator a(SimSetup{.config = kPages, .release = release});
    a.ok(cachalot_sim_set_fabric(a.driver(), 0, 1, 801, a.error()));
    a.allocate(15 * MiB);
    const cachalot_address block = a.allocate(30 * MiB);  // from 15 to 45 MiB
    a.take_calls();
    const Shared shared = share(a, block);
    EXPECT_EQ(a.take_calls(), "export type 1; export type 1; export type 1");
    EXPECT_EQ(shared.offset, 15 * MiB);
    EXPECT_EQ(value_at<int32_t>(shared.bytes, 2), getpid());
    EXPECT_EQ(value_at<uint64_t>(shared.bytes, 10), 20 * MiB);
    EXPECT_EQ(value_at<uint64_t>(shared.bytes, 18), 3u);
    const bool has_kind = release == CACHALOT_RELEASE_2_15;
    EXPECT_EQ(shared.bytes.size(), 26u + (has_kind ? 8 : 0) + 12);
    if (has_kind) {
      EXPECT_EQ(value_at<int32_t>(shared.bytes, 26), 1);
    }
    // U15: what is padding is 0, so that one memory has one name.
    EXPECT_EQ(value_at<uint32_t>(shared.bytes, 6), 0u);
    if (has_kind) {
      EXPECT_EQ(value_at<uint32_t>(shared.bytes, 30), 0u);
    }
    EXPECT_EQ(share(a, block).bytes, shared.bytes);
    EXPECT_EQ(a.take_calls(), "");
  }
}

TEST(OpenedPages, ReserveAsTheReleaseDoesAndAreClosedAsAWhole) {
  for (const int32_t release : kReleases) {
    SimAllocator a(SimSetup{.config = kPages, .release = release, .capacity = 800 * MiB});
    const cachalot_address block = a.allocate(30 * MiB);
    const Shared shared = share(a, block);
    a.take_calls();
    const cachalot_address opened = open(a, shared);
    const std::string at = address_text(opened);
    const std::string size = release == CACHALOT_RELEASE_2_15 ? "40M" : "900M";
    const std::string imports =
        release == CACHALOT_RELEASE_2_15 ? "import type 1" : "import type 8";
    const std::string calls = a.take_calls();
    EXPECT_EQ(calls.substr(0, calls.find("; map")),
              "reserve " + size + " " + at + "; " + imports + "; " + imports);
    EXPECT_NE(calls.find("access " + at + " 40M"), std::string::npos);
    EXPECT_EQ(opened_segments(a), 2u);
    close(a, open(a, shared));
    EXPECT_EQ(a.take_calls(), "");  // the first use is still there
    close(a, opened);
    EXPECT_EQ(a.take_calls(), "device_sync; unmap " + at + " 20M; release; unmap " +
                                  address_text(opened + 20 * MiB) + " 20M; release; unreserve " +
                                  at + " " + size);
  }
}

TEST(OpenedPages, LeaveNothingWhereACallFails) {
  for (const uint32_t call : {CACHALOT_SIM_CALL_RESERVE, CACHALOT_SIM_CALL_IMPORT,
                              CACHALOT_SIM_CALL_MAP, CACHALOT_SIM_CALL_SET_ACCESS}) {
    for (const uint64_t after : {0, 1}) {
      SimAllocator a(kPages);
      const Shared shared = share(a, a.allocate(30 * MiB));
      a.fail(call, 700, after);
      cachalot_address address = 77;
      const cachalot_status status = cachalot_open_shared(a.get(), 0, shared.bytes.data(),
                                                          shared.bytes.size(), &address, a.error());
      if (status == CACHALOT_OK) {
        EXPECT_EQ(after, 1u) << call << ": the failure has not come";
        close(a, address);
      } else {
        EXPECT_EQ(status, CACHALOT_ERROR_DRIVER) << call;
        EXPECT_EQ(address, 77u);
      }
      EXPECT_EQ(opened_segments(a), 1u) << call << " " << after;
    }
  }
}

TEST(SharedPages, ThatAreUnmappedDoNotFailIn211) {
  SimAllocator a(SimSetup{.config = kPages, .release = CACHALOT_RELEASE_2_11});
  const cachalot_address block = a.allocate(30 * MiB);
  share(a, block);
  a.free(block);
  a.empty_cache();
  EXPECT_EQ(a.take_log(),
            "differs from PyTorch: U14: unmapped pages that were shared with fabric handles");
  EXPECT_EQ(opened_segments(a), 0u);
}

TEST(SharedMemory, RefusesBytesThatAreNoHandle) {
  SimAllocator a;
  const std::string handle = share(a, a.allocate(1000)).bytes;
  const auto refused = [&](const std::string& bytes) {
    return refusal(a, bytes, CACHALOT_ERROR_INVALID_ARGUMENT);
  };
  EXPECT_EQ(refused(""), "unexpected or illformed shareable handle type");
  EXPECT_EQ(refused("\3x"), "unexpected or illformed shareable handle type");
  EXPECT_EQ(
      refused("\4" + handle.substr(1)),
      "received sharable handle from a future version of torch that this version does not know "
      "how to handle");
  EXPECT_EQ(refused(handle.substr(0, 20)), "the handle of a segment has 64 bytes, not 18");
  EXPECT_EQ(refused("\3e"), "IPC share header describes an empty expandable segment");
  std::string pages(38, '\0');
  pages[0] = 3, pages[1] = 'e', pages[18] = 1, pages[26] = 1;
  EXPECT_EQ(refused(pages), "1 pages of 0 bytes are no shared memory");
  pages[12] = 32;
  pages[18] = 2;
  EXPECT_EQ(refused(pages), "2 shared pages have handles of 8 bytes, not 4");
  pages[26] = 9;
  EXPECT_EQ(refused(pages), "Unknown Expandable_Segments_Handle_Type in IPC share header: 9");
  std::string of_segment = handle;
  of_segment[4] = 1;
  EXPECT_EQ(refusal(a, of_segment, CACHALOT_ERROR_DRIVER), "CUDA error: invalid resource handle");
}

TEST(SharedMemory, OfPagesWithoutHandlesIsRefused) {
  cachalot_driver* driver = nullptr;
  cachalot_error error = CACHALOT_ERROR_INIT;
  ASSERT_EQ(cachalot_driver_open("sim:1GiB", &driver, &error), CACHALOT_OK);
  cachalot_allocator_options options = {};
  options.struct_size = sizeof options;
  options.driver = driver;
  options.config = kPages;
  options.shareable_pages = -1;
  cachalot_allocator* allocator = nullptr;
  ASSERT_EQ(cachalot_allocator_create(&options, &allocator, &error), CACHALOT_OK);
  cachalot_driver_destroy(driver);
  cachalot_address address = 0;
  ASSERT_EQ(cachalot_allocate(allocator, MiB, 0, 0, &address, &error), CACHALOT_OK);
  size_t size = 0;
  uint64_t offset = 0;
  EXPECT_EQ(cachalot_share(allocator, address, nullptr, 0, &size, &offset, &error),
            CACHALOT_ERROR_INVALID_STATE);
  EXPECT_EQ(std::string(error.message).substr(0, 60),
            "Cannot share an expandable_segments allocation: IPC handles ");
  cachalot_allocator_destroy_all(allocator, nullptr);
}

TEST(SharedMemory, IsNoneOfCudaMallocAsync) {
  SimAllocator a("backend:cudaMallocAsync");
  const cachalot_address block = a.allocate(1000);
  size_t size = 0;
  uint64_t offset = 0;
  EXPECT_EQ(
      a.refused(cachalot_share(a.get(), block, nullptr, 0, &size, &offset, a.error()),
                CACHALOT_ERROR_NOT_SUPPORTED),
      "cudaMallocAsync does not yet support shareIpcHandle. If you need it, please file an issue "
      "describing your use case.");
  cachalot_shared_block* shared = nullptr;
  EXPECT_EQ(cachalot_shared_block_create(a.get(), block, &shared, a.error()),
            CACHALOT_ERROR_NOT_SUPPORTED);
}

TEST(SharedBlockOfAPool, KeepsACheckpointFromBeingRestored) {
  constexpr cachalot_pool_id kPool = SimAllocator::user_pool(1);
  SimAllocator a;
  a.create_pool(kPool);
  a.begin_pool(kPool);
  const cachalot_address block = a.allocate(1000);
  cachalot_checkpoint* checkpoint = nullptr;
  a.ok(cachalot_checkpoint_take(a.get(), 0, kPool, &checkpoint, a.error()));
  cachalot_shared_block* shared = nullptr;
  a.ok(cachalot_shared_block_create(a.get(), block, &shared, a.error()));
  EXPECT_EQ(cachalot_checkpoint_apply(a.get(), 0, checkpoint, nullptr, a.error()),
            CACHALOT_ERROR_INVALID_STATE);
  EXPECT_EQ(cachalot_free(a.get(), block, a.error()), CACHALOT_ERROR_INVALID_STATE);
  cachalot_shared_block_destroy(shared);
  EXPECT_EQ(cachalot_free(a.get(), block, a.error()), CACHALOT_ERROR_INVALID_ARGUMENT);
  cachalot_checkpoint_destroy(checkpoint);
  a.end_pool(kPool);
}

TEST(SharedBlockHandles, OutliveTheirAllocator) {
  cachalot_shared_block* shared = nullptr;
  cachalot_opened_block* opened = nullptr;
  cachalot_error error = CACHALOT_ERROR_INIT;
  char ticket[CACHALOT_TICKET_CAPACITY];
  {
    SimAllocator a;
    a.ok(cachalot_shared_block_create(a.get(), a.allocate(1000), &shared, a.error()));
    a.ok(cachalot_shared_block_ticket(shared, ticket, sizeof ticket, nullptr, a.error()));
    a.ok(cachalot_opened_block_create(a.get(), 0, ticket, &opened, a.error()));
    EXPECT_EQ(cachalot_shared_block_users(shared), 1u);
    EXPECT_EQ(cachalot_allocator_destroy(a.get(), a.error()), CACHALOT_ERROR_INVALID_STATE);
  }
  cachalot_address address = 0;
  EXPECT_EQ(cachalot_opened_block_address(opened, &address, nullptr, &error),
            CACHALOT_ERROR_INVALID_STATE);
  EXPECT_EQ(cachalot_opened_block_has_sharer(opened), 0);
  EXPECT_EQ(cachalot_shared_block_users(shared), 0u);
  cachalot_opened_block_destroy(opened);
  cachalot_shared_block_destroy(shared);
}

TEST(SharedBlockThreads, ShareOpenAndEndAtOnce) {
  SimAllocator a(SimSetup{.check_every_call = false});
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; i++) {
    threads.emplace_back([&] {
      for (int round = 0; round < 50; round++) {
        cachalot_error error = CACHALOT_ERROR_INIT;
        cachalot_address block = 0;
        cachalot_shared_block* shared = nullptr;
        cachalot_opened_block* opened = nullptr;
        char ticket[CACHALOT_TICKET_CAPACITY] = "";
        EXPECT_EQ(cachalot_allocate(a.get(), 3 * MiB, 0, 0, &block, &error), CACHALOT_OK);
        EXPECT_EQ(cachalot_shared_block_create(a.get(), block, &shared, &error), CACHALOT_OK);
        cachalot_shared_block_ticket(shared, ticket, sizeof ticket, nullptr, &error);
        EXPECT_EQ(cachalot_opened_block_create(a.get(), 0, ticket, &opened, &error), CACHALOT_OK);
        EXPECT_EQ(cachalot_shared_block_users(shared), 1u);
        if (round % 2 != 0) cachalot_shared_block_destroy(shared);
        cachalot_opened_block_destroy(opened);
        if (round % 2 == 0) cachalot_shared_block_destroy(shared);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int i = 0; i < 1000 && a.stats().allocation.all.current != 0; i++)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_EQ(a.stats().allocation.all.current, 0);
}

}  // namespace
}  // namespace cachalot_test
