// SPDX-License-Identifier: MIT OR Apache-2.0
// A process that forks while its other threads are inside of the allocator. Whatever they held, the
// child holds for ever; so it may ask for nothing that was made before, and is told so.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "cachalot/cachalot.h"

namespace {

constexpr unsigned kChildLimitSeconds = 60;  // a child that hangs is ended, and the test fails

// What `body` returned in a child, or a negative number if the child did not come to its end.
template <class Body>
int in_child(Body body) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(kChildLimitSeconds);
    _exit(body());
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

#define REQUIRE_OK(call) ASSERT_EQ(call, CACHALOT_OK)

class Fork : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    REQUIRE_OK(cachalot_driver_open(GetParam(), &driver, nullptr));
    allocator = make(driver);
    ASSERT_NE(allocator, nullptr);
    REQUIRE_OK(cachalot_allocate(allocator, 4096, 0, 0, &block, nullptr));
    REQUIRE_OK(cachalot_snapshot_take(allocator, nullptr, &snapshot, nullptr));
    REQUIRE_OK(cachalot_report_create(allocator, nullptr, &report, nullptr));
  }

  void TearDown() override {
    cachalot_report_destroy(report);
    cachalot_snapshot_destroy(snapshot);
    cachalot_error e = CACHALOT_ERROR_INIT;
    EXPECT_EQ(cachalot_check(allocator, &e), CACHALOT_OK) << e.message;
    EXPECT_EQ(cachalot_allocator_destroy_all(allocator, nullptr), CACHALOT_OK);
    cachalot_driver_destroy(driver);
  }

  static cachalot_allocator* make(cachalot_driver* driver) {
    cachalot_allocator_options options{};
    options.struct_size = sizeof options;
    options.config = "";
    options.driver = driver;
    cachalot_allocator* made = nullptr;
    return cachalot_allocator_create(&options, &made, nullptr) == CACHALOT_OK ? made : nullptr;
  }

  // The number of the first call that does not answer as it should; 0: all do.
  int first_wrong_answer() const {
    int number = 0;
    int wrong = 0;
    const auto refused = [&](cachalot_status status, const cachalot_error& error) {
      number++;
      const bool is_right = status == CACHALOT_ERROR_INVALID_STATE &&
                            std::strstr(error.message, "was made before the process was forked");
      if (!is_right && wrong == 0) wrong = number;
    };
    cachalot_error e = CACHALOT_ERROR_INIT;
    cachalot_address address = 0;
    cachalot_stats stats{};
    stats.struct_size = sizeof stats;
    cachalot_snapshot* taken = nullptr;
    cachalot_allocator* over_old_driver = nullptr;
    cachalot_allocator_options options{};
    options.struct_size = sizeof options;
    options.driver = driver;
    cachalot_pool_id pool{0, 1};
    refused(cachalot_allocate(allocator, 4096, 0, 0, &address, &e), e);
    refused(cachalot_free(allocator, block, &e), e);
    refused(cachalot_record_stream(allocator, block, 1, &e), e);
    refused(cachalot_empty_cache(allocator, &e), e);
    refused(cachalot_get_stats(allocator, 0, &stats, &e), e);
    refused(cachalot_configure(allocator, "", &e), e);
    refused(cachalot_pool_create(allocator, 0, pool, nullptr, &e), e);
    refused(cachalot_capture_begin(allocator, 0, &e), e);
    refused(cachalot_snapshot_take(allocator, nullptr, &taken, &e), e);
    refused(cachalot_check(allocator, &e), e);
    refused(cachalot_allocator_destroy(allocator, &e), e);
    refused(cachalot_allocator_destroy_all(allocator, &e), e);
    refused(cachalot_allocator_create(&options, &over_old_driver, &e), e);
    if (cachalot_allocator_driver(allocator) != nullptr) wrong = 100;
    if (cachalot_memory_reserved(allocator, 0) != 0) wrong = 101;
    cachalot_driver_destroy(driver);
    return wrong;
  }

  cachalot_driver* driver = nullptr;
  cachalot_allocator* allocator = nullptr;
  cachalot_address block = 0;
  cachalot_snapshot* snapshot = nullptr;
  cachalot_report* report = nullptr;
};

