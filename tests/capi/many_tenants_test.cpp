// SPDX-License-Identifier: MIT OR Apache-2.0
// What calls cost beside many tenants, and what tenants that were destroyed leave behind.
#include <malloc.h>

#include <memory>

#include "../instructions.h"
#include "../sanitizers.h"
#include "tenant_fixture.h"

namespace cachalot_test {
namespace {

constexpr int kFew = 20;
constexpr int kMany = 2000;
const SimSetup kUnaudited{.config = "", .check_every_call = false};

SimSetup with_room_for(int blocks) {
  SimSetup setup = kUnaudited;
  setup.capacity = static_cast<uint64_t>(blocks) * MiB;
  return setup;
}

// Tenants with a callback and one block of 1 MiB each, on a device with room for 100 blocks more.
class Crowd {
 public:
  explicit Crowd(int count) : with_(with_room_for(count + 100)) {
    for (int i = 0; i < count; i++) {
      add({.name = "t"});
      tenants_.back()->allocate(MiB);
    }
  }

  void add(const TenantSetup& setup) {
    tenants_.push_back(std::make_unique<TestTenant>(with_, setup));
  }
  TestTenant& middle() { return *tenants_[tenants_.size() / 2]; }
  SimAllocator& allocator() { return with_; }

 private:
  SimAllocator with_;
  std::vector<std::unique_ptr<TestTenant>> tenants_;
};

using Calls = std::function<void(Crowd&)>;

uint64_t instructions_beside(int count, const Calls& prepare, const Calls& calls) {
  return instructions_of([&] {
    const auto crowd = std::make_shared<Crowd>(count);
    prepare(*crowd);
    return [crowd, calls] { calls(*crowd); };
  });
}

// But for searches by halves.
void expect_same_cost(
    const Calls& calls, const Calls& prepare = [](Crowd&) {}) {
  if (CACHALOT_HEAP_IS_SANITIZED) GTEST_SKIP() << "a sanitizer adds instructions of its own";
  const uint64_t few = instructions_beside(kFew, prepare, calls);
  const uint64_t many = instructions_beside(kMany, prepare, calls);
  EXPECT_LT(many, few + few / 4 + 300) << "beside " << kFew << " tenants: " << few;
}

TEST(ManyTenants, DoNotMakeAnAllocationAndItsFreeDearer) {
  expect_same_cost([](Crowd& crowd) {
    crowd.middle().allocate(MiB);
    crowd.middle().free_oldest();
  });
}

TEST(ManyTenants, DoNotMakeCreatingAndDestroyingOneDearer) {
  expect_same_cost([](Crowd& crowd) { TestTenant(crowd.allocator(), {.name = "t"}); });
}

TEST(ManyTenants, DoNotMakeStatisticsOfOneDearer) {
  expect_same_cost([](Crowd& crowd) { crowd.middle().stats(); });
}

TEST(ManyTenants, DoNotMakeStatisticsByIndexDearer) {
  expect_same_cost([](Crowd& crowd) { tenant_stats_at(crowd.allocator(), 15); });
}

TEST(ManyTenants, DoNotMakeARequestDearerThatOneGivesFor) {
  expect_same_cost([](Crowd& crowd) { crowd.middle().allocate(MiB); },
                   [](Crowd& crowd) { crowd.add({.name = "owed", .guaranteed = 100 * MiB}); });
}

// ---- Those that are gone

// What chunks have beyond what was asked for changes with each round.
constexpr size_t kPadding = 64 * KiB;

size_t bytes_from_heap() { return mallinfo2().uordblks; }

void expect_no_trace(SimAllocator& with, const std::function<void()>& calls) {
  if (CACHALOT_HEAP_IS_SANITIZED) GTEST_SKIP() << "a sanitizer has the heap";
  { TestTenant first(with, {.name = "first"}); }
  const size_t before = bytes_from_heap();
  calls();
  EXPECT_LE(bytes_from_heap(), before + kPadding);
}

TEST(TenantsThatAreGone, LeaveNothingBehindOneByOne) {
  SimAllocator with(kUnaudited);
  TestTenant stays(with, {.name = "stays"});
  expect_no_trace(with, [&] {
    for (int i = 0; i < 20000; i++) TestTenant(with, {.name = "short"});
  });
}

TEST(TenantsThatAreGone, LeaveNothingBehindThatWereThereTogether) {
  SimAllocator with(kUnaudited);
  expect_no_trace(with, [&] {
    std::vector<std::unique_ptr<TestTenant>> all;
    for (int i = 0; i < kMany; i++)
      all.push_back(std::make_unique<TestTenant>(with, TenantSetup{.name = "one of many"}));
  });
}

TEST(TenantsThatAreGone, LeaveTheOthersInTheirOrder) {
  SimAllocator with(kUnaudited);
  std::vector<std::unique_ptr<TestTenant>> all;
  const auto names = [&] {
    std::vector<std::string> listed;
    for (size_t i = 1; i < tenant_count(with); i++)
      listed.emplace_back(tenant_stats_at(with, i).name);
    return joined(listed, " ");
  };
  for (const char* const name : {"a", "b", "c", "d", "e", "f"})
    all.push_back(std::make_unique<TestTenant>(with, TenantSetup{.name = name}));
  all[1].reset();
  all[4].reset();
  EXPECT_EQ(names(), "a c d f");
  all.push_back(std::make_unique<TestTenant>(with, TenantSetup{.name = "g"}));
  all[0].reset();
  all[2].reset();
  all[3].reset();
  EXPECT_EQ(names(), "f g");
  EXPECT_EQ(tenant_stats_at(with, 2).id, 7u);
}

}  // namespace
}  // namespace cachalot_test
