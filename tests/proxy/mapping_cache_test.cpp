// SPDX-License-Identifier: MIT OR Apache-2.0
// Programs that map their memory themselves, served from a cache of mappings.
#include <gtest/gtest.h>

#include <array>
#include <random>
#include <thread>
#include <vector>

#include "recorded_program.h"

using namespace proxy_test;

namespace {

constexpr uint64_t kPage = 2 << 20;
constexpr uint64_t kGiB = uint64_t{1} << 30;
const Settings kVirtual{{"CACHALOT_RUN_VIRTUAL", "cachalot"}};

AllocationProperties of_device(int device) {
  AllocationProperties properties{};
  properties.type = 1;
  properties.location = {1, device};
  return properties;
}

struct MappedBlock {
  DeviceAddress address = 0;
  AllocationHandle handle = 0;
  uint64_t size = 0;
};

// As XLA does.
MappedBlock map_block(const Driver& driver, uint64_t size, int device = 0) {
  MappedBlock block{.size = size};
  const AllocationProperties properties = of_device(device);
  const AccessDescriptor access{{1, device}, 3};
  CHECK(driver.cuMemAddressReserve(&block.address, size, kPage, 0, 0) == 0);
  CHECK(driver.cuMemCreate(&block.handle, size, &properties, 0) == 0);
  CHECK(driver.cuMemMap(block.address, size, 0, block.handle, 0) == 0);
  CHECK(driver.cuMemSetAccess(block.address, size, &access, 1) == 0);
  return block;
}

void unmap_block(const Driver& driver, const MappedBlock& block) {
  CHECK(driver.cuMemUnmap(block.address, block.size) == 0);
  CHECK(driver.cuMemRelease(block.handle) == 0);
  CHECK(driver.cuMemAddressFree(block.address, block.size) == 0);
}

uint64_t calls_of_mapping(const Driver& driver) {
  uint64_t calls = 0;
  for (const char* const name : {"cuMemAddressReserve", "cuMemCreate", "cuMemMap", "cuMemSetAccess",
                                 "cuMemUnmap", "cuMemRelease", "cuMemAddressFree"})
    calls += driver.fake_calls(name);
  return calls;
}

TEST(MappingCache, AsksTheDriverOnceForWhatTheProgramMapsOften) {
  serve_in_silence(
      [](const Driver& driver) {
        driver.use();
        const MappedBlock first = map_block(driver, 10 * kPage);
        unmap_block(driver, first);
        for (int i = 0; i < 100; i++) {
          const MappedBlock block = map_block(driver, 10 * kPage);
          CHECK(block.address == first.address && block.handle == first.handle);
          unmap_block(driver, block);
        }
        CHECK(calls_of_mapping(driver) == 4);
      },
      kVirtual);
}

TEST(MappingCache, IsOffUnlessItIsAskedFor) {
  const std::string said = serve([](const Driver& driver) {
    driver.use();
    for (int i = 0; i < 10; i++) unmap_block(driver, map_block(driver, kPage));
    CHECK(calls_of_mapping(driver) == 70);
  });
  EXPECT_NE(said.find("not served: memory that the program maps itself"), std::string::npos)
      << said;
}

TEST(MappingCache, CannotBeBesideALimitWhichItWouldEscape) {
  const std::string said = serve(
      [](const Driver& driver) {
        driver.use();
        unmap_block(driver, map_block(driver, kPage));
      },
      {{"CACHALOT_RUN_VIRTUAL", "cachalot"}, {"CACHALOT_RUN_LIMIT", "1GiB"}});
  EXPECT_NE(
      said.find("the program is not served: CACHALOT_RUN_VIRTUAL=cachalot: expected no limit"),
      std::string::npos)
      << said;
}

TEST(MappingCache, TakesThePartsInWhateverOrderTheyComeAndGo) {
  serve_in_silence(
      [](const Driver& driver) {
        driver.use();
        unmap_block(driver, map_block(driver, kPage));
        const AllocationProperties properties = of_device(0);
        const uint64_t before = calls_of_mapping(driver);
        AllocationHandle handle = 0;
        DeviceAddress address = 0;
        CHECK(driver.cuMemCreate(&handle, kPage, &properties, 0) == 0);
        CHECK(driver.cuMemAddressReserve(&address, kPage, 0, 0, 0) == 0);
        CHECK(driver.cuMemMap(address, kPage, 0, handle, 0) == 0);
        CHECK(driver.cuMemRelease(handle) == 0);
        CHECK(driver.cuMemUnmap(address, kPage) == 0);
        CHECK(driver.cuMemAddressFree(address, kPage) == 0);
        CHECK(driver.cuMemAddressReserve(&address, kPage, 0, 0, 0) == 0);
        CHECK(driver.cuMemAddressFree(address, kPage) == 0);
        CHECK(driver.cuMemCreate(&handle, kPage, &properties, 0) == 0);
        CHECK(driver.cuMemRelease(handle) == 0);
        CHECK(calls_of_mapping(driver) == before);
      },
      kVirtual);
}

TEST(MappingCache, RefusesWhatWasGivenBackAlready) {
  serve_in_silence(
      [](const Driver& driver) {
        driver.use();
        const MappedBlock block = map_block(driver, kPage);
        CHECK(driver.cuMemRelease(block.handle) == 0);
        CHECK(driver.cuMemRelease(block.handle) != 0);
        CHECK(driver.cuMemAddressFree(block.address, kPage) != 0);  // it is mapped
        CHECK(driver.cuMemUnmap(block.address, kPage) == 0);
        CHECK(driver.cuMemUnmap(block.address, kPage) != 0);
        CHECK(driver.cuMemAddressFree(block.address, kPage) == 0);
        CHECK(driver.cuMemAddressFree(block.address, kPage) != 0);
      },
      kVirtual);
}

TEST(MappingCache, KeepsTheMemoryOfEachDeviceToIt) {
  serve_in_silence(
      [](const Driver& driver) {
        driver.use();
        const MappedBlock first = map_block(driver, kPage, 0);
        unmap_block(driver, first);
        const MappedBlock second = map_block(driver, kPage, 1);
        CHECK(second.handle != first.handle);
        CHECK(driver.fake_mapping(second.address) == second.handle);
      },
      kVirtual);
}

TEST(MappingCache, TellsTheDriverOfAccessThatItWasNotToldOf) {
  serve_in_silence(
      [](const Driver& driver) {
        driver.use();
        const MappedBlock block = map_block(driver, kPage);
        const std::array<AccessDescriptor, 2> both{{{{1, 0}, 3}, {{1, 1}, 3}}};
        CHECK(driver.cuMemSetAccess(block.address, kPage, both.data(), both.size()) == 0);
        CHECK(driver.fake_calls("cuMemSetAccess") == 2);
        unmap_block(driver, block);
        const MappedBlock again = map_block(driver, kPage);
        CHECK(driver.cuMemSetAccess(again.address, kPage, both.data(), both.size()) == 0);
        CHECK(driver.fake_calls("cuMemSetAccess") == 2);
        const AccessDescriptor readable{{1, 1}, 1};
        CHECK(driver.cuMemSetAccess(again.address, kPage, &readable, 1) == 0);
        CHECK(driver.fake_calls("cuMemSetAccess") == 3);
      },
      kVirtual);
}

// What is had by others, or mapped in parts or twice, is the driver's alone.
TEST(MappingCache, LeavesToTheDriverWhatItCannotSeeTheEndOf) {
  const std::vector<void (*)(const Driver&, const MappedBlock&)> uses = {
      [](const Driver& driver, const MappedBlock& block) {
        int file = 0;
        CHECK(driver.cuMemExportToShareableHandle(&file, block.handle, 1, 0) == 0);
      },
      [](const Driver& driver, const MappedBlock& block) {
        AllocationHandle handle = 0;
        CHECK(driver.cuMemRetainAllocationHandle(&handle, reinterpret_cast<void*>(block.address)) ==
              0);
        CHECK(driver.cuMemRelease(handle) == 0);
      },
      [](const Driver& driver, const MappedBlock& block) {
        int file = 0;
        CHECK(driver.cuMemGetHandleForAddressRange(&file, block.address + kPage, kPage, 1, 0) == 0);
      },
      [](const Driver& driver, const MappedBlock& block) {
        CHECK(driver.cuMulticastBindMem(77, 0, block.handle, 0, kPage, 0) == 0);
      },
      [](const Driver& driver, const MappedBlock& block) {
        CHECK(driver.cuMulticastBindAddr(77, 0, block.address, kPage, 0) == 0);
      },
      [](const Driver& driver, const MappedBlock&) {
        CHECK(driver.cuMemMapArrayAsync(nullptr, 0, nullptr) == 0);
      },
      [](const Driver& driver, const MappedBlock& block) {
        const AccessDescriptor access{{1, 0}, 1};
        CHECK(driver.cuMemSetAccess(block.address + kPage, kPage, &access, 1) == 0);
      },
      [](const Driver& driver, const MappedBlock& block) {
        DeviceAddress other = 0;
        CHECK(driver.cuMemAddressReserve(&other, 8 * kPage, 0, 0, 0) == 0);
        CHECK(driver.cuMemMap(other, block.size, 0, block.handle, 0) == 0);
        CHECK(driver.cuMemUnmap(other, block.size) == 0);
        CHECK(driver.cuMemAddressFree(other, 8 * kPage) == 0);
      },
  };
  for (size_t i = 0; i < uses.size(); i++) {
    SCOPED_TRACE(i);
    serve_in_silence(
        [&](const Driver& driver) {
          driver.use();
          const uint64_t before = driver.fake_used();
          const MappedBlock block = map_block(driver, 2 * kPage);
          uses[i](driver, block);
          unmap_block(driver, block);
          CHECK(driver.fake_used() == before);
        },
        kVirtual);
  }
}

TEST(MappingCache, MapsAnotherHandleWhereOneWasUnmapped) {
  serve_in_silence(
      [](const Driver& driver) {
        driver.use();
        const MappedBlock block = map_block(driver, kPage);
        const AllocationProperties properties = of_device(0);
        AllocationHandle other = 0;
        CHECK(driver.cuMemCreate(&other, kPage, &properties, 0) == 0);
        CHECK(driver.cuMemUnmap(block.address, kPage) == 0);
        CHECK(driver.cuMemMap(block.address, kPage, 0, other, 0) == 0);
        CHECK(driver.fake_mapping(block.address) == other);
        CHECK(driver.cuMemUnmap(block.address, kPage) == 0);
        CHECK(driver.cuMemMap(block.address, kPage, 0, block.handle, 0) == 0);
        CHECK(driver.fake_mapping(block.address) == block.handle);
      },
      kVirtual);
}

TEST(MappingCache, GivesItsMemoryForOtherRequestsAndCountsItAsFree) {
  serve_in_silence(
      [](const Driver& driver) {
        driver.use();
        const size_t before = free_memory(driver);
        unmap_block(driver, map_block(driver, 12 * kGiB));
        CHECK(free_memory(driver) == before);
        CHECK(allocate(driver, 8 * kGiB) != 0);
        unmap_block(driver, map_block(driver, 6 * kGiB));
        unmap_block(driver, map_block(driver, 7 * kGiB));
      },
      kVirtual);
}

TEST(MappingCache, GivesMemoryBackWhoseRangeTheProgramKeeps) {
  serve_in_silence(
      [](const Driver& driver) {
        driver.use();
        const MappedBlock block = map_block(driver, 12 * kGiB);
        CHECK(driver.cuMemUnmap(block.address, block.size) == 0);
        CHECK(driver.cuMemRelease(block.handle) == 0);
        unmap_block(driver, map_block(driver, 7 * kGiB));
        CHECK(allocate(driver, 10 * kGiB) != 0);
        MappedBlock other{.address = block.address, .size = block.size};
        const AllocationProperties properties = of_device(1);
        CHECK(driver.cuMemCreate(&other.handle, other.size, &properties, 0) == 0);
        CHECK(driver.cuMemMap(other.address, other.size, 0, other.handle, 0) == 0);
        CHECK(driver.fake_mapping(other.address) == other.handle);
        unmap_block(driver, other);
      },
      kVirtual);
}

// As vLLM lets its models sleep.
TEST(MappingCache, ServesARangeThatTheProgramHasKeptByItsFormerMemory) {
  serve_in_silence(
      [](const Driver& driver) {
        driver.use();
        MappedBlock block = map_block(driver, kPage);
        const AllocationProperties properties = of_device(0);
        for (int i = 0; i < 10; i++) {
          CHECK(driver.cuMemUnmap(block.address, block.size) == 0);
          CHECK(driver.cuMemRelease(block.handle) == 0);
          CHECK(driver.cuMemCreate(&block.handle, block.size, &properties, 0) == 0);
          CHECK(driver.cuMemMap(block.address, block.size, 0, block.handle, 0) == 0);
        }
        CHECK(calls_of_mapping(driver) == 4);
      },
      kVirtual);
}

TEST(MappingCache, GivesAddressesToWhomAsksForThem) {
  serve_in_silence(
      [](const Driver& driver) {
        driver.use();
        const uint64_t before = driver.fake_used();
        const MappedBlock first = map_block(driver, kPage);
        const MappedBlock second = map_block(driver, kPage);
        unmap_block(driver, first);
        unmap_block(driver, second);
        DeviceAddress address = 0;
        CHECK(driver.cuMemAddressReserve(&address, kPage, 0, first.address, 0) == 0);
        CHECK(address == first.address && driver.fake_calls("cuMemAddressReserve") == 2);
        CHECK(driver.cuMemAddressFree(address, kPage) == 0);
        CHECK(driver.fake_used() == before + 2 * (kPage + 1));
        // The driver is free to give them.
        CHECK(driver.cuMemAddressReserve(&address, 2 * kPage, 0, first.address, 0) == 0);
        CHECK(driver.fake_used() == before + (kPage + 1) + 1);
      },
      kVirtual);
}

TEST(MappingCache, ReservesForTheCurrentDevice) {
  serve_in_silence(
      [](const Driver& driver) {
        driver.use(0);
        const MappedBlock there = map_block(driver, kPage, 1);
        unmap_block(driver, map_block(driver, kPage, 0));
        unmap_block(driver, there);
        for (int i = 0; i < 10; i++) {
          driver.use(i % 2);
          unmap_block(driver, map_block(driver, kPage, i % 2));
        }
        CHECK(calls_of_mapping(driver) == 8);
      },
      kVirtual);
}

TEST(MappingCache, KeepsLiveMappingsWhereAContextOfTheProgramsEnds) {
  serve_in_silence(
      [](const Driver& driver) {
        driver.use();
        const MappedBlock block = map_block(driver, kPage);
        Context own = nullptr;
        CHECK(driver.cuCtxCreate_v2(&own, 0, 0) == 0);
        unmap_block(driver, map_block(driver, 2 * kPage));
        CHECK(driver.cuCtxDestroy_v2(own) == 0);
        driver.use();
        unmap_block(driver, block);
        const uint64_t calls = calls_of_mapping(driver);
        unmap_block(driver, map_block(driver, kPage));
        CHECK(calls_of_mapping(driver) == calls);
      },
      kVirtual);
}

TEST(MappingCache, MakesRoomOnTheDeviceThatIsAskedFor) {
  serve_in_silence(
      [](const Driver& driver) {
        driver.use(0);
        const MappedBlock there = map_block(driver, 12 * kGiB, 1);
        unmap_block(driver, map_block(driver, 12 * kGiB, 0));
        unmap_block(driver, there);
        unmap_block(driver, map_block(driver, 5 * kGiB, 1));
        CHECK(driver.fake_calls("cuMemCreate") == 4);  // one of them was refused
        unmap_block(driver, map_block(driver, 12 * kGiB, 0));
        CHECK(driver.fake_calls("cuMemCreate") == 4);
      },
      kVirtual);
}

TEST(MappingCache, GivesNothingBackWhileAStreamIsCaptured) {
  serve_in_silence(
      [](const Driver& driver) {
        driver.use();
        unmap_block(driver, map_block(driver, 12 * kGiB));
        const StreamHandle stream = make_stream(driver);
        Graph graph = nullptr;
        CHECK(driver.cuStreamBeginCapture_v2(stream, kRelaxedCapture) == 0);
        DeviceAddress refused = 0;
        CHECK(driver.cuMemAllocManaged(&refused, 8 * kGiB, 1) != 0);
        CHECK(driver.fake_calls("cuMemUnmap") == 0);
        CHECK(driver.cuStreamEndCapture(stream, &graph) == 0 && graph != nullptr);
        CHECK(driver.cuMemAllocManaged(&refused, 8 * kGiB, 1) == 0);
      },
      kVirtual);
}

TEST(MappingCache, TrimsWhatIsIdle) {
  serve_in_silence(
      [](const Driver& driver) {
        driver.use();
        const uint64_t before = driver.fake_used();
        unmap_block(driver, map_block(driver, kPage));
        for (int i = 0; i < 500 && driver.fake_used() != before; i++)
          std::this_thread::sleep_for(std::chrono::milliseconds(20));
        CHECK(driver.fake_used() == before);
      },
      {{"CACHALOT_RUN_VIRTUAL", "cachalot"}, {"CACHALOT_RUN_TRIM_IDLE", "1"}});
}

TEST(MappingCache, AsksAgainForAccessOfADeviceThatWasReset) {
  serve_in_silence(
      [](const Driver& driver) {
        driver.use(1);
        allocate(driver, 512);
        driver.use(0);
        const std::array<AccessDescriptor, 2> both{{{{1, 0}, 3}, {{1, 1}, 3}}};
        const MappedBlock block = map_block(driver, kPage);
        CHECK(driver.cuMemSetAccess(block.address, kPage, both.data(), both.size()) == 0);
        unmap_block(driver, block);
        CHECK(driver.cuDevicePrimaryCtxReset_v2(1) == 0);
        const MappedBlock again = map_block(driver, kPage);
        const uint64_t calls = driver.fake_calls("cuMemSetAccess");
        CHECK(driver.cuMemSetAccess(again.address, kPage, both.data(), both.size()) == 0);
        CHECK(driver.fake_calls("cuMemSetAccess") == calls + 1);
      },
      kVirtual);
}

TEST(MappingCache, ReservesAQuarterMoreThanTheProgramHad) {
  serve_in_silence(
      [](const Driver& driver) {
        driver.use();
        for (int round = 0; round < 5; round++) {
          for (uint64_t pages = 1; pages <= 40; pages++) {
            unmap_block(driver, map_block(driver, pages * kPage));
            CHECK(driver.fake_used() <= 51 * kPage);
          }
        }
      },
      kVirtual);
}

TEST(MappingCache, EndsWithTheContextOfItsDevice) {
  serve_in_silence(
      [](const Driver& driver) {
        driver.use();
        const uint64_t before = driver.fake_used();
        unmap_block(driver, map_block(driver, kPage));
        CHECK(driver.cuDevicePrimaryCtxReset_v2(0) == 0);
        CHECK(driver.fake_used() == before);
        driver.use();
        const MappedBlock kept = map_block(driver, kPage);
        unmap_block(driver, map_block(driver, 2 * kPage));
        driver.fake_reset(0);  // which no hook sees
        driver.use();
        const uint64_t creations = driver.fake_calls("cuMemCreate");
        unmap_block(driver, map_block(driver, 2 * kPage));
        CHECK(driver.fake_calls("cuMemCreate") == creations + 1);
        unmap_block(driver, kept);
      },
      kVirtual);
}

// ---- Random programs

// What a program maps, beside the driver's own state.
class Mapper {
 public:
  Mapper(const Driver& driver, unsigned seed) : driver_(driver), random_(seed) {}

