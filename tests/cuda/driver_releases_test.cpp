// SPDX-License-Identifier: MIT OR Apache-2.0
// What each release of NVIDIA's driver serves, over a fake that knows the functions of its CUDA version only, in the
// forms that they had by then. docs/operating.md has the same table.
#include <gtest/gtest.h>

#include <memory>
#include <ostream>
#include <string>

#include "alloc/allocator.h"
#include "base/units.h"
#include "device/cuda_driver.h"
#include "fake_cuda.h"

namespace cachalot {
namespace {

struct DriverRelease {
  int branch;
  int cuda;
  bool reads_graph_edges;  // since CUDA 12.3
  bool has_device_events;  // since CUDA 12.5
};

std::ostream& operator<<(std::ostream& out, const DriverRelease& release) {
  return out << release.branch;
}

class DriverReleases : public testing::TestWithParam<DriverRelease> {
 protected:
  DriverReleases() {
    fake_cuda::reset();
    fake_cuda::set_version(GetParam().cuda);
  }
};

TEST_P(DriverReleases, HaveWhatEveryFeatureNeeds) {
  CudaDriver driver;
  EXPECT_TRUE(driver.supports_virtual_memory());
  EXPECT_TRUE(driver.supports_memory_pools());
  EXPECT_TRUE(driver.has_host_memory());
  EXPECT_NE(driver.segment_handles(), nullptr);
  EXPECT_NE(driver.copies(), nullptr);
}

TEST_P(DriverReleases, ServeEachBackendAndPolicy) {
  for (const char* config : {"", "expandable_segments:True", "backend:cudaMallocAsync"}) {
    for (const bool is_serving : {false, true}) {
      if (is_serving && std::string(config) != "") continue;
      AllocatorOptions options;
      options.driver = std::make_shared<CudaDriver>();
      options.config = config;
      options.serving.is_on = is_serving;
      Allocator allocator(options);
      allocator.free(allocator.allocate(30 * MiB, 0, 0x50));
      allocator.empty_cache(0);
    }
  }
  EXPECT_EQ(fake_cuda::leftovers(), "");
}

TEST_P(DriverReleases, ReadCapturesInTheFormOfTheirVersion) {
  fake_cuda::capture(0x50, 3);
  CudaDriver driver;
  CaptureInfo info;
  ASSERT_EQ(driver.capture_info(0, 0x50, &info), kSuccess);
  EXPECT_EQ(info.nodes.size(), 3u);
  EXPECT_EQ(fake_cuda::calls("cuStreamGetCaptureInfo_v3"), GetParam().reads_graph_edges ? 1u : 0u);
}

// Without that event the host waits for the device instead.
TEST_P(DriverReleases, WaitForAllStreamsByAnEventWhereThereIsOne) {
  AllocatorOptions options;
  options.driver = std::make_shared<CudaDriver>();
  Allocator allocator(options);
  const Address block = allocator.allocate(512, 0, 0x50);
  allocator.record_stream(block, kAllStreams);
  allocator.free(block);
  EXPECT_EQ(fake_cuda::calls("cuCtxRecordEvent"), GetParam().has_device_events ? 1u : 0u);
  EXPECT_EQ(allocator.allocate(512, 0, 0x50), block);
  allocator.free(block);
}

INSTANTIATE_TEST_SUITE_P(NVIDIAs, DriverReleases,
                         testing::Values(DriverRelease{535, 12020, false, false},
                                         DriverRelease{550, 12040, true, false},
                                         DriverRelease{570, 12080, true, true},
                                         DriverRelease{580, 13000, true, true},
                                         DriverRelease{590, 13010, true, true}),
                         testing::PrintToStringParamName());

}  // namespace
}  // namespace cachalot
