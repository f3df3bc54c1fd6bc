// SPDX-License-Identifier: MIT OR Apache-2.0
// A program that loads the library, uses it and unloads it, again and again.
#include <dirent.h>
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <pthread.h>

#include <cstdio>
#include <cstring>
#include <thread>

#include "cachalot/cachalot.h"

namespace {

constexpr int kWarmUp = 50;
constexpr int kRounds = 1000;
constexpr long kMostPagesMore = 256;  // of 4 KiB: far less than a page a round

template <class Function>
Function* find(void* library, const char* name) {
  return reinterpret_cast<Function*>(dlsym(library, name));
}
#define FIND(function) auto* const function##_ = find<decltype(function)>(library, #function)

int entries_of(const char* folder) {
  int count = 0;
  DIR* const open = opendir(folder);
  while (readdir(open) != nullptr) count++;
  closedir(open);
  return count;
}

long resident_pages() {
  long all = 0;
  long resident = 0;
  std::FILE* const file = std::fopen("/proc/self/statm", "r");
  if (std::fscanf(file, "%ld %ld", &all, &resident) != 2) resident = -1;
  std::fclose(file);
  return resident;
}

int mappings() {
  int lines = 0;
  std::FILE* const file = std::fopen("/proc/self/maps", "r");
  for (int c = std::fgetc(file); c != EOF; c = std::fgetc(file)) lines += c == '\n';
  std::fclose(file);
  return lines;
}

bool is_loaded() {
  void* const library = dlopen(CACHALOT_LIBRARY_PATH, RTLD_NOW | RTLD_NOLOAD);
  if (library != nullptr) dlclose(library);
  return library != nullptr;
}

// Everything that could leave something behind: both ordinary drivers, a second thread, labels of
// threads, stacks as contexts, history, a snapshot, errors.
void use(void* library) {
  FIND(cachalot_driver_open);
  FIND(cachalot_driver_destroy);
  FIND(cachalot_allocator_create);
  FIND(cachalot_allocator_destroy_all);
  FIND(cachalot_allocate);
  FIND(cachalot_free);
  FIND(cachalot_record_history);
  FIND(cachalot_label_push);
  FIND(cachalot_snapshot_take);
  FIND(cachalot_snapshot_destroy);
  for (const char* name : {"host:64MiB", "sim:64MiB"}) {
    cachalot_driver* driver = nullptr;
    ASSERT_EQ(cachalot_driver_open_(name, &driver, nullptr), CACHALOT_OK);
    cachalot_allocator_options options{};
    options.struct_size = sizeof options;
    options.driver = driver;
    options.config = "expandable_segments:True";
    options.context_source = CACHALOT_CONTEXT_STACK;
    options.track_labels = 1;
    cachalot_allocator* allocator = nullptr;
    ASSERT_EQ(cachalot_allocator_create_(&options, &allocator, nullptr), CACHALOT_OK);
    cachalot_history_options history{};
    history.struct_size = sizeof history;
    history.enabled = 1;
    history.context = CACHALOT_CONTEXT_LEVEL_ALL;
    history.max_entries = 100;
    ASSERT_EQ(cachalot_record_history_(allocator, &history, nullptr), CACHALOT_OK);
    const auto work = [&] {
      cachalot_error error = CACHALOT_ERROR_INIT;
      cachalot_address address = 0;
      EXPECT_EQ(cachalot_label_push_("kv-cache", nullptr), CACHALOT_OK);
      for (int i = 0; i < 10; i++) {
        EXPECT_EQ(cachalot_allocate_(allocator, 100'000, 0, 0, &address, nullptr), CACHALOT_OK);
        EXPECT_EQ(cachalot_free_(allocator, address, nullptr), CACHALOT_OK);
      }
      EXPECT_EQ(cachalot_allocate_(allocator, uint64_t{1} << 40, 0, 0, &address, &error),
                CACHALOT_ERROR_OUT_OF_MEMORY);
    };
    std::thread(work).join();
    std::thread(work).join();
    cachalot_snapshot* snapshot = nullptr;
    ASSERT_EQ(cachalot_snapshot_take_(allocator, nullptr, &snapshot, nullptr), CACHALOT_OK);
    cachalot_snapshot_destroy_(snapshot);
    ASSERT_EQ(cachalot_allocator_destroy_all_(allocator, nullptr), CACHALOT_OK);
    cachalot_driver_destroy_(driver);
  }
}

void load_use_unload() {
  void* const library = dlopen(CACHALOT_LIBRARY_PATH, RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << dlerror();
  use(library);
  ASSERT_EQ(dlclose(library), 0);
  ASSERT_FALSE(is_loaded());
}

TEST(TheLibrary, IsGoneAfterDlclose) { load_use_unload(); }

TEST(TheLibrary, CanBeLoadedAndUnloadedAThousandTimes) {
  for (int i = 0; i < kWarmUp && !HasFatalFailure(); i++) load_use_unload();
  const long pages = resident_pages();
  const int ranges = mappings();
  const int files = entries_of("/proc/self/fd");
  const int threads = entries_of("/proc/self/task");
  for (int i = 0; i < kRounds && !HasFatalFailure(); i++) load_use_unload();
  EXPECT_LE(resident_pages(), pages + kMostPagesMore);
  EXPECT_LE(mappings(), ranges + 8);
  EXPECT_EQ(entries_of("/proc/self/fd"), files);
  EXPECT_EQ(entries_of("/proc/self/task"), threads);
}

// The labels of a thread have to be given back by our code when the thread ends: until then dlclose
// leaves the library in the process.
TEST(TheLibrary, StaysWhileAThreadHasLabels) {
  std::thread([] {
    void* const library = dlopen(CACHALOT_LIBRARY_PATH, RTLD_NOW | RTLD_LOCAL);
    FIND(cachalot_label_push);
    FIND(cachalot_label_pop);
    EXPECT_EQ(cachalot_label_push_("kv-cache", nullptr), CACHALOT_OK);
    EXPECT_EQ(cachalot_label_pop_(nullptr), CACHALOT_OK);
    EXPECT_EQ(dlclose(library), 0);
    EXPECT_TRUE(is_loaded());
  }).join();
  EXPECT_EQ(dlclose(dlopen(CACHALOT_LIBRARY_PATH, RTLD_NOW | RTLD_LOCAL)), 0);
  EXPECT_FALSE(is_loaded());
}

}  // namespace
