// SPDX-License-Identifier: MIT OR Apache-2.0
#include "device/address_space.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>
#include <map>
#include <random>

namespace cachalot {
namespace {

constexpr Address kBegin = 0x100000000;
constexpr Address kEnd = kBegin + 64 * AddressSpace::kUnit;
constexpr uint64_t kUnit = AddressSpace::kUnit;

TEST(AddressSpace, TakesTheLowestPlaceThatIsLargeEnough) {
  AddressSpace space(kBegin, kEnd);
  EXPECT_EQ(space.take(1), kBegin);
  EXPECT_EQ(space.take(3 * kUnit), kBegin + kUnit);
  EXPECT_EQ(space.take(kUnit + 1), kBegin + 4 * kUnit);
  space.put_back(kBegin + kUnit);
  EXPECT_EQ(space.take(4 * kUnit), kBegin + 6 * kUnit) << "the hole of three units is too small";
  EXPECT_EQ(space.take(2 * kUnit), kBegin + kUnit);
  EXPECT_EQ(space.take(kUnit), kBegin + 3 * kUnit);
}

TEST(AddressSpace, HasNoPlaceWhenItIsFull) {
  AddressSpace space(kBegin, kEnd);
  EXPECT_EQ(space.take(65 * kUnit), std::nullopt);
  EXPECT_EQ(space.take(64 * kUnit), kBegin);
  EXPECT_EQ(space.take(1), std::nullopt);
  space.put_back(kBegin);
  EXPECT_EQ(space.take(1), kBegin);
}

TEST(AddressSpace, RefusesSizesThatDoNotFit64Bits) {
  AddressSpace space(kBegin, kEnd);
  EXPECT_EQ(space.take(UINT64_MAX), std::nullopt);
  EXPECT_EQ(space.take(UINT64_MAX - kUnit), std::nullopt);
}

TEST(AddressSpace, HandsOutGivenAddressesFirstAndThenAvoidsThem) {
  AddressSpace space(kBegin, kEnd);
  const Address given[] = {kBegin + kUnit, 0x1234, kBegin + 3 * kUnit + 512};
  space.give(given);
  for (const Address address : given) EXPECT_EQ(space.take(kUnit), address);
  EXPECT_EQ(space.take(kUnit), kBegin);
  EXPECT_EQ(space.take(kUnit), kBegin + 2 * kUnit);
  EXPECT_EQ(space.take(kUnit), kBegin + 5 * kUnit) << "the third reaches into the fourth unit";
}

TEST(AddressSpace, IgnoresAddressesThatAreNotInUse) {
  AddressSpace space(kBegin, kEnd);
  space.put_back(kBegin);
  space.put_back(0);
  EXPECT_EQ(space.take(kUnit), kBegin);
}

TEST(AddressSpace, SurvivesGivenAddressesThatOverlapOrReachTheEndOf64Bits) {
  AddressSpace space(kBegin, kEnd);
  const Address given[] = {kBegin, kBegin, UINT64_MAX - 5, kEnd - kUnit};
  space.give(given);
  for (const Address address : given) EXPECT_EQ(space.take(2 * kUnit), address);
  for (const Address address : given) space.put_back(address);
  EXPECT_EQ(space.take(64 * kUnit), kBegin);
}

// The rule, in its simplest form: try every unit from the bottom.
std::optional<Address> lowest(const std::map<Address, uint64_t>& used, uint64_t units) {
  const auto is_free = [&](Address begin) {
    for (const auto& [address, size] : used) {
      if (address < begin + units * kUnit && begin < address + size * kUnit) return false;
    }
    return true;
  };
  for (Address begin = kBegin; begin + units * kUnit <= kEnd; begin += kUnit) {
    if (is_free(begin)) return begin;
  }
  return {};
}

TEST(AddressSpace, ChoosesAsTheRuleSaysInAnyOrderOfCalls) {
  const char* argument = std::getenv("CACHALOT_TEST_SEED");
  const auto seed = argument != nullptr ? std::strtoull(argument, nullptr, 10) : 7;
  std::cout << "CACHALOT_TEST_SEED=" << seed << "\n";
  std::mt19937_64 random(seed);
  AddressSpace space(kBegin, kEnd);
  std::map<Address, uint64_t> used;  // units
  for (int i = 0; i < 5000; i++) {
    if (random() % 2 == 0 && !used.empty()) {
      const auto range = std::next(used.begin(), static_cast<long>(random() % used.size()));
      space.put_back(range->first);
      used.erase(range);
    } else {
      const uint64_t units = random() % 8 + 1;
      const auto expected = lowest(used, units);
      ASSERT_EQ(space.take(units * kUnit), expected);
      if (expected) used[*expected] = units;
    }
  }
}

}  // namespace
}  // namespace cachalot
