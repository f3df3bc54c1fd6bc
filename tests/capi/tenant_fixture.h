// SPDX-License-Identifier: MIT OR Apache-2.0
// A tenant of a simulated allocator with its blocks, and a callback that notes what it is asked and
// gives the oldest blocks back.
#pragma once

#include <deque>
#include <functional>

#include "sim_fixture.h"

namespace cachalot_test {

struct TenantSetup {
  std::string name = {};
  uint64_t guaranteed = 0;
  uint64_t limit = 0;
  int32_t priority = 0;
  bool can_be_asked = true;
};

class TestTenant {
 public:
  // What is asked is added to `asked`, "a: 20M for b, device".
  TestTenant(SimAllocator& with, const TenantSetup& setup,
             std::vector<std::string>* asked = nullptr)
      : with_(with), name_(setup.name), asked_(asked) {
    cachalot_tenant_options options = {};
    options.struct_size = sizeof options;
    options.name = setup.name.c_str();
    options.guaranteed_bytes = setup.guaranteed;
    options.limit_bytes = setup.limit;
    options.priority = setup.priority;
    if (setup.can_be_asked) options.pressure = be_asked;
    options.pressure_user_data = this;
    with.ok(cachalot_tenant_create(with.get(), &options, &tenant_, with.error()));
  }

  ~TestTenant() {
    free_all();
    EXPECT_EQ(cachalot_tenant_destroy(tenant_, with_.error()), CACHALOT_OK)
        << with_.error()->message;
  }

  TestTenant(const TestTenant&) = delete;
  TestTenant& operator=(const TestTenant&) = delete;

  cachalot_tenant* get() const { return tenant_; }

  Outcome try_allocate(uint64_t size, cachalot_stream stream = 0, int32_t device = 0) {
    Outcome outcome;
    outcome.status = cachalot_allocate_for(with_.get(), tenant_, size, device, stream,
                                           &outcome.address, &outcome.error);
    if (outcome.status == CACHALOT_OK) blocks_.push_back(outcome.address);
    return outcome;
  }
  // Status only: "OK", "OUT_OF_MEMORY".
  std::string outcome_of(uint64_t size, cachalot_stream stream = 0) {
    return cachalot_status_name(try_allocate(size, stream).status);
  }
  void allocate(uint64_t size, int count = 1) {
    for (int i = 0; i < count; i++) {
      const Outcome outcome = try_allocate(size);
      EXPECT_EQ(outcome.status, CACHALOT_OK) << outcome.message();
    }
  }
  bool free_oldest() {
    if (blocks_.empty()) return false;
    with_.free(blocks_.front());
    blocks_.pop_front();
    return true;
  }
  void free_all() {
    while (free_oldest()) {
    }
  }

  void set_bytes(uint64_t guaranteed, uint64_t limit = 0, int32_t device = CACHALOT_ALL_DEVICES) {
    with_.ok(cachalot_tenant_set_bytes(tenant_, device, guaranteed, limit, with_.error()));
  }

  cachalot_tenant_stats stats(int32_t device = 0) const {
    cachalot_tenant_stats stats = {};
    stats.struct_size = sizeof stats;
    with_.ok(cachalot_get_tenant_stats(tenant_, device, &stats, with_.error()));
    return stats;
  }
  int64_t has() const { return stats().allocated_bytes.current; }

  // How the callback answers; without one it frees blocks, the oldest first, until what is missing
  // was freed or `gives_at_most` were.
  std::function<uint64_t(const cachalot_pressure&)> answer;
  size_t gives_at_most = SIZE_MAX;

 private:
  static uint64_t be_asked(void* user_data, const cachalot_pressure* pressure) {
    return static_cast<TestTenant*>(user_data)->give(*pressure);
  }

  uint64_t give(const cachalot_pressure& pressure) {
    const char* reasons[] = {"", "limit", "guarantee", "device"};
    EXPECT_EQ(pressure.struct_size, sizeof pressure);
    if (asked_) {
      asked_->push_back(name_ + ": " + size_text(pressure.missing_bytes) + " for " +
                        pressure.requester_name + ", " + reasons[pressure.reason]);
    }
    if (answer) return answer(pressure);
    uint64_t freed = 0;
    for (size_t i = 0; i < gives_at_most && freed < pressure.missing_bytes && !blocks_.empty();
         i++) {
      freed += with_.block(blocks_.front()).size;
      free_oldest();
    }
    return freed;
  }

  SimAllocator& with_;
  std::string name_;
  std::vector<std::string>* asked_;
  cachalot_tenant* tenant_ = nullptr;
  std::deque<cachalot_address> blocks_;
};

// The row of an allocator's list.
inline cachalot_tenant_stats tenant_stats_at(SimAllocator& with, size_t index, int32_t device = 0) {
  cachalot_tenant_stats stats = {};
  stats.struct_size = sizeof stats;
  with.ok(cachalot_tenant_stats_at(with.get(), device, index, &stats, with.error()));
  return stats;
}

inline size_t tenant_count(SimAllocator& with) {
  size_t count = 77;
  with.ok(cachalot_tenant_count(with.get(), &count, with.error()));
  return count;
}

}  // namespace cachalot_test
