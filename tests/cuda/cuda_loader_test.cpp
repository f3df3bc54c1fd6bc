// SPDX-License-Identifier: MIT OR Apache-2.0
// What is said where the driver cannot be opened. Each test is a process of its own, with the
// library that its name tells on the path.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "cachalot/cachalot.h"
#include "device/cuda_driver.h"

namespace cachalot {
namespace {

std::string refusal() {
  try {
    CudaDriver{};
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), Status::kDriverUnavailable);
    return error.message();
  }
  return "";
}

TEST(CudaLoaderWithoutADriver, SaysWhatWasTriedAndWhatIsNeeded) {
  if (dlopen("libcuda.so.1", RTLD_LAZY) != nullptr) GTEST_SKIP() << "this machine has a driver";
  EXPECT_EQ(refusal(),
            "no CUDA driver: libcuda.so.1: cannot open shared object file: No such file or "
            "directory (tried libcuda.so.1, /usr/local/nvidia/lib64/libcuda.so.1, "
            "/usr/lib/wsl/lib/libcuda.so.1); libcuda.so.1 is a part of the NVIDIA driver, and CUDA "
            "11.3 or newer is needed");
}

TEST(CudaLoaderWithoutADriver, OpensTheHostDriverWhereNoneIsNamed) {
  if (dlopen("libcuda.so.1", RTLD_LAZY) != nullptr) GTEST_SKIP() << "this machine has a driver";
  unsetenv("CACHALOT_DRIVER");
  cachalot_driver* driver = nullptr;
  ASSERT_EQ(cachalot_driver_open(nullptr, &driver, nullptr), CACHALOT_OK);
  EXPECT_STREQ(cachalot_driver_name(driver), "host");
  cachalot_driver_destroy(driver);
}

TEST(CudaLoaderWithAnOldDriver, SaysWhichVersionIsThereAndWhichIsNeeded) {
  EXPECT_EQ(refusal(),
            "the CUDA driver is too old: it is for CUDA 10.2, and 11.3 or newer is needed");
}

}  // namespace
}  // namespace cachalot
