// SPDX-License-Identifier: MIT OR Apache-2.0
// Failures of libcachalot_pluggable.so in a process with PyTorch's exception classes: compiled
// against its header and linked to its library, as PyTorch's own frames are. In the build these are
// small ones of ours; against an unpacked wheel in $TORCH, with the folder of libcudart.so.13 in
// $CUDART:
//
//   g++ -std=c++20 -I$TORCH/include tests/abi/torch_error_test.cpp -o torch_error_test
//       -DCACHALOT_PLUGGABLE_PATH='"build/release/libcachalot_pluggable.so"' -L$TORCH/lib
//       -Wl,--no-as-needed -lc10_cuda -lc10 -Wl,--as-needed -lgtest_main -lgtest -ldl
//   LD_LIBRARY_PATH=$TORCH/lib:$CUDART ./torch_error_test
#include <c10/util/Exception.h>
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <stdexcept>
#include <string>
#include <thread>

namespace {

template <class Function>
Function* find(const char* name) {
  static void* const library = dlopen(CACHALOT_PLUGGABLE_PATH, RTLD_NOW | RTLD_LOCAL);
  void* const symbol = library != nullptr ? dlsym(library, name) : nullptr;
  if (symbol == nullptr) throw std::runtime_error(dlerror());
  return reinterpret_cast<Function*>(symbol);
}

constexpr size_t kMiB = size_t{1} << 20;

class TorchError : public testing::Test {
 protected:
  TorchError() {
    setenv("CACHALOT_DRIVER", "host:64MiB", 1);
    setenv("CACHALOT_ALLOC_CONF", "", 1);
  }

  void* (*alloc_)(size_t, int, void*) = find<void*(size_t, int, void*)>("cachalot_pluggable_alloc");
  void* (*try_alloc_)(size_t, int,
                      void*) = find<void*(size_t, int, void*)>("cachalot_pluggable_try_alloc");
  void (*free_)(void*, size_t, int,
                void*) = find<void(void*, size_t, int, void*)>("cachalot_pluggable_free");
  void (*fraction_)(double, int) = find<void(double, int)>("cachalot_pluggable_memory_fraction");
};

TEST_F(TorchError, IsOutOfMemoryErrorWithTheAllocatorsText) {
  try {
    alloc_(100 * kMiB, 0, nullptr);
    FAIL() << "nothing was thrown";
  } catch (const c10::OutOfMemoryError& error) {
    EXPECT_EQ(std::string(error.what()).find("CUDA out of memory. Tried to allocate 100.00 MiB."),
              0U)
        << error.what();
    EXPECT_EQ(std::string(error.what_without_backtrace()), error.what());
  }
}

TEST_F(TorchError, IsCaughtAsTheBaseClassesToo) {
  EXPECT_THROW(alloc_(100 * kMiB, 0, nullptr), c10::Error);
  EXPECT_THROW(alloc_(100 * kMiB, 0, nullptr), std::exception);
}

TEST_F(TorchError, OfAnotherKindIsNotOutOfMemory) {
  try {
    alloc_(512, 7, nullptr);
    FAIL() << "nothing was thrown";
  } catch (const c10::OutOfMemoryError&) {
    FAIL() << "it is out of memory";
  } catch (const c10::Error& error) {
    EXPECT_NE(std::string(error.what()).find('7'), std::string::npos) << error.what();
  }
  EXPECT_THROW(fraction_(2.0, 0), c10::Error);
}

TEST_F(TorchError, CanBeKeptAndThrownOnInAnotherThread) {
  std::exception_ptr kept;
  std::thread([&] {
    try {
      alloc_(100 * kMiB, 0, nullptr);
    } catch (...) {
      kept = std::current_exception();
    }
  }).join();
  EXPECT_THROW(std::rethrow_exception(kept), c10::OutOfMemoryError);
}

TEST_F(TorchError, LeavesTheAllocatorInOrder) {
  for (int i = 0; i < 1000; ++i)
    EXPECT_THROW(alloc_(100 * kMiB, 0, nullptr), c10::OutOfMemoryError);
  void* const block = alloc_(kMiB, 0, nullptr);
  EXPECT_NE(block, nullptr);
  free_(block, kMiB, 0, nullptr);
}

TEST_F(TorchError, IsNotThrownByTheFunctionForPools) {
  EXPECT_EQ(try_alloc_(100 * kMiB, 0, nullptr), nullptr);
}

TEST_F(TorchError, IsNotThrownByAFree) {
  testing::internal::CaptureStderr();
  free_(reinterpret_cast<void*>(0x1000), 1, 0, nullptr);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "cachalot: invalid device pointer: 0x1000\n");
}

#ifdef CACHALOT_SMALL_C10
TEST_F(TorchError, IsDestroyedOnce) {
  const int before = c10::Error::live;
  EXPECT_THROW(alloc_(100 * kMiB, 0, nullptr), c10::OutOfMemoryError);
  EXPECT_EQ(c10::Error::live, before);
}
#endif

}  // namespace
