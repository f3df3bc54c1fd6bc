// SPDX-License-Identifier: MIT OR Apache-2.0
// The table of live blocks against a map, under random inserts and erasures.
#include "replay/live_blocks.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>
#include <map>
#include <random>

namespace cachalot {
namespace {

TEST(LiveBlocks, FindsWhatWasInsertedAndNothingElse) {
  LiveBlocks blocks;
  EXPECT_EQ(blocks.find(0x200, 0), nullptr);
  blocks.insert({.address = 0x200, .slot = 7, .device = 0});
  blocks.insert({.address = 0x200, .slot = 8, .device = 1});
  ASSERT_NE(blocks.find(0x200, 0), nullptr);
  EXPECT_EQ(blocks.find(0x200, 0)->slot, 7u);
  EXPECT_EQ(blocks.find(0x200, 1)->slot, 8u);
  blocks.erase(blocks.find(0x200, 0));
  EXPECT_EQ(blocks.find(0x200, 0), nullptr);
  EXPECT_EQ(blocks.find(0x200, 1)->slot, 8u);
}

TEST(LiveBlocks, AgreesWithAMapAfterRandomSteps) {
  const char* const argument = std::getenv("CACHALOT_TEST_SEED");
  const uint64_t seed =
      argument != nullptr ? std::strtoull(argument, nullptr, 10) : std::random_device()();
  std::cout << "CACHALOT_TEST_SEED=" << seed << "\n";
  std::mt19937_64 random(seed);
  LiveBlocks blocks;
  std::map<Address, uint32_t> model;
  for (uint32_t i = 0; i < 200000; i++) {
    const Address address = 512 * (1 + random() % 8192);
    const auto known = model.find(address);
    LiveBlock* const found = blocks.find(address, 0);
    ASSERT_EQ(found != nullptr, known != model.end());
    if (found != nullptr) {
      ASSERT_EQ(found->slot, known->second);
      blocks.erase(found);
      model.erase(known);
    } else {
      blocks.insert({.address = address, .slot = i});
      model[address] = i;
    }
  }
}

}  // namespace
}  // namespace cachalot
