// SPDX-License-Identifier: MIT OR Apache-2.0
// libcachalot_pluggable.so, used as PyTorch uses it: opened by path, its functions looked up by
// name.
//
// All tests of a process share the one allocator inside it, over a simulated device of 1 GiB; what
// needs a fresh one, or what it prints, runs in a process of its own.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <set>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "cachalot/cachalot.h"

namespace {

using PoolId = std::pair<uint64_t, uint64_t>;
using Filter = std::function<bool(void*)>;

constexpr size_t kMiB = size_t{1} << 20;

template <class Function>
Function* find(const char* name) {
  static void* const library = dlopen(CACHALOT_PLUGGABLE_PATH, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) throw std::runtime_error(dlerror());
  void* const symbol = dlsym(library, name);
  if (symbol == nullptr) throw std::runtime_error(dlerror());
  return reinterpret_cast<Function*>(symbol);
}

// The functions of the public header, as the same library exports them.
#define FIND(function) find<decltype(function)>(#function)

struct Plugin {
  cachalot_status (*set_options)(const char*, const cachalot_allocator_options*, cachalot_error*) =
      find<cachalot_status(const char*, const cachalot_allocator_options*, cachalot_error*)>(
          "cachalot_pluggable_set_options");
  cachalot_status (*get_allocator)(cachalot_allocator**, cachalot_error*) =
      find<cachalot_status(cachalot_allocator**, cachalot_error*)>(
          "cachalot_pluggable_get_allocator");
  void* (*try_alloc)(size_t, int,
                     void*) = find<void*(size_t, int, void*)>("cachalot_pluggable_try_alloc");
  void* (*alloc)(size_t, int, void*) = find<void*(size_t, int, void*)>("cachalot_pluggable_alloc");
  void (*free)(void*, size_t, int,
               void*) = find<void(void*, size_t, int, void*)>("cachalot_pluggable_free");
  void (*init)(int) = find<void(int)>("cachalot_pluggable_init");
  void (*reset)() = find<void()>("cachalot_pluggable_reset");
  void (*memory_fraction)(double,
                          int) = find<void(double, int)>("cachalot_pluggable_memory_fraction");
  void* (*base_alloc)(void*,
                      size_t*) = find<void*(void*, size_t*)>("cachalot_pluggable_base_alloc");
  void (*record_stream)(void*,
                        void*) = find<void(void*, void*)>("cachalot_pluggable_record_stream");
  void (*begin)(int, PoolId, Filter) =
      find<void(int, PoolId, Filter)>("cachalot_pluggable_begin_allocate_to_pool");
  void (*end)(int, PoolId) = find<void(int, PoolId)>("cachalot_pluggable_end_allocate_to_pool");
  void (*release)(int, PoolId) = find<void(int, PoolId)>("cachalot_pluggable_release_pool");
};

void* stream(uintptr_t value) { return reinterpret_cast<void*>(value); }

char* offset(void* pointer, size_t bytes) { return static_cast<char*>(pointer) + bytes; }

class Pluggable : public testing::Test {
 protected:
  Pluggable() {
    // A process of its own begins anew, without the allocator of this one.
    testing::FLAGS_gtest_death_test_style = "threadsafe";
    setenv("CACHALOT_DRIVER", "sim:1GiB", 1);
    for (const char* name :
         {"CACHALOT_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF",
          "CACHALOT_RELEASE", "CACHALOT_DEBUG", "PYTORCH_NO_CUDA_MEMORY_CACHING"})
      unsetenv(name);
  }

