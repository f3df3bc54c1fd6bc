// SPDX-License-Identifier: MIT OR Apache-2.0
#include "alloc/heap/address_table.h"

#include <gtest/gtest.h>
#include <sys/prctl.h>

#include <atomic>
#include <map>
#include <memory>
#include <thread>
#include <vector>

#include "../sanitizers.h"
#include "../test_seed.h"
#include "process_memory.h"

namespace cachalot {
namespace {

constexpr Address kBase = 0x700000000000;
constexpr Address kDirectoryEnd = Address{1} << 47;

// As a hand-out does.
void set(AddressTable& table, Address address, uint32_t number) {
  table.make_room(address);
  table.set(address, number);
}

TEST(AddressTable, KnowsNothingAtFirst) {
  const AddressTable table;
  for (const Address address : {Address{0}, Address{512}, kBase, kDirectoryEnd, UINT64_MAX}) {
    EXPECT_EQ(table.find(address), 0u);
  }
}

TEST(AddressTable, TellsApartAllBlocksOfASmallSegment) {
  AddressTable table;
  table.prepare(kBase, 2 * MiB, true);
  EXPECT_EQ(table.find(kBase), 0u);
  for (uint32_t i = 0; i < 4096; i++) set(table, kBase + i * 512, i + 1);
  for (uint32_t i = 0; i < 4096; i++) ASSERT_EQ(table.find(kBase + i * 512), i + 1);
  EXPECT_EQ(table.find(kBase + 2 * MiB), 0u);
  EXPECT_EQ(table.find(kBase - 512), 0u);
}

TEST(AddressTable, HoldsTheLargestNumber) {
  constexpr uint32_t kLargest = (uint32_t{1} << 30) - 1;
  AddressTable table;
  table.prepare(kBase, 2 * MiB, true);
  table.prepare(kBase + 2 * MiB, 20 * MiB, false);
  for (const Address address : {kBase + 512, kBase + 4 * MiB}) {
    set(table, address, kLargest);
    EXPECT_EQ(table.find(address), kLargest);
  }
}

TEST(AddressTable, FindsBlocksThatBeginAnywhereInALargeSegment) {
  AddressTable table;
  table.prepare(kBase, 20 * MiB, false);
  set(table, kBase, 1);
  set(table, kBase + MiB + 512, 2);
  set(table, kBase + 3 * MiB - 512, 3);
  EXPECT_EQ(table.find(kBase), 1u);
  EXPECT_EQ(table.find(kBase + MiB + 512), 2u);
  EXPECT_EQ(table.find(kBase + 3 * MiB - 512), 3u);
}

TEST(AddressTable, KeepsTheLastNumberOfAnAddress) {
  AddressTable table;
  table.prepare(kBase, 2 * MiB, true);
  set(table, kBase, 1);
  set(table, kBase, 2);
  EXPECT_EQ(table.find(kBase), 2u);
  table.prepare(kBase, 2 * MiB, true);
  EXPECT_EQ(table.find(kBase), 2u) << "memory that was obtained again";
}

// Drivers of callers may hand out ranges that begin anywhere.
TEST(AddressTable, TellsApartSegmentsThatShareAMebibyte) {
  AddressTable table;
  const Address middle = kBase + 4 * MiB + 512 * 3;
  table.prepare(kBase + 512, middle - kBase - 512, false);
  set(table, middle - 5 * 512, 1);
  table.prepare(middle, 4 * MiB, false);
  set(table, middle, 2);
  EXPECT_EQ(table.find(middle - 5 * 512), 1u);
  EXPECT_EQ(table.find(middle), 2u);
}

TEST(AddressTable, TakesAddressesAbove47Bits) {
  AddressTable table;
  const Address border = kDirectoryEnd - MiB;
  table.prepare(border, 2 * MiB, true);
  table.prepare(Address{1} << 63, 2 * MiB, false);
  table.prepare((Address{1} << 63) + 2 * MiB, 2 * MiB, true);
  const std::vector<Address> addresses = {border,           kDirectoryEnd - 512,
                                          kDirectoryEnd,    kDirectoryEnd + 512,
                                          Address{1} << 63, (Address{1} << 63) + 3 * MiB};
  for (size_t i = 0; i < addresses.size(); i++) {
    set(table, addresses[i], static_cast<uint32_t>(i + 1));
  }
  for (size_t i = 0; i < addresses.size(); i++) EXPECT_EQ(table.find(addresses[i]), i + 1);
  EXPECT_EQ(table.find(kDirectoryEnd + 1024), 0u);
}

// A block begins in each 64 KiB, up to the end of a range that is prepared.
void use_all(AddressTable& table, Address begin, uint64_t size) {
  for (Address at = begin; at < begin + size; at += 64 * KiB) set(table, at, 7);
}

// What a step takes of the system's memory.
template <class Step>
int64_t bytes_taken(Step step) {
  const uint64_t before = anonymous_bytes();
  step();
  return static_cast<int64_t>(anonymous_bytes() - before);
}

// Without huge pages: while a test runs, the system may merge the small pages that the table has touched into a huge
// one, where the table has asked for that, and then counts pages that nobody has touched.
class MemoryOfAddressTable : public testing::Test {
 protected:
  void SetUp() override {
    if (CACHALOT_HEAP_IS_SANITIZED) GTEST_SKIP() << "a sanitizer has memory of its own";
    ASSERT_EQ(prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0), 0);
    table_ = std::make_unique<AddressTable>();
    table_->prepare(kBase - GiB, 2 * MiB, true);  // what the first call takes once
    set(*table_, kBase - GiB, 1);
    anonymous_bytes();
  }
  void TearDown() override { prctl(PR_SET_THP_DISABLE, 0, 0, 0, 0); }

