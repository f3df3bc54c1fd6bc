// SPDX-License-Identifier: MIT OR Apache-2.0
#include "alloc/address_table.h"

#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <thread>
#include <vector>

#include "../test_seed.h"

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
  EXPECT_EQ(table.bytes(), 0u);
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

TEST(AddressTable, TakesMemoryForWhatIsUsedOnly) {
  AddressTable table;
  table.prepare(kBase, GiB, false);
  const uint64_t one_leaf = table.bytes();
  EXPECT_LE(one_leaf, 16 * KiB);
  for (Address at = kBase; at < kBase + GiB; at += 2 * MiB) table.prepare(at, 2 * MiB, true);
  EXPECT_LE(table.bytes() - one_leaf, 192 * KiB) << "256 bytes a segment";
  for (Address at = kBase; at < kBase + GiB; at += 2 * MiB) set(table, at, 1);
  EXPECT_LE(table.bytes() - one_leaf, 512 * KiB) << "768 bytes a segment";
}

TEST(AddressTable, UsesTheMemoryOfReleasedRangesAgain) {
  AddressTable table;
  uint64_t bytes = 0;
  for (int round = 0; round < 100; round++) {
    const Address begin = kBase + static_cast<Address>(round) * 2 * MiB;
    table.prepare(begin, 2 * MiB, true);
    for (Address at = begin; at < begin + 2 * MiB; at += 32 * KiB) set(table, at, 7);
    table.release(begin, 2 * MiB);
    for (Address at = begin; at < begin + 2 * MiB; at += 32 * KiB) ASSERT_EQ(table.find(at), 0u);
    if (round == 0) bytes = table.bytes();
    ASSERT_EQ(table.bytes(), bytes);
    table.shrink();
  }
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

TEST(AddressTable, IsReadByThreadsWhileItGrows) {
  AddressTable table;
  std::atomic<uint64_t> published{0};
  constexpr uint64_t kSegments = 200;
  const auto address_of = [](uint64_t i) { return kBase + i * (37 * MiB + 512); };
  std::vector<std::thread> readers;
  std::atomic<uint64_t> wrong{0};
  for (int i = 0; i < 3; i++) {
    readers.emplace_back([&] {
      uint64_t seen = 0;
      while (seen < kSegments) {
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
  for (uint64_t n = 0; n < kSegments; n++) {
    table.prepare(address_of(n), 2 * MiB, n % 2 == 0);
    set(table, address_of(n), static_cast<uint32_t>(n + 1));
    published.store(n + 1, std::memory_order_release);
  }
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(wrong, 0u);
}

}  // namespace
}  // namespace cachalot