  void run(int steps) {
    for (int i = 0; i < steps; i++) {
      step();
      for (const Row& row : rows_) check(row);
    }
    for (Row& row : rows_) give_back(&row);
  }

 private:
  struct Row {
    MappedBlock block;
    bool has_handle = false;
    bool has_range = false;
    bool is_mapped = false;
  };

  uint64_t below(uint64_t bound) {
    return std::uniform_int_distribution<uint64_t>(0, bound - 1)(random_);
  }

  void step() {
    if (rows_.size() < 20 && below(3) == 0) {
      rows_.push_back({.block = {.size = (1 + below(3)) * kPage}});
      return;
    }
    if (rows_.empty()) return;
    const auto row = rows_.begin() + static_cast<std::ptrdiff_t>(below(rows_.size()));
    if (below(4) == 0) {
      give_back(&*row);
      rows_.erase(row);
    } else {
      change(&*row);
    }
  }

  void change(Row* row) {
    const AllocationProperties properties = of_device(static_cast<int>(below(2)));
    MappedBlock& block = row->block;
    switch (below(5)) {
      case 0:
        if (row->has_handle || row->is_mapped) return;
        CHECK(driver_.cuMemCreate(&block.handle, block.size, &properties, 0) == 0);
        row->has_handle = true;
        return;
      case 1:
        if (row->has_range) return;
        CHECK(driver_.cuMemAddressReserve(&block.address, block.size, 0, 0, 0) == 0);
        row->has_range = true;
        return;
      case 2:
        if (!row->has_handle || !row->has_range || row->is_mapped) return;
        CHECK(driver_.cuMemMap(block.address, block.size, 0, block.handle, 0) == 0);
        row->is_mapped = true;
        return;
      case 3:
        if (!row->is_mapped) return;
        CHECK(driver_.cuMemUnmap(block.address, block.size) == 0);
        row->is_mapped = false;
        return;
      default:
        return swap_with_another(row);
    }
  }

