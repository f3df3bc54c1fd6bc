// SPDX-License-Identifier: MIT OR Apache-2.0
#include "base/stable_pool.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <set>
#include <vector>

#include "../test_seed.h"

namespace cachalot {
namespace {

struct Object {
  std::array<uint64_t, 64> values;
};

TEST(StablePool, GivesEachObjectOnce) {
  StablePool<Object> pool;
  std::set<Object*> objects;
  for (int i = 0; i < 1000; i++) ASSERT_TRUE(objects.insert(pool.take()).second);
  for (Object* object : objects) {
    ASSERT_EQ(reinterpret_cast<uintptr_t>(object) % alignof(Object), 0u);
    for (const uint64_t value : object->values) ASSERT_EQ(value, 0u);
    object->values.fill(~uint64_t{0});
  }
}

TEST(StablePool, UsesObjectsAgainBeforeItTakesMemory) {
  StablePool<Object> pool;
  Random random(test_seed());
  std::vector<Object*> objects;
  for (int i = 0; i < 1000; i++) objects.push_back(pool.take());
  const uint64_t bytes = pool.bytes();
  EXPECT_LE(bytes, 1000 * sizeof(Object) * 5 / 4);
  for (int round = 0; round < 20; round++) {
    std::vector<Object*> given;
    for (int i = 0; i < 600; i++) {
      std::swap(random.pick(objects), objects.back());
      pool.give(objects.back());
      given.push_back(objects.back());
      objects.pop_back();
    }
    pool.shrink();
    while (objects.size() < 1000) objects.push_back(pool.take());
    ASSERT_EQ(std::set<Object*>(objects.begin(), objects.end()).size(), 1000u);
    ASSERT_EQ(pool.bytes(), bytes);
  }
}

TEST(StablePool, LetsWhatIsGivenBackBeReadAsZerosOrAsItWas) {
  StablePool<Object> pool;
  std::vector<Object*> objects;
  for (int i = 0; i < 1000; i++) {
    objects.push_back(pool.take());
    objects.back()->values.fill(7);
  }
  for (Object* object : objects) pool.give(object);
  pool.shrink();
  size_t zeros = 0;
  for (const Object* object : objects) {
    ASSERT_TRUE(object->values[0] == 0 || object->values[0] == 7);
    if (object->values[0] == 0) zeros++;
  }
  EXPECT_GE(zeros, 700u) << "pages went back to the system";
}

}  // namespace
}  // namespace cachalot
