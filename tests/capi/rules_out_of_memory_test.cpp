// SPDX-License-Identifier: MIT OR Apache-2.0
// What a request that cannot be served leaves: texts, numbers, counters, observers [core 16, R31,
// R80 to R82].
#include <unistd.h>

#include <utility>

#include "sim_fixture.h"

namespace cachalot_test {
namespace {

const std::string kAdvice =
    " If reserved but unallocated memory is large try setting "
    "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.  See documentation "
    "for Memory Management  (https://docs.pytorch.org/docs/stable/notes/cuda.html"
    "#optimizing-memory-usage-with-pytorch-cuda-alloc-conf)";

const std::string kExpandableAdvice =
    " expandable_segments is enabled. If instead the process is running out of virtual address "
    "space (VSZ), expandable segments may be over-reserving VA (each segment reserves ~9/8 of "
    "device memory, times the number of streams); reduce it via PYTORCH_CUDA_ALLOC_CONF "
    "expandable_segments_reserve / expandable_segments_reserve_by_class.";

// The reference's text of a request that must fail; our line behind it is remedies_test.cpp's.
std::string text_of(SimAllocator& with, uint64_t size, cachalot_stream stream = 0) {
  const Outcome outcome = with.try_allocate(size, stream);
  EXPECT_EQ(outcome.status, CACHALOT_ERROR_OUT_OF_MEMORY);
  return outcome.reference_text();
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

void add_process(SimAllocator& with, uint64_t pid, uint64_t used) {
  with.ok(cachalot_sim_add_process(with.driver(), 0, pid, used, with.error()));
}

// ---- The text [core 16.2, 16.3]

TEST(OutOfMemoryText, NamesTheSegmentAndTheDevice) {
  for (const int32_t release : kReleases) {
    SimAllocator with(SimSetup{.release = release, .capacity = 600 * MiB});
    with.allocate(30 * MiB);
    with.cache({20});
    with.allocate(5 * MiB, 0x10);
    EXPECT_EQ(text_of(with, 700000000),
              std::string(
                  "CUDA out of memory. Tried to allocate 668.00 MiB. GPU 0 has a total capacity of "
                  "600.00 MiB of which 550.00 MiB is free. Of the allocated memory 35.00 MiB is "
                  "allocated by PyTorch, and 15.00 MiB is reserved by PyTorch but unallocated.") +
                  kAdvice);
  }
}

TEST(OutOfMemoryText, NamesTheProcessesThatTheDeviceKnows) {
  SimAllocator with(SimSetup{.capacity = 600 * MiB});
  add_process(with, static_cast<uint64_t>(getpid()), 610 * MiB);
  add_process(with, 4242, GiB);
  add_process(with, 4243, 500);
  EXPECT_TRUE(contains(text_of(with, 700 * MiB),
                       "600.00 MiB is free. Including non-PyTorch memory, this process has 610.00 "
                       "MiB memory in use. Process 4242 has 1024.00 MiB memory in use. Process "
                       "4243 has 500 bytes memory in use. Of the allocated memory 0 bytes is"));
}

// The same numbers in the same places.
TEST(OutOfMemoryText, HasNoWordOfPyTorchWhereTextsAreTheLibrarysOwn) {
  SimAllocator with(SimSetup{.capacity = 600 * MiB, .texts = CACHALOT_TEXTS_OWN});
  add_process(with, static_cast<uint64_t>(getpid()), 610 * MiB);
  with.allocate(30 * MiB);
  with.cache({20});
  EXPECT_EQ(text_of(with, 700000000),
            "CUDA out of memory. Tried to allocate 668.00 MiB. GPU 0 has a total capacity of "
            "600.00 MiB of which 570.00 MiB is free. Including memory of other libraries, this "
            "process has 610.00 MiB memory in use. Of the allocated memory 30.00 MiB is allocated "
            "by this process, and 0 bytes is reserved by this process but unallocated. If reserved "
            "but unallocated memory is large, set CACHALOT_ALLOC_CONF=expandable_segments:True to "
            "avoid fragmentation.");
  with.configure("expandable_segments:True");
  EXPECT_TRUE(contains(text_of(with, 700 * MiB), "reduce it via CACHALOT_ALLOC_CONF expandable"));
  with.configure("expandable_segments:True,expandable_segments_reserve:0.0001");
  EXPECT_TRUE(contains(text_of(with, 300 * MiB), "Raise CACHALOT_ALLOC_CONF expandable"));
}

TEST(OutOfMemoryText, NamesTheLimit) {
  SimAllocator with(SimSetup{.capacity = 600 * MiB});
  with.set_limit(300 * MiB);
  EXPECT_TRUE(contains(text_of(with, 400 * MiB),
                       "600.00 MiB is free. 300.00 MiB allowed; Of the allocated memory"));
}

TEST(OutOfMemoryText, CountsWhatPrivatePoolsCacheAsAllocated) {
  SimAllocator with(SimSetup{.capacity = 600 * MiB});
  with.cache_in_pool(SimAllocator::user_pool(1), {20, 10});
  with.allocate(20 * MiB);
  EXPECT_TRUE(contains(text_of(with, 600 * MiB),
                       "Of the allocated memory 50.00 MiB is allocated by PyTorch, with 30.00 MiB "
                       "allocated in private pools (e.g., CUDA Graphs), and 0 bytes is reserved by "
                       "PyTorch but unallocated."));
}

TEST(OutOfMemoryText, WritesSizesInTheReferencesUnits) {
  const std::pair<uint64_t, const char*> cases[] = {
      {1, "of 1 bytes of"},       {1024, "of 1024 bytes of"},  {1025, "of 1.00 KiB of"},
      {MiB, "of 1024.00 KiB of"}, {MiB + 1, "of 1.00 MiB of"},
  };
  for (const auto& [capacity, expected] : cases) {
    SimAllocator with(SimSetup{.capacity = capacity});
    EXPECT_TRUE(contains(text_of(with, 512), expected)) << text_of(with, 512);
  }
  SimAllocator with(SimSetup{.capacity = 10 * GiB});
  with.set_limit(0);
  EXPECT_TRUE(contains(text_of(with, GiB), "Tried to allocate 1024.00 MiB. "));
  EXPECT_TRUE(contains(text_of(with, GiB + 512 * MiB), "Tried to allocate 1.50 GiB. "));
  EXPECT_TRUE(contains(text_of(with, 512), "Tried to allocate 2.00 MiB. "));
}

TEST(OutOfMemoryText, OfExpandableSegmentsAdvisesOtherwiseIn215) {
  for (const int32_t release : kReleases) {
    SimAllocator with(
        SimSetup{.config = "expandable_segments:True", .release = release, .capacity = 100 * MiB});
    const std::string text = text_of(with, 110 * MiB);
    const bool is_old = release == CACHALOT_RELEASE_2_11;
    EXPECT_TRUE(text.ends_with(std::string("reserved by PyTorch but unallocated.") +
                               (is_old ? kAdvice : kExpandableAdvice)))
        << text;
  }
}

TEST(OutOfMemoryText, BlamesAReserveThatIsTooSmall) {
  SimAllocator with(SimSetup{.config = "expandable_segments:True,expandable_segments_reserve:0.1,"
                                       "expandable_segments_reserve_by_class:[tiny:0.05]",
                             .capacity = 1000 * MiB});
  const std::string raise =
      ", and a single allocation cannot span expandable segments. Raise PYTORCH_CUDA_ALLOC_CONF "
      "expandable_segments_reserve or expandable_segments_reserve_by_class (or unset it) so that a "
      "segment is at least 200.00 MiB.";
  EXPECT_TRUE(text_of(with, 200 * MiB)
                  .ends_with(" This allocation exceeds the expandable-segment reserve of 100.00 "
                             "MiB for this stream" +
                             raise));
  with.ok(cachalot_set_reserve_class(with.get(), 0x10, "tiny", with.error()));
  EXPECT_TRUE(text_of(with, 200 * MiB, 0x10)
                  .ends_with(" This allocation exceeds the expandable-segment reserve of 50.00 MiB "
                             "for stream reserve class 'tiny'" +
                             raise));
  EXPECT_TRUE(text_of(with, 1100 * MiB).ends_with(kExpandableAdvice))
      << "more than the device has is not the reserve's fault";
}

// ---- Numbers and counters [core 16.1, 16.4]

TEST(OutOfMemoryError, HasAllNumbers) {
  SimAllocator with(SimSetup{.capacity = 600 * MiB, .device_count = 2});
  with.allocate(30 * MiB);
  with.allocate(5 * MiB);
  with.cache_in_pool(SimAllocator::user_pool(1), {40});
  with.set_limit(500 * MiB);
  const Outcome outcome = with.try_allocate(500 * MiB + 1000, 0x10);
  const cachalot_error& error = outcome.error;
  EXPECT_EQ(error.status, CACHALOT_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(error.driver_code, 0);
  EXPECT_EQ(error.requested, 500 * MiB + 1000);
  EXPECT_EQ(error.segment_size, 502 * MiB);
  EXPECT_EQ(error.device_free, 510 * MiB);
  EXPECT_EQ(error.device_total, 600 * MiB);
  EXPECT_EQ(error.limit, 500 * MiB);
  EXPECT_EQ(error.allocated, 35 * MiB);
  EXPECT_EQ(error.reserved, 90 * MiB);
  EXPECT_EQ(error.private_pools_free, 40 * MiB);
  EXPECT_EQ(error.largest_free_block, 40 * MiB);
  EXPECT_EQ(error.stream, 0x10u);
  EXPECT_EQ(error.device, 0);

  const Outcome other = with.try_allocate(700 * MiB, 0, 1);
  EXPECT_EQ(other.error.device, 1);
  EXPECT_EQ(other.error.limit, 0u);
  EXPECT_TRUE(contains(other.message(), "GPU 1 has a total capacity"));
}

TEST(OutOfMemoryError, OnOneDeviceLeavesTheOtherAlone) {
  SimAllocator with(SimSetup{.capacity = 100 * MiB, .device_count = 2});
  with.allocate(100 * MiB, 0, 0);
  EXPECT_EQ(with.try_allocate(20 * MiB, 0, 0).status, CACHALOT_ERROR_OUT_OF_MEMORY);
  with.allocate(100 * MiB, 0, 1);
  EXPECT_EQ(with.stats(1).num_ooms, 0);
}

TEST(OutOfMemoryError, IsTracedWithTheFreeBytesAndTheRoundedSize) {
  SimAllocator with(SimSetup{.capacity = 100 * MiB});
  with.allocate(60 * MiB);
  with.watch();
  text_of(with, 50 * MiB + 1, 0x10);
  EXPECT_EQ(with.take_trace(), "oom 40M 52429312 @10") << "50 MiB + 512, not the segment's 52 MiB";
}

TEST(OutOfMemoryError, CountsAndLeavesTheAllocatorUsable) {
  SimAllocator with(SimSetup{.capacity = 100 * MiB});
  for (int i = 1; i <= 3; i++) {
    text_of(with, 200 * MiB);
    EXPECT_EQ(with.stats().num_ooms, i);
    EXPECT_EQ(with.stats().num_alloc_retries, i);
  }
  with.allocate(100 * MiB);
  EXPECT_EQ(with.stats().allocation.all.allocated, 1);
}

// ---- Observers [core 16.1]

// Writes what it sees into one list.
struct Witness {
  SimAllocator* with;
  std::string name;
  std::vector<std::string>* seen;

  static void see_trace(void* user_data, const cachalot_trace_entry* entry) {
    auto& self = *static_cast<Witness*>(user_data);
    self.seen->push_back(self.name + " " + cachalot_action_name(entry->action));
  }

  static void see_out_of_memory(void* user_data, const cachalot_out_of_memory* numbers) {
    auto& self = *static_cast<Witness*>(user_data);
    self.seen->push_back(self.name + " " + size_text(numbers->segment_size) + " of " +
                         size_text(numbers->device_free) + ", ooms " +
                         std::to_string(self.with->stats().num_ooms));
  }

  static void see_rejection(void* user_data, const cachalot_rejection* numbers) {
    auto& self = *static_cast<Witness*>(user_data);
    self.seen->push_back(self.name + " " + size_text(numbers->segment_size) + " on " +
                         size_text(numbers->reserved) + " of " + size_text(numbers->device_total));
  }
};

TEST(Observers, AreCalledInTheOrderOfTheirAttachment) {
  SimAllocator with(SimSetup{.capacity = 100 * MiB});
  std::vector<std::string> seen;
  Witness first{&with, "first", &seen};
  Witness second{&with, "second", &seen};
  Witness traced{&with, "traced", &seen};
  Witness rejected{&with, "rejected", &seen};
  uint64_t id = 0;
  with.ok(cachalot_observe_out_of_memory(with.get(), Witness::see_out_of_memory, &first, nullptr,
                                         &id, with.error()));
  with.ok(cachalot_observe_out_of_memory(with.get(), Witness::see_out_of_memory, &second, nullptr,
                                         nullptr, with.error()));
  with.ok(cachalot_observe_trace(with.get(), Witness::see_trace, &traced, nullptr, nullptr,
                                 with.error()));
  with.ok(cachalot_observe_rejection(with.get(), Witness::see_rejection, &rejected, nullptr,
                                     nullptr, with.error()));
  text_of(with, 200 * MiB);
  EXPECT_EQ(joined(seen, "; "),
            "traced oom; first 200M of 100M, ooms 1; second 200M of 100M, ooms 1")
      << "the lock is released by then, so they can ask for statistics";
  seen.clear();
  with.ok(cachalot_detach(with.get(), id, with.error()));
  text_of(with, 200 * MiB);
  EXPECT_EQ(joined(seen, "; "), "traced oom; second 200M of 100M, ooms 2");
}

// ---- Rejection (R31)

constexpr char kRejected[] =
    "CUDA out of memory. Allocation was preemptively rejected because it would exceed "
    "per_process_memory_fraction limit. Requested size: ";

TEST(Rejection, ComesBeforeTheDriverIsAsked) {
  SimAllocator with(SimSetup{.config = "throw_on_cudamalloc_oom:True", .capacity = 100 * MiB});
  std::vector<std::string> seen;
  Witness rejected{&with, "rejected", &seen};
  Witness out_of_memory{&with, "out of memory", &seen};
  with.ok(cachalot_observe_rejection(with.get(), Witness::see_rejection, &rejected, nullptr,
                                     nullptr, with.error()));
  with.ok(cachalot_observe_out_of_memory(with.get(), Witness::see_out_of_memory, &out_of_memory,
                                         nullptr, nullptr, with.error()));
  with.allocate(60 * MiB);
  with.watch();
  with.take_calls();
  EXPECT_EQ(text_of(with, 41 * MiB), kRejected + std::string("41.00 MiB"));
  EXPECT_EQ(with.take_calls(), "");
  EXPECT_EQ(with.take_trace(), "");
  EXPECT_EQ(joined(seen, "; "), "rejected 42M on 60M of 100M");
  EXPECT_EQ(with.stats().num_oom_rejections, 1);
  EXPECT_EQ(with.stats().num_ooms, 0);
  with.allocate(40 * MiB);
}

TEST(Rejection, NamesTheSizeAsAsked) {
  SimAllocator with(SimSetup{.config = "throw_on_cudamalloc_oom:True", .capacity = MiB});
  EXPECT_EQ(text_of(with, 1000), kRejected + std::string("1000 bytes"));
}

TEST(Rejection, GoesByTheOptionAndNotByTheFractionSetByCall) {
  SimAllocator with(SimSetup{.config = "throw_on_cudamalloc_oom:True", .capacity = 100 * MiB});
  with.configure("per_process_memory_fraction:0.5");
  EXPECT_EQ(text_of(with, 52 * MiB), kRejected + std::string("52.00 MiB"));
  with.configure("per_process_memory_fraction:1");
  with.ok(cachalot_set_memory_fraction(with.get(), 0, 0.5, with.error()));
  EXPECT_TRUE(contains(text_of(with, 52 * MiB), "50.00 MiB allowed; "));
}

TEST(Rejection, ComesAfterTheLimit) {
  SimAllocator with(
      SimSetup{.config = "throw_on_cudamalloc_oom:True,per_process_memory_fraction:0.5",
               .capacity = 100 * MiB});
  EXPECT_TRUE(contains(text_of(with, 52 * MiB), "50.00 MiB allowed; "));
  EXPECT_EQ(with.stats().num_oom_rejections, 0);
  EXPECT_EQ(with.stats().num_ooms, 1);
}

TEST(Rejection, OfExpandableSegmentsGoesByTheSizeOfAPlainOne) {
  SimAllocator with(SimSetup{.config = "throw_on_cudamalloc_oom:True,expandable_segments:True",
                             .capacity = 100 * MiB});
  with.allocate(90 * MiB);  // 100 MiB mapped
  with.allocate(10 * MiB);
  EXPECT_EQ(text_of(with, 512), kRejected + std::string("512 bytes"));
}

TEST(Rejection, IsNoKeyIn211) {
  SimAllocator with(SimSetup{.release = CACHALOT_RELEASE_2_11});
  EXPECT_EQ(
      with.refused(cachalot_configure(with.get(), "throw_on_cudamalloc_oom:True", with.error()),
                   CACHALOT_ERROR_INVALID_ARGUMENT),
      "Unrecognized key 'throw_on_cudamalloc_oom' in Accelerator allocator config.");
}

}  // namespace
}  // namespace cachalot_test
