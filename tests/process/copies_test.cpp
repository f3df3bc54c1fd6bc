// SPDX-License-Identifier: MIT OR Apache-2.0
// Three copies of the library in one process: the shared one that this program is linked with, and
// one inside of each of two plugins.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "plugin.h"

namespace {

// As unkind as a loader can be: what a plugin exports is offered to all that is loaded later.
LibraryCopy load(const char* path) {
  void* const library = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
  if (library == nullptr) throw std::runtime_error(dlerror());
  void* const found = dlsym(library, "plugin_copy");
  if (found == nullptr) throw std::runtime_error(dlerror());
  LibraryCopy copy;
  reinterpret_cast<void (*)(LibraryCopy*)>(found)(&copy);
  return copy;
}

int64_t read_text(void* user_data, void* buffer, size_t capacity) {
  auto& left = *static_cast<std::string*>(user_data);
  const size_t count = left.copy(static_cast<char*>(buffer), capacity);
  left.erase(0, count);
  return static_cast<int64_t>(count);
}

int32_t append(void* user_data, const void* bytes, size_t count) {
  static_cast<std::string*>(user_data)->append(static_cast<const char*>(bytes), count);
  return 0;
}

// One of each kind of object, all of one copy.
struct Objects {
  explicit Objects(const LibraryCopy& library) : of(library) {
    expect_ok(of.driver_create_host(uint64_t{1} << 30, 1, &driver, &error));
    cachalot_allocator_options options{};
    options.struct_size = sizeof options;
    options.driver = driver;
    options.config = "";
    expect_ok(of.allocator_create(&options, &allocator, &error));
    expect_ok(of.allocate(allocator, 4096, 0, 0, &block, &error));
    expect_ok(of.snapshot_take(allocator, nullptr, &snapshot, &error));
    std::string text;
    expect_ok(of.trace_write(snapshot, nullptr, "small", append, &text, &error));
    expect_ok(of.trace_read(read_text, &text, &trace, &error));
    expect_ok(of.replay_run(trace, nullptr, &replay, &error));
    expect_ok(of.report_create(allocator, nullptr, &report, &error));
    expect_ok(of.tenant_create(allocator, nullptr, &tenant, &error));
  }

  ~Objects() {
    EXPECT_EQ(of.tenant_destroy(tenant, nullptr), CACHALOT_OK);
    of.report_destroy(report);
    of.replay_destroy(replay);
    of.trace_destroy(trace);
    of.snapshot_destroy(snapshot);
    EXPECT_EQ(of.allocator_destroy_all(allocator, nullptr), CACHALOT_OK);
    of.driver_destroy(driver);
  }

  Objects(const Objects&) = delete;
  Objects& operator=(const Objects&) = delete;

  void expect_ok(cachalot_status status) const {
    if (status != CACHALOT_OK) throw std::runtime_error(error.message);
  }