  // Two ranges change their handles.
  void swap_with_another(Row* row) {
    Row& other = rows_[below(rows_.size())];
    if (row->block.size != other.block.size) return;
    for (Row* one : {row, &other}) {
      if (one->is_mapped) CHECK(driver_.cuMemUnmap(one->block.address, one->block.size) == 0);
      one->is_mapped = false;
    }
    std::swap(row->block.handle, other.block.handle);
    std::swap(row->has_handle, other.has_handle);
  }

  void give_back(Row* row) {
    const MappedBlock& block = row->block;
    const bool is_released_first = below(2) == 0;
    const auto release = [&] {
      if (row->has_handle) CHECK(driver_.cuMemRelease(block.handle) == 0);
      row->has_handle = false;
    };
    if (is_released_first) release();
    if (row->is_mapped) CHECK(driver_.cuMemUnmap(block.address, block.size) == 0);
    row->is_mapped = false;
    if (row->has_range) CHECK(driver_.cuMemAddressFree(block.address, block.size) == 0);
    row->has_range = false;
    release();
  }

  void check(const Row& row) {
    if (row.is_mapped) CHECK(driver_.fake_mapping(row.block.address) == row.block.handle);
    for (const Row& other : rows_) {
      if (&other == &row) continue;
      if (row.has_range && other.has_range) CHECK(row.block.address != other.block.address);
      if (row.has_handle && other.has_handle) CHECK(row.block.handle != other.block.handle);
    }
  }

  const Driver& driver_;
  std::mt19937_64 random_;
  std::vector<Row> rows_;
};

TEST(MappingCache, OfRandomThreadsHasWhatTheyMapWhereTheyMapIt) {
  const unsigned seed = seed_of_this_run();
  SCOPED_TRACE(seed);
  serve_in_silence(
      [&](const Driver& driver) {
        driver.use();
        const uint64_t before = driver.fake_used();
        std::vector<std::thread> threads;
        for (unsigned i = 0; i < 4; i++) {
          threads.emplace_back([&driver, i, seed] {
            driver.use();
            Mapper(driver, seed + i).run(2000);
          });
        }
        for (std::thread& thread : threads) thread.join();
        CHECK(driver.cuDevicePrimaryCtxReset_v2(0) == 0);
        driver.use(1);
        CHECK(driver.cuDevicePrimaryCtxReset_v2(1) == 0);
        CHECK(driver.fake_used() == before);
      },
      kVirtual);
}

}  // namespace