INSTANTIATE_TEST_SUITE_P(
    EachDriver, Fork, testing::Values("host:1GiB", "sim:1GiB"), [](const auto& driver) {
      return std::string(driver.param).substr(0, std::strlen(driver.param) - 5);
    });

TEST_P(Fork, LeavesTheChildAStatusForEveryCall) {
  EXPECT_EQ(in_child([this] { return first_wrong_answer(); }), 0);
}

TEST_P(Fork, LeavesAGrandchildAStatusForEveryCall) {
  EXPECT_EQ(in_child([this] { return in_child([this] { return first_wrong_answer(); }); }), 0);
}

TEST_P(Fork, LeavesTheChildAStatusForEveryCallOfATenant) {
  cachalot_tenant* tenant = nullptr;
  REQUIRE_OK(cachalot_tenant_create(allocator, nullptr, &tenant, nullptr));
  EXPECT_EQ(
      in_child([tenant] {
        cachalot_tenant_stats stats{};
        stats.struct_size = sizeof stats;
        constexpr cachalot_status kRefused = CACHALOT_ERROR_INVALID_STATE;
        if (cachalot_tenant_begin(tenant, nullptr) != kRefused) return 1;
        if (cachalot_tenant_end(tenant, nullptr) != kRefused) return 2;
        if (cachalot_tenant_set_bytes(tenant, 0, 0, 0, nullptr) != kRefused) return 3;
        if (cachalot_get_tenant_stats(tenant, 0, &stats, nullptr) != kRefused) return 4;
        cachalot_error e = CACHALOT_ERROR_INIT;
        if (cachalot_tenant_destroy(tenant, &e) != kRefused) return 5;
        return std::strstr(e.message, "this tenant was made before the process was forked") ? 0 : 6;
      }),
      0);
  EXPECT_EQ(cachalot_tenant_destroy(tenant, nullptr), CACHALOT_OK);
}

TEST_P(Fork, LetsTheChildMakeAnAllocatorOfItsOwn) {
  EXPECT_EQ(in_child([this] {
              cachalot_driver* own_driver = nullptr;
              if (cachalot_driver_open(GetParam(), &own_driver, nullptr) != CACHALOT_OK) return 1;
              cachalot_allocator* own = make(own_driver);
              if (own == nullptr) return 2;
              cachalot_address address = 0;
              if (cachalot_allocate(own, 4096, 0, 0, &address, nullptr) != CACHALOT_OK) return 3;
              if (first_wrong_answer() != 0) return 4;  // the old one is still the old one
              if (in_child([&] {
                    return cachalot_free(own, address, nullptr) == CACHALOT_ERROR_INVALID_STATE ? 0
                                                                                                : 1;
                  }) != 0)
                return 5;
              if (cachalot_free(own, address, nullptr) != CACHALOT_OK) return 6;
              if (cachalot_allocator_destroy(own, nullptr) != CACHALOT_OK) return 7;
              cachalot_driver_destroy(own_driver);
              return 0;
            }),
            0);
}

TEST_P(Fork, LetsTheChildReadWhatIsOnlyData) {
  EXPECT_EQ(in_child([this] {
              cachalot_segment_row row{};
              row.struct_size = sizeof row;
              if (cachalot_snapshot_segment_count(snapshot) != 1) return 1;
              if (cachalot_snapshot_segment(snapshot, 0, &row) != CACHALOT_OK) return 2;
              cachalot_snapshot_destroy(snapshot);
              size_t length = 0;
              if (cachalot_report_text(report, nullptr, 0, &length, nullptr) != CACHALOT_OK)
                return 3;
              if (length == 0) return 4;
              cachalot_report_destroy(report);
              return 0;
            }),
            0);
}