  const Plugin plugin_;
};

// Runs the statement in a process of its own, which must end well and print what the pattern says.
#define EXPECT_PRINTS(statement, pattern) \
  EXPECT_EXIT(                            \
      {                                   \
        statement;                        \
        std::_Exit(HasFailure() ? 1 : 0); \
      },                                  \
      testing::ExitedWithCode(0), pattern)

TEST_F(Pluggable, GivesABlockBackToTheCacheAndHandsItOutAgain) {
  void* const first = plugin_.alloc(1000, 0, nullptr);
  ASSERT_NE(first, nullptr);
  plugin_.free(first, 1000, 0, nullptr);
  void* const second = plugin_.alloc(1000, 0, nullptr);
  EXPECT_EQ(second, first);
  plugin_.free(second, 1000, 0, nullptr);
}

TEST_F(Pluggable, HasNoAddressForNoBytesAndTakesNullBack) {
  EXPECT_EQ(plugin_.alloc(0, 0, nullptr), nullptr);
  plugin_.free(nullptr, 0, 0, nullptr);
  plugin_.record_stream(nullptr, stream(0x10));
}

TEST_F(Pluggable, SaysOnStderrWhyItHasNoMemory) {
  EXPECT_PRINTS(EXPECT_EQ(plugin_.alloc(size_t{2} << 30, 0, nullptr), nullptr),
                "^cachalot: CUDA out of memory. Tried to allocate 2.00 GiB.*\n$");
  EXPECT_PRINTS(EXPECT_EQ(plugin_.alloc(512, 7, nullptr), nullptr), "^cachalot: .*7.*\n$");
}

TEST_F(Pluggable, SaysOnStderrThatAPointerIsForeign) {
  EXPECT_PRINTS(plugin_.free(stream(0x1000), 1, 0, nullptr),
                "^cachalot: invalid device pointer: 0x1000\n$");
}

TEST_F(Pluggable, TriesAgainAfterAnAllocatorThatCouldNotBeMade) {
  EXPECT_PRINTS(
      {
        setenv("CACHALOT_ALLOC_CONF", "no_such_option:1", 1);
        plugin_.init(1);
        EXPECT_EQ(plugin_.alloc(512, 0, nullptr), nullptr);
        unsetenv("CACHALOT_ALLOC_CONF");
        EXPECT_NE(plugin_.alloc(512, 0, nullptr), nullptr);
      },
      "^cachalot: .*no_such_option.*\ncachalot: .*no_such_option.*\n$");
}

TEST_F(Pluggable, TakesItsOptionsFromTheEnvironmentAndPrintsWarnings) {
  EXPECT_PRINTS(
      {
        setenv("PYTORCH_NO_CUDA_MEMORY_CACHING", "yes", 1);
        plugin_.init(1);
      },
      "^cachalot: Ignoring invalid value for boolean flag PYTORCH_NO_CUDA_MEMORY_CACHING: yes");
}

TEST_F(Pluggable, TakesItsOptionsFromACallBeforeTheFirstUse) {
  EXPECT_PRINTS(
      {
        cachalot_allocator_options options{};
        options.struct_size = sizeof options;
        options.config = "max_split_size_mb:64";
        options.release = CACHALOT_RELEASE_2_11;
        EXPECT_EQ(plugin_.set_options("sim:2GiB", &options, nullptr), CACHALOT_OK);
        options.config = "";  // the text was copied
        EXPECT_NE(plugin_.alloc(1536 * kMiB, 0, nullptr), nullptr);
        cachalot_allocator* allocator = nullptr;
        EXPECT_EQ(plugin_.get_allocator(&allocator, nullptr), CACHALOT_OK);
        EXPECT_EQ(FIND(cachalot_allocator_release)(allocator), CACHALOT_RELEASE_2_11);
        cachalot_settings settings{};
        settings.struct_size = sizeof settings;
        EXPECT_EQ(FIND(cachalot_get_settings)(allocator, &settings, nullptr), CACHALOT_OK);
        EXPECT_EQ(settings.max_split_size, 64 * kMiB);
      },
      "^$");
}

TEST_F(Pluggable, RefusesOptionsOnceTheAllocatorExists) {
  EXPECT_PRINTS(
      {
        plugin_.init(1);
        cachalot_error error{};
        error.struct_size = sizeof error;
        EXPECT_EQ(plugin_.set_options(nullptr, nullptr, &error), CACHALOT_ERROR_INVALID_STATE);
        EXPECT_STREQ(error.message, "the allocator exists already");
      },
      "^$");
}

TEST_F(Pluggable, RefusesOptionsOfAnotherKindAndKeepsThoseBefore) {
  EXPECT_PRINTS(
      {
        EXPECT_EQ(plugin_.set_options("sim:2GiB", nullptr, nullptr), CACHALOT_OK);
        cachalot_allocator_options options{};
        EXPECT_EQ(plugin_.set_options("sim:1GiB", &options, nullptr),
                  CACHALOT_ERROR_INVALID_ARGUMENT);
        EXPECT_NE(plugin_.alloc(1536 * kMiB, 0, nullptr), nullptr);
      },
      "^$");
}

TEST_F(Pluggable, AnswersTheQuestionsOfThePublicHeader) {
  void* const block = plugin_.alloc(1000, 0, stream(0xc0));
  cachalot_allocator* allocator = nullptr;
  ASSERT_EQ(plugin_.get_allocator(&allocator, nullptr), CACHALOT_OK);
  cachalot_block known{};
  known.struct_size = sizeof known;
  EXPECT_EQ(FIND(cachalot_get_block)(allocator, reinterpret_cast<cachalot_address>(block), &known,
                                     nullptr),
            CACHALOT_OK);
  EXPECT_EQ(known.requested, 1000U);
  plugin_.free(block, 1000, 0, stream(0xc0));
}

TEST_F(Pluggable, SaysThatItHasNoAllocator) {
  EXPECT_PRINTS(
      {
        EXPECT_EQ(plugin_.set_options("no_such_driver", nullptr, nullptr), CACHALOT_OK);
        cachalot_allocator* allocator = nullptr;
        cachalot_error error{};
        error.struct_size = sizeof error;
        EXPECT_EQ(plugin_.get_allocator(&allocator, &error), CACHALOT_ERROR_INVALID_ARGUMENT);
        EXPECT_EQ(allocator, nullptr);
        plugin_.init(1);
      },
      "^cachalot: .*no_such_driver.*\n$");
}

TEST_F(Pluggable, HasAnAllocationForPoolsThatSaysNothing) {
  EXPECT_PRINTS(
      {
        EXPECT_EQ(plugin_.try_alloc(size_t{2} << 30, 0, nullptr), nullptr);
        void* const block = plugin_.try_alloc(2 * kMiB, 0, nullptr);
        EXPECT_NE(block, nullptr);
        plugin_.free(block, 2 * kMiB, 0, nullptr);
      },
      "^$");
}

TEST_F(Pluggable, LimitsAndEmptiesTheCache) {
  EXPECT_PRINTS(
      {
        plugin_.free(plugin_.alloc(400 * kMiB, 0, nullptr), 0, 0, nullptr);
        plugin_.memory_fraction(0.5, 0);
        EXPECT_EQ(plugin_.alloc(600 * kMiB, 0, nullptr), nullptr);
        plugin_.reset();
        EXPECT_NE(plugin_.alloc(500 * kMiB, 0, nullptr), nullptr);
      },
      "^cachalot: CUDA out of memory.*\n$");
}

TEST_F(Pluggable, KnowsTheSegmentOfABlock) {
  void* const first = plugin_.alloc(512, 0, stream(0x80));
  void* const second = plugin_.alloc(512, 0, stream(0x80));
  size_t size = 0;
  EXPECT_EQ(plugin_.base_alloc(second, &size), first);
  EXPECT_EQ(size, 2 * kMiB);
  EXPECT_EQ(plugin_.base_alloc(second, nullptr), first);
  plugin_.free(second, 512, 0, stream(0x80));
  plugin_.free(first, 512, 0, stream(0x80));
}

TEST_F(Pluggable, HasNoSegmentForAForeignAddress) {
  size_t size = 5;
  EXPECT_PRINTS(EXPECT_EQ(plugin_.base_alloc(stream(0x1000), &size), nullptr), "^cachalot: .*\n$");
  EXPECT_EQ(size, 5U);
}

TEST_F(Pluggable, RoutesWhatTheFilterTakesToThePool) {
  const PoolId id{0, 1};
  void* const outside = plugin_.alloc(512, 0, stream(0x90));
  plugin_.begin(0, id, [](void* asked) { return asked == stream(0x90); });
  void* const routed = plugin_.alloc(512, 0, stream(0x90));
  void* const other = plugin_.alloc(512, 0, stream(0xa0));
  plugin_.end(0, id);
  void* const after = plugin_.alloc(512, 0, stream(0x90));
  EXPECT_GE(static_cast<size_t>(std::abs(offset(routed, 0) - offset(outside, 0))), 2 * kMiB);
  EXPECT_EQ(after, offset(outside, 512));
  for (void* block : {outside, routed, other, after}) plugin_.free(block, 512, 0, nullptr);
  plugin_.release(0, id);
}

TEST_F(Pluggable, DropsTheFilterWhenTheRoutingEnds) {
  const PoolId id{3, 0};
  const auto counted = std::make_shared<int>();
  plugin_.begin(0, id, [counted](void*) { return false; });
  EXPECT_EQ(counted.use_count(), 2);
  plugin_.end(0, id);
  EXPECT_EQ(counted.use_count(), 1);
  plugin_.release(0, id);
}

TEST_F(Pluggable, TakesEverythingWithoutAFilterAndNothingWithOneThatThrows) {
  const PoolId id{0, 4};
  void* const outside = plugin_.alloc(512, 0, stream(0xb0));
  plugin_.begin(0, id, nullptr);
  void* const routed = plugin_.alloc(512, 0, stream(0xb0));
  plugin_.end(0, id);
  EXPECT_NE(routed, offset(outside, 512));
  EXPECT_PRINTS(
      {
        plugin_.begin(0, id, [](void*) -> bool { throw 1; });
        EXPECT_EQ(plugin_.alloc(512, 0, stream(0xb0)), offset(outside, 512));
      },
      "^cachalot: a pool's filter threw an exception\n$");
  for (void* block : {outside, routed}) plugin_.free(block, 512, 0, nullptr);
  plugin_.release(0, id);
}

TEST_F(Pluggable, SaysOnStderrWhatIsWrongWithAPool) {
  EXPECT_PRINTS(plugin_.end(0, PoolId(0, 9)), "^cachalot: .*\n$");
  EXPECT_PRINTS(plugin_.release(0, PoolId(0, 9)), "^cachalot: .*\n$");
  EXPECT_PRINTS(plugin_.begin(0, PoolId(0, 0), nullptr), "^cachalot: pool id is \\(0, 0\\).*\n$");
}

TEST_F(Pluggable, MakesOneAllocatorForThreadsThatStartTogether) {
  EXPECT_PRINTS(
      {
        std::vector<void*> blocks(8);
        std::vector<std::thread> threads;
        for (void*& block : blocks)
          threads.emplace_back([&] { block = plugin_.alloc(512, 0, nullptr); });
        for (std::thread& thread : threads) thread.join();
        EXPECT_EQ(std::set<void*>(blocks.begin(), blocks.end()).size(), blocks.size());
        for (void* block : blocks) plugin_.free(block, 512, 0, nullptr);
      },
      "^$");
}

}  // namespace