  static constexpr int64_t kNoise = 32 * KiB;
  std::unique_ptr<AddressTable> table_;
};

TEST_F(MemoryOfAddressTable, IsLittleForBlocksThatAreLarge) {
  const auto use = [&] {
    table_->prepare(kBase, GiB, false);
    for (Address at = kBase; at < kBase + GiB; at += 2 * MiB) set(*table_, at, 1);
  };
  EXPECT_LE(bytes_taken(use), 8 * KiB + kNoise) << "8 bytes a MiB";
}

TEST_F(MemoryOfAddressTable, IsLittleForSegmentsThatAreHardlyUsed) {
  const auto prepare = [&] {
    for (Address at = kBase; at < kBase + GiB; at += 2 * MiB) table_->prepare(at, 2 * MiB, true);
  };
  EXPECT_LE(bytes_taken(prepare), 8 * KiB + kNoise) << "16 bytes a segment";
  const auto use = [&] {
    for (Address at = kBase; at < kBase + GiB; at += 2 * MiB) set(*table_, at, 1);
  };
  EXPECT_LE(bytes_taken(use), 512 * (512 + 64) + kNoise) << "576 bytes a segment";
}

TEST_F(MemoryOfAddressTable, IsTheGranulesOfSegmentsThatAreFull) {
  table_->prepare(kBase, GiB, true);
  const int64_t taken = bytes_taken([&] { use_all(*table_, kBase, GiB); });
  EXPECT_GE(taken, int64_t{GiB} / 512 * 4);
  EXPECT_LE(taken, int64_t{GiB} / 512 * 4 + kNoise);
}

// Where its neighbour is full, each half of a MiB has a page.
TEST_F(MemoryOfAddressTable, IsAPageOfASegmentThatIsHardlyUsedBesideAFullOne) {
  for (Address at = kBase; at < kBase + GiB; at += 4 * MiB) {
    table_->prepare(at, 4 * MiB, true);
    use_all(*table_, at, MiB);
  }
  const auto use = [&] {
    for (Address at = kBase; at < kBase + GiB; at += 4 * MiB) set(*table_, at + MiB, 1);
  };
  EXPECT_LE(bytes_taken(use), 256 * 4096 + kNoise);
}

TEST_F(MemoryOfAddressTable, ServesOtherAddressesWhenARangeIsReleased) {
  int64_t taken = 0;
  for (int round = 0; round < 100; round++) {
    const Address begin = kBase + static_cast<Address>(round) * 4 * MiB;
    taken += bytes_taken([&] {
      table_->prepare(begin, 4 * MiB, true);
      use_all(*table_, begin, 4 * MiB);
      table_->release(begin, 4 * MiB);
      if (round % 2 == 0) table_->shrink();
    });
    for (Address at = begin; at < begin + 4 * MiB; at += 32 * KiB) ASSERT_EQ(table_->find(at), 0u);
  }
  EXPECT_LE(taken, 64 * KiB + kNoise);
}

TEST_F(MemoryOfAddressTable, GoesBackToTheSystem) {
  const auto use = [&] {
    for (uint64_t i = 0; i < 256; i++) {
      table_->prepare(kBase + i * 4 * MiB, 2 * MiB, true);
      use_all(*table_, kBase + i * 4 * MiB, 2 * MiB);
    }
  };
  const auto give_back = [&] {
    for (uint64_t i = 0; i < 256; i++) table_->release(kBase + i * 4 * MiB, 2 * MiB);
    table_->shrink();
  };
  EXPECT_GE(bytes_taken(use), int64_t{512 * MiB} / 512 * 4);
  EXPECT_LE(bytes_taken(give_back), -(int64_t{512 * MiB} / 512 * 4) + 64 * KiB + kNoise);
}

TEST(AddressTable, KnowsNothingOfWhatWasInAPartBefore) {
  AddressTable table;
  table.prepare(kBase, 2 * MiB, true);
  for (Address at = kBase; at < kBase + 64 * KiB; at += 512) set(table, at, 7);
  table.release(kBase, 2 * MiB);
  const Address other = kBase + 8 * MiB;
  table.prepare(other, 2 * MiB, true);
  set(table, other, 8);
  for (Address at = other + 512; at < other + 64 * KiB; at += 512) ASSERT_EQ(table.find(at), 0u);
}

TEST(AddressTable, KeepsWhatNeighboursOfAReleasedRangeHave) {
  AddressTable table;
  const Address middle = kBase + MiB + 512;
  table.prepare(kBase, middle - kBase, true);
  table.prepare(middle, 2 * MiB, true);
  set(table, middle - 512, 1);
  set(table, middle, 2);
  table.release(kBase, middle - kBase);
  EXPECT_EQ(table.find(middle), 2u);
}

// A MiB beside one with many parts has all of its numbers side by side.
TEST(AddressTable, FindsBlocksInAllOfARangeThatIsFull) {
  AddressTable table;
  constexpr uint64_t kSize = 5 * MiB;
  for (const Address begin : {kBase, kBase + GiB - 2 * MiB}) {  // and over the border of a GiB
    table.prepare(begin, kSize, true);
    uint32_t number = 0;
    for (Address at = begin; at < begin + kSize; at += 8 * KiB) set(table, at, ++number);
    for (Address at = begin + kSize; at > begin; at -= 8 * KiB)
      ASSERT_EQ(table.find(at - 8 * KiB), number--);
    EXPECT_EQ(table.find(begin + 3 * MiB + 512), 0u);
    EXPECT_TRUE(table.place(begin + 3 * MiB + 512).has_room());
    table.release(begin, kSize);
    for (Address at = begin; at < begin + kSize; at += 8 * KiB) ASSERT_EQ(table.find(at), 0u);
    table.prepare(begin, kSize, false);
    set(table, begin + 3 * MiB, 9);
    EXPECT_EQ(table.find(begin + 3 * MiB), 9u) << "now of a large segment";
  }
}

// A place for the number, in a slot where nothing began yet, is asked for before it is needed.
TEST(AddressTable, SaysWhetherAPlaceHasRoom) {
  AddressTable table;
  table.prepare(kBase, 2 * MiB, true);
  EXPECT_FALSE(table.place(kBase).has_room());
  set(table, kBase, 1);
  EXPECT_TRUE(table.place(kBase + 512).has_room());
  EXPECT_FALSE(table.place(kBase + AddressTable::kPartSize).has_room());
  table.make_room(kBase + AddressTable::kPartSize);
  EXPECT_TRUE(table.place(kBase + AddressTable::kPartSize).has_room());
  table.prepare(kBase + 2 * MiB, 20 * MiB, false);
  EXPECT_TRUE(table.place(kBase + 2 * MiB).has_room());
}

TEST(AddressTable, TakesASegmentThatEndsWhereAddressesEnd) {
  AddressTable table;
  const Address begin = UINT64_MAX - 2 * MiB + 1;
  table.prepare(begin, 2 * MiB, true);
  set(table, UINT64_MAX - 511, 5);
  EXPECT_EQ(table.find(UINT64_MAX - 511), 5u);
  table.release(begin, 2 * MiB);
  EXPECT_EQ(table.find(UINT64_MAX - 511), 0u);
}

// One segment behind the other, small and large ones, over the borders of GiBs.
TEST(AddressTable, IsLikeAMapForSegmentsOfAnyKindAndPlace) {
  Random random(test_seed());
  AddressTable table;
  std::map<Address, uint32_t> expected;
  uint32_t number = 0;
  for (Address at = kBase + 512 * random.below(4096); at < kBase + 4 * GiB;) {
    const bool small = random.one_in(2);
    const uint64_t size = small ? 2 * MiB : 512 * random.of_any_magnitude(4096, 512 * 1024);
    table.prepare(at, size, small);
    const Address end = at + size;
    // At most one block of a large segment begins in a MiB.
    const uint64_t longest = small ? 64 : 8192;
    const uint64_t shortest = small ? 1 : 2049;
    for (Address block = at; block < end; block += 512 * random.between(shortest, longest)) {
      set(table, block, ++number);
      expected[block] = number;
    }
    at = end + (random.one_in(2) ? 0 : 512 * random.below(100000));
  }
  for (const auto& [address, block] : expected) ASSERT_EQ(table.find(address), block);
}

// Threads look for what the calling one enters.
template <class AddressOf, class Prepare>
void expect_found_by_threads(AddressTable& table, uint64_t count, AddressOf address_of,
                             Prepare prepare) {
  std::atomic<uint64_t> published{0};
  std::vector<std::thread> readers;
  std::atomic<uint64_t> wrong{0};
  for (int i = 0; i < 3; i++) {
    readers.emplace_back([&] {
      uint64_t seen = 0;
      while (seen < count) {
        seen = published.load(std::memory_order_acquire);
        for (uint64_t n = 0; n < seen; n++) {
          if (table.find(address_of(n)) != n + 1) wrong++;
        }
        // What is not published yet is there or not, and nothing in between.
        const uint32_t next = table.find(address_of(seen));
        if (next != 0 && next != seen + 1) wrong++;
      }
    });
  }
  for (uint64_t n = 0; n < count; n++) {
    prepare(n);
    set(table, address_of(n), static_cast<uint32_t>(n + 1));
    published.store(n + 1, std::memory_order_release);
  }
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(wrong, 0u);
}

TEST(AddressTable, IsReadByThreadsWhileItGrows) {
  AddressTable table;
  const auto address_of = [](uint64_t i) { return kBase + i * (37 * MiB + 512); };
  expect_found_by_threads(table, 200, address_of,
                          [&](uint64_t n) { table.prepare(address_of(n), 2 * MiB, n % 2 == 0); });
}

// Beside a busy MiB an empty one becomes dense, by whichever shard comes first.
TEST(AddressTable, MakesRoomForThreadsWhoseSegmentsShareAMebibyte) {
  constexpr uint64_t kShared = 400;
  AddressTable table;
  table.prepare(kBase, 2 * kShared * MiB, true);
  for (uint64_t i = 0; i < kShared; i++) {
    for (uint64_t at = 0; at < MiB; at += AddressTable::kPartSize)
      set(table, kBase + 2 * i * MiB + at, 1);
  }
  std::atomic<uint64_t> arrived = 0;
  const auto fill_half = [&](uint64_t half) {
    for (uint64_t i = 0; i < kShared; i++) {
      arrived++;
      while (arrived < 2 * (i + 1)) {
      }
      set(table, kBase + (2 * i + 1) * MiB + half * MiB / 2, static_cast<uint32_t>(half + 2));
    }
  };
  std::thread other(fill_half, 1);
  fill_half(0);
  other.join();
  for (uint64_t i = 0; i < kShared; i++) {
    const Address shared = kBase + (2 * i + 1) * MiB;
    ASSERT_EQ(table.find(shared), 2u);
    ASSERT_EQ(table.find(shared + MiB / 2), 3u);
  }
}

TEST(AddressTable, IsReadByThreadsWhileARangeFills) {
  AddressTable table;
  const auto address_of = [](uint64_t i) { return kBase + i * 12 * KiB; };
  table.prepare(kBase, 8 * MiB, true);
  expect_found_by_threads(table, 8 * MiB / (12 * KiB), address_of, [](uint64_t) {});
}

}  // namespace
}  // namespace cachalot
