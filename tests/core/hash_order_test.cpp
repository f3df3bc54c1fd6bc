// SPDX-License-Identifier: MIT OR Apache-2.0
// HashOrder: what PyTorch's binary does is in the cases order-of-*.txt; here that it is a set.
#include "alloc/heap/hash_order.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "../test_seed.h"

namespace cachalot {
namespace {

using Keys = std::vector<uint64_t>;

HashOrder<uint64_t> order_of(const Keys& keys) {
  HashOrder<uint64_t> order;
  for (const uint64_t key : keys) order.insert(key, key);
  return order;
}

TEST(HashOrder, IsThatOfTheReference) {
  EXPECT_EQ(order_of({1, 2, 3, 4, 5}).keys(), Keys({5, 2, 4, 1, 3}));
  EXPECT_EQ(order_of({5, 4, 3, 2, 1}).keys(), Keys({5, 2, 4, 1, 3}));
  Keys ascending;
  for (uint64_t key = 1; key < 20; key++) ascending.push_back(key);
  EXPECT_EQ(order_of(ascending).keys(),
            Keys({13, 5, 18, 10, 2, 15, 7, 12, 4, 17, 9, 1, 14, 6, 19, 11, 3, 16, 8}));
}

TEST(HashOrder, ListsKeysOfOneHashAsTheyCame) {
  HashOrder<uint64_t> order;
  for (const uint64_t key : {7, 3, 9}) order.insert(key, 42);
  EXPECT_EQ(order.keys(), Keys({7, 3, 9}));
  order.erase(7, 42);
  order.insert(7, 42);
  EXPECT_EQ(order.keys(), Keys({3, 9, 7}));
}

TEST(HashOrder, HoldsWhatASetHolds) {
  Random random(test_seed());
  for (const uint64_t spread : {uint64_t{1}, uint64_t{1} << 20, uint64_t{1} << 58}) {
    HashOrder<uint64_t> order;
    std::set<uint64_t> expected;
    for (int step = 0; step < 3000; step++) {
      const uint64_t key = random.below(200) * spread;
      if (random.one_in(2)) {
        order.insert(key, key);
        expected.insert(key);
      } else {
        order.erase(key, key);
        expected.erase(key);
      }
      const Keys keys = order.keys();
      ASSERT_EQ(keys.size(), expected.size());
      ASSERT_EQ(std::set<uint64_t>(keys.begin(), keys.end()), expected);
    }
  }
}

TEST(HashOrder, ShowsEachKeyOnceWhileSomeAreErased) {
  HashOrder<uint64_t> order;
  for (uint64_t key = 0; key < 100; key++) order.insert(key, key);
  const Keys before = order.keys();
  Keys seen;
  order.retain([&](uint64_t key) {
    seen.push_back(key);
    return key % 3 == 0;
  });
  EXPECT_EQ(seen, before);
  EXPECT_EQ(order.keys().size(), 34u);
}

}  // namespace
}  // namespace cachalot
