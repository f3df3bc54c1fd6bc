// SPDX-License-Identifier: MIT OR Apache-2.0
// Tenants on threads of their own, under pressure all the time: what they have sums up, guarantees
// hold, nothing is lost.
#include <atomic>
#include <mutex>
#include <thread>

#include "../test_seed.h"
#include "tenant_fixture.h"

namespace cachalot_test {
namespace {

using cachalot::Random;

// Ten fill a segment, so that nothing is lost to fragmentation.
constexpr uint64_t kSize = 2 * MiB;

// A model with a cache of blocks that it can do without. Its lock is never held around a request,
// since a request may ask any model for memory.
class Model {
 public:
  Model(SimAllocator& with, const TenantSetup& setup) : with_(with), guaranteed_(setup.guaranteed) {
    cachalot_tenant_options options = {};
    options.struct_size = sizeof options;
    options.name = setup.name.c_str();
    options.guaranteed_bytes = setup.guaranteed;
    options.priority = setup.priority;
    options.pressure = [](void* self, const cachalot_pressure* pressure) {
      return static_cast<Model*>(self)->evict(pressure->missing_bytes);
    };
    options.pressure_user_data = this;
    options.pressure_destroy = [](void* self) { static_cast<Model*>(self)->is_let_go_ = true; };
    cachalot_error error = CACHALOT_ERROR_INIT;
    EXPECT_EQ(cachalot_tenant_create(with.get(), &options, &tenant_, &error), CACHALOT_OK)
        << error.message;
  }
  ~Model() {
    do {  // others may be about to free a block that they have taken from the list
      evict(UINT64_MAX);
    } while (cachalot_tenant_destroy(tenant_, nullptr) == CACHALOT_ERROR_INVALID_STATE);
    while (!is_let_go_) std::this_thread::yield();  // others may still be in the callback
  }
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  void work(uint64_t seed, int steps) {
    Random random(seed);
    for (int i = 0; i < steps; i++) {
      if (random.one_in(3)) {
        evict(1);
      } else {
        grow();
      }
      if (random.one_in(50)) change_priority(static_cast<int32_t>(random.below(3)));
    }
  }

  cachalot_tenant_stats stats() const {
    cachalot_tenant_stats stats = {};
    stats.struct_size = sizeof stats;
    EXPECT_EQ(cachalot_get_tenant_stats(tenant_, 0, &stats, nullptr), CACHALOT_OK);
    return stats;
  }

  uint64_t has() const { return static_cast<uint64_t>(stats().allocated_bytes.current); }

  int broken_guarantees = 0;

 private:
  // Within its guarantee it is served, at the latest when the others have noted the blocks that they
  // have just been given, so that they can give them up.
  void grow() {
    const bool is_guaranteed = has() + kSize <= guaranteed_;
    for (int i = 0; i < (is_guaranteed ? 1000 : 1); i++) {
      if (try_to_grow()) return;
      std::this_thread::yield();
    }
    if (is_guaranteed) broken_guarantees++;
  }

  bool try_to_grow() {
    cachalot_address address = 0;
    cachalot_error error = CACHALOT_ERROR_INIT;
    const cachalot_status status =
        cachalot_allocate_for(with_.get(), tenant_, kSize, 0, 0, &address, &error);
    if (status != CACHALOT_OK) {
      EXPECT_EQ(status, CACHALOT_ERROR_OUT_OF_MEMORY) << error.message;
      return false;
    }
    const std::lock_guard guard(lock_);
    blocks_.push_back(address);
    return true;
  }

  uint64_t evict(uint64_t bytes) {
    uint64_t freed = 0;
    while (freed < bytes) {
      cachalot_address block = 0;
      {
        const std::lock_guard guard(lock_);
        if (blocks_.empty()) break;
        block = blocks_.front();
        blocks_.pop_front();
      }
      EXPECT_EQ(cachalot_free(with_.get(), block, nullptr), CACHALOT_OK);
      freed += kSize;
    }
    return freed;
  }

  void change_priority(int32_t priority) {
    EXPECT_EQ(cachalot_tenant_set_priority(tenant_, priority, nullptr), CACHALOT_OK);
  }

  SimAllocator& with_;
  const uint64_t guaranteed_;
  cachalot_tenant* tenant_ = nullptr;
  std::atomic<bool> is_let_go_{false};
  std::mutex lock_;
  std::deque<cachalot_address> blocks_;
};

TEST(TenantThreads, SumUpUnderPressureFromAllSides) {
  const uint64_t seed = cachalot::test_seed();
  SimAllocator with(SimSetup{.capacity = 80 * MiB, .check_every_call = false});
  std::deque<Model> models;
  for (int i = 0; i < 4; i++) {
    models.emplace_back(with, TenantSetup{.name = std::to_string(i),
                                          .guaranteed = static_cast<uint64_t>(i) * 10 * MiB,
                                          .priority = i % 2});
  }
  std::atomic<bool> is_done{false};
  std::thread auditor([&] {
    while (!is_done) {
      EXPECT_EQ(cachalot_check(with.get(), nullptr), CACHALOT_OK);
      std::this_thread::yield();
    }
  });
  std::vector<std::thread> threads;
  for (size_t i = 0; i < models.size(); i++) {
    threads.emplace_back([&, i] { models[i].work(seed + i, 3000); });
  }
  for (std::thread& thread : threads) thread.join();
  is_done = true;
  auditor.join();

  with.ok(cachalot_check(with.get(), with.error()));
  int64_t bytes = tenant_stats_at(with, 0).allocated_bytes.current;
  int64_t calls = 0;
  for (const Model& model : models) {
    bytes += model.stats().allocated_bytes.current;
    calls += model.stats().num_pressure_calls;
    EXPECT_EQ(model.broken_guarantees, 0);
  }
  EXPECT_EQ(bytes, with.stats().allocated_bytes.all.current);
  EXPECT_GT(calls, 0);
}

TEST(TenantThreads, MakeAndEndTenantsWhileOthersWork) {
  const uint64_t seed = cachalot::test_seed();
  SimAllocator with(SimSetup{.capacity = 80 * MiB, .check_every_call = false});
  Model lasting(with, {.name = "lasting", .guaranteed = 8 * MiB});
  std::vector<std::thread> threads;
  for (uint64_t i = 0; i < 3; i++) {
    threads.emplace_back([&, i] {
      for (uint64_t round = 0; round < 20; round++) {
        Model model(with, {.name = std::to_string(i)});
        model.work(seed + i + 10 * round, 50);
      }
    });
  }
  lasting.work(seed, 1000);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(tenant_count(with), 2u);
  EXPECT_EQ(tenant_stats_at(with, 1).allocated_bytes.current,
            with.stats().allocated_bytes.all.current);
}

}  // namespace
}  // namespace cachalot_test