TEST_P(Fork, LetsTheChildStartAnotherProgram) {
  EXPECT_EQ(in_child([] {
              execl("/bin/true", "true", static_cast<char*>(nullptr));
              return 1;
            }),
            0);
}

// The case that all this is about.
TEST_P(Fork, AmidThreadsInsideTheAllocatorLeavesNoChildHanging) {
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; thread++) {
    threads.emplace_back([&, thread] {
      for (uint64_t size = 512; !stop; size = size % 4'000'000 + 7'777) {
        cachalot_address address = 0;
        const auto stream = static_cast<cachalot_stream>(thread % 2);
        if (cachalot_allocate(allocator, size, 0, stream, &address, nullptr) != CACHALOT_OK) break;
        cachalot_free(allocator, address, nullptr);
        if (size % 64 == 0) cachalot_empty_cache(allocator, nullptr);
      }
    });
  }
  for (int child = 0; child < 100; child++)
    ASSERT_EQ(in_child([this] { return first_wrong_answer(); }), 0) << "child " << child;
  stop = true;
  for (std::thread& thread : threads) thread.join();
}

// A replay is data with an allocator inside.
TEST(ForkOfAReplay, LeavesTheChildItsResult) {
  cachalot_driver* driver = nullptr;
  REQUIRE_OK(cachalot_driver_open("sim:1GiB", &driver, nullptr));
  cachalot_allocator_options options{};
  options.struct_size = sizeof options;
  options.config = "";
  options.driver = driver;
  cachalot_allocator* allocator = nullptr;
  REQUIRE_OK(cachalot_allocator_create(&options, &allocator, nullptr));
  cachalot_history_options history{};
  history.struct_size = sizeof history;
  history.enabled = 1;
  history.max_entries = 100;
  REQUIRE_OK(cachalot_record_history(allocator, &history, nullptr));
  cachalot_address block = 0;
  REQUIRE_OK(cachalot_allocate(allocator, 4096, 0, 0, &block, nullptr));
  cachalot_snapshot_options with_history{};
  with_history.struct_size = sizeof with_history;
  cachalot_snapshot* snapshot = nullptr;
  REQUIRE_OK(cachalot_snapshot_take(allocator, &with_history, &snapshot, nullptr));
  std::string text;
  REQUIRE_OK(cachalot_trace_write(
      snapshot, nullptr, "small",
      [](void* out, const void* bytes, size_t count) {
        static_cast<std::string*>(out)->append(static_cast<const char*>(bytes), count);
        return 0;
      },
      &text, nullptr));
  cachalot_trace* trace = nullptr;
  REQUIRE_OK(cachalot_trace_read(
      [](void* in, void* buffer, size_t capacity) {
        auto& left = *static_cast<std::string*>(in);
        const size_t count = left.copy(static_cast<char*>(buffer), capacity);
        left.erase(0, count);
        return static_cast<int64_t>(count);
      },
      &text, &trace, nullptr));
  cachalot_replay* replay = nullptr;
  REQUIRE_OK(cachalot_replay_run(trace, nullptr, &replay, nullptr));
  EXPECT_EQ(in_child([&] {
              cachalot_replay_result result{};
              result.struct_size = sizeof result;
              if (cachalot_replay_get_result(replay, &result) != CACHALOT_OK) return 1;
              cachalot_address address = 0;
              if (cachalot_allocate(cachalot_replay_allocator(replay), 512, 0, 0, &address,
                                    nullptr) != CACHALOT_ERROR_INVALID_STATE)
                return 2;
              cachalot_replay_destroy(replay);
              cachalot_trace_destroy(trace);
              return 0;
            }),
            0);
  cachalot_replay_destroy(replay);
  cachalot_trace_destroy(trace);
  cachalot_snapshot_destroy(snapshot);
  EXPECT_EQ(cachalot_allocator_destroy_all(allocator, nullptr), CACHALOT_OK);
  cachalot_driver_destroy(driver);
}

}  // namespace