  LibraryCopy of;
  cachalot_error error = CACHALOT_ERROR_INIT;
  cachalot_driver* driver = nullptr;
  cachalot_allocator* allocator = nullptr;
  cachalot_address block = 0;
  cachalot_snapshot* snapshot = nullptr;
  cachalot_trace* trace = nullptr;
  cachalot_replay* replay = nullptr;
  cachalot_report* report = nullptr;
  cachalot_tenant* tenant = nullptr;
};

std::vector<LibraryCopy> copies() {
  static const std::vector<LibraryCopy> all = {own_copy(), load(CACHALOT_PLUGIN_A),
                                               load(CACHALOT_PLUGIN_B)};
  return all;
}

// Calls `check` with two different copies, in each order.
template <class Check>
void for_each_pair(Check check) {
  const std::vector<LibraryCopy> all = copies();
  for (size_t one = 0; one < all.size(); one++) {
    for (size_t other = 0; other < all.size(); other++) {
      if (one == other) continue;
      SCOPED_TRACE("copy " + std::to_string(one) + " asked with objects of copy " +
                   std::to_string(other));
      const Objects foreign(all[other]);
      check(all[one], foreign);
    }
  }
}

#define EXPECT_REFUSED(call, text)                    \
  do {                                                \
    cachalot_error error = CACHALOT_ERROR_INIT;       \
    EXPECT_EQ(call, CACHALOT_ERROR_INVALID_ARGUMENT); \
    EXPECT_STREQ(error.message, text);                \
  } while (false)

TEST(CopiesOfTheLibrary, HaveEachItsOwnFunctions) {
  for_each_pair([](const LibraryCopy& one, const Objects& foreign) {
    EXPECT_NE(one.allocate, foreign.of.allocate);
    EXPECT_NE(one.driver_create_host, foreign.of.driver_create_host);
    EXPECT_NE(one.snapshot_take, foreign.of.snapshot_take);
  });
}

TEST(CopiesOfTheLibrary, RefuseEachOthersAllocators) {
  for_each_pair([](const LibraryCopy& one, const Objects& foreign) {
    constexpr const char* kText = "this allocator belongs to another copy of the library";
    cachalot_address address = 0;
    cachalot_block block{};
    block.struct_size = sizeof block;
    cachalot_snapshot* snapshot = nullptr;
    EXPECT_REFUSED(one.allocate(foreign.allocator, 512, 0, 0, &address, &error), kText);
    EXPECT_REFUSED(one.free(foreign.allocator, foreign.block, &error), kText);
    EXPECT_REFUSED(one.get_block(foreign.allocator, foreign.block, &block, &error), kText);
    EXPECT_REFUSED(one.record_stream(foreign.allocator, foreign.block, 1, &error), kText);
    EXPECT_REFUSED(one.snapshot_take(foreign.allocator, nullptr, &snapshot, &error), kText);
    EXPECT_REFUSED(one.check(foreign.allocator, &error), kText);
    EXPECT_REFUSED(one.allocator_destroy(foreign.allocator, &error), kText);
    EXPECT_REFUSED(one.allocator_destroy_all(foreign.allocator, &error), kText);
    EXPECT_EQ(one.allocator_driver(foreign.allocator), nullptr);
    EXPECT_STREQ(one.allocator_backend(foreign.allocator), "");
    EXPECT_EQ(one.memory_allocated(foreign.allocator, 0), 0u);
    // Nothing happened to it.
    EXPECT_EQ(foreign.of.check(foreign.allocator, nullptr), CACHALOT_OK);
    EXPECT_EQ(foreign.of.memory_allocated(foreign.allocator, 0), 4096u);
  });
}

TEST(CopiesOfTheLibrary, RefuseEachOthersDrivers) {
  for_each_pair([](const LibraryCopy& one, const Objects& foreign) {
    constexpr const char* kText = "this driver belongs to another copy of the library";
    cachalot_allocator_options options{};
    options.struct_size = sizeof options;
    options.driver = foreign.driver;
    cachalot_allocator* allocator = nullptr;
    EXPECT_REFUSED(one.allocator_create(&options, &allocator, &error), kText);
    EXPECT_EQ(allocator, nullptr);
    EXPECT_REFUSED(one.sim_queue_work(foreign.driver, 0, 0, &error), kText);
    EXPECT_STREQ(one.driver_name(foreign.driver), "");
    EXPECT_EQ(one.driver_device_count(foreign.driver), 0);
    one.driver_destroy(foreign.driver);
    EXPECT_STREQ(foreign.of.driver_name(foreign.driver), "host");
  });
}

TEST(CopiesOfTheLibrary, RefuseEachOthersSnapshotsTracesAndReplays) {
  for_each_pair([](const LibraryCopy& one, const Objects& foreign) {
    cachalot_segment_row row{};
    row.struct_size = sizeof row;
    cachalot_trace_info info{};
    info.struct_size = sizeof info;
    cachalot_replay_result result{};
    result.struct_size = sizeof result;
    std::string text;
    cachalot_replay* replay = nullptr;
    EXPECT_EQ(one.snapshot_segment(foreign.snapshot, 0, &row), CACHALOT_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(one.snapshot_segment_count(foreign.snapshot), 0u);
    EXPECT_REFUSED(one.trace_write(foreign.snapshot, nullptr, "", append, &text, &error),
                   "this snapshot belongs to another copy of the library");
    EXPECT_EQ(one.trace_get_info(foreign.trace, &info), CACHALOT_ERROR_INVALID_ARGUMENT);
    EXPECT_REFUSED(one.replay_run(foreign.trace, nullptr, &replay, &error),
                   "this trace belongs to another copy of the library");
    EXPECT_EQ(one.replay_get_result(foreign.replay, &result), CACHALOT_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(one.replay_allocator(foreign.replay), nullptr);
    one.snapshot_destroy(foreign.snapshot);
    one.trace_destroy(foreign.trace);
    one.replay_destroy(foreign.replay);
    EXPECT_EQ(foreign.of.snapshot_segment_count(foreign.snapshot), 1u);
    EXPECT_EQ(foreign.of.trace_get_info(foreign.trace, &info), CACHALOT_OK);
    EXPECT_EQ(foreign.of.replay_get_result(foreign.replay, &result), CACHALOT_OK);
  });
}

TEST(CopiesOfTheLibrary, RefuseEachOthersReportsAndTenants) {
  for_each_pair([](const LibraryCopy& one, const Objects& foreign) {
    EXPECT_REFUSED(one.report_text(foreign.report, nullptr, 0, nullptr, &error),
                   "this report belongs to another copy of the library");
    EXPECT_STREQ(one.report_advice(foreign.report), "");
    one.report_destroy(foreign.report);
    size_t length = 0;
    EXPECT_EQ(foreign.of.report_text(foreign.report, nullptr, 0, &length, nullptr), CACHALOT_OK);
    EXPECT_GT(length, 0u);
    constexpr const char* kText = "this tenant belongs to another copy of the library";
    EXPECT_REFUSED(one.tenant_begin(foreign.tenant, &error), kText);
    EXPECT_REFUSED(one.tenant_destroy(foreign.tenant, &error), kText);
  });
}

TEST(CopiesOfTheLibrary, RefuseEachOthersAddresses) {
  for_each_pair([](const LibraryCopy& one, const Objects& foreign) {
    const Objects own(one);
    char text[64];
    std::snprintf(text, sizeof text, "invalid device pointer: 0x%llx",
                  static_cast<unsigned long long>(foreign.block));
    cachalot_block block{};
    block.struct_size = sizeof block;
    EXPECT_REFUSED(one.free(own.allocator, foreign.block, &error), text);
    EXPECT_REFUSED(one.get_block(own.allocator, foreign.block, &block, &error), text);
    EXPECT_EQ(one.check(own.allocator, nullptr), CACHALOT_OK);
  });
}

TEST(CopiesOfTheLibrary, KeepAThreadsLabelsApart) {
  for_each_pair([](const LibraryCopy& one, const Objects& foreign) {
    EXPECT_EQ(foreign.of.label_push("kv-cache", nullptr), CACHALOT_OK);
    EXPECT_EQ(one.label_pop(nullptr), CACHALOT_ERROR_INVALID_STATE);
    EXPECT_EQ(foreign.of.label_pop(nullptr), CACHALOT_OK);
  });
}

// ---- Within one copy

TEST(AHandle, OfAnotherKindIsRefusedByName) {
  const Objects own(own_copy());
  auto* const no_allocator = reinterpret_cast<cachalot_allocator*>(own.driver);
  auto* const no_driver = reinterpret_cast<cachalot_driver*>(own.allocator);
  EXPECT_REFUSED(cachalot_free(no_allocator, own.block, &error),
                 "allocator is a driver, not an allocator");
  EXPECT_REFUSED(cachalot_sim_queue_work(no_driver, 0, 0, &error),
                 "driver is an allocator, not a driver");
}

// What its memory may hold then.
TEST(AHandle, ThatWasDestroyedIsRefused) {
  for (const int byte : {0, 0xFF, 0xA5}) {
    alignas(64) char memory[4096];
    std::memset(memory, byte, sizeof memory);
    auto* const allocator = reinterpret_cast<cachalot_allocator*>(memory);
    EXPECT_REFUSED(cachalot_free(allocator, 512, &error),
                   "allocator is not an allocator: it was destroyed or never was one");
    EXPECT_REFUSED(cachalot_allocator_destroy(allocator, &error),
                   "allocator is not an allocator: it was destroyed or never was one");
    EXPECT_EQ(cachalot_driver_device_count(reinterpret_cast<cachalot_driver*>(memory)), 0);
    cachalot_driver_destroy(reinterpret_cast<cachalot_driver*>(memory));
    cachalot_snapshot_destroy(reinterpret_cast<cachalot_snapshot*>(memory));
  }
}

}  // namespace
