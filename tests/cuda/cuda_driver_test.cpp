// SPDX-License-Identifier: MIT OR Apache-2.0
// The cuda driver over a fake libcuda.so.1.
#include "device/cuda_driver.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <memory>
#include <thread>
#include <vector>

#include "alloc/allocator.h"
#include "alloc/pinned/pinned_allocator.h"
#include "base/error.h"
#include "base/units.h"
#include "cachalot/cachalot.h"
#include "fake_cuda.h"

namespace cachalot {
namespace {

constexpr Stream kPerThread = kPerThreadStream;

class Cuda : public testing::Test {
 protected:
  Cuda() { fake_cuda::reset(); }

  static std::string refusal() {
    try {
      CudaDriver{};
    } catch (const Error& error) {
      EXPECT_EQ(error.status(), Status::kDriverUnavailable);
      return error.message();
    }
    return "";
  }
};

// ---- Opening

TEST_F(Cuda, NamesASymbolThatTheDriverLacks) {
  fake_cuda::hide("cuEventQuery");
  fake_cuda::hide("cuMemFree");
  EXPECT_EQ(refusal(), "the CUDA driver (CUDA 13.0) has no cuMemFree, cuEventQuery");
}

TEST_F(Cuda, SaysThatADriverIsTooOld) {
  fake_cuda::set_version(11020);
  EXPECT_EQ(refusal(),
            "the CUDA driver is too old: it is for CUDA 11.2, and 11.3 or newer is needed");
}

TEST_F(Cuda, WorksWithTheOldestDriver) {
  fake_cuda::set_version(11030);
  CudaDriver driver;
  EXPECT_TRUE(driver.supports_virtual_memory());
  EXPECT_FALSE(driver.supports_memory_pools());  // the graph attributes came later
  Address address = 0;
  EXPECT_EQ(driver.allocate(0, MiB, &address), kSuccess);
  EXPECT_EQ(driver.free(0, address), kSuccess);
}

TEST_F(Cuda, PassesOnWhyTheDriverDoesNotStart) {
  fake_cuda::fail("cuInit", 100);
  EXPECT_EQ(refusal(),
            "the CUDA driver cannot start: no CUDA-capable device is detected (cuInit gave 100)");
}

TEST_F(Cuda, SaysThatThereIsNoDevice) {
  fake_cuda::set_device_count(0);
  EXPECT_EQ(refusal(), "the CUDA driver finds no device");
}

TEST_F(Cuda, IsTheDefaultWhereItCanBeOpened) {
  unsetenv("CACHALOT_DRIVER");
  cachalot_driver* driver = nullptr;
  ASSERT_EQ(cachalot_driver_open(nullptr, &driver, nullptr), CACHALOT_OK);
  EXPECT_STREQ(cachalot_driver_name(driver), "cuda");
  cachalot_driver_destroy(driver);
  fake_cuda::fail("cuInit", 100);
  ASSERT_EQ(cachalot_driver_open(nullptr, &driver, nullptr), CACHALOT_OK);
  EXPECT_STREQ(cachalot_driver_name(driver), "host");
  cachalot_driver_destroy(driver);
}

// ---- Contexts

TEST_F(Cuda, RetainsAContextAtItsFirstUseAndGivesItBackAtTheEnd) {
  fake_cuda::set_device_count(2);
  {
    CudaDriver driver;
    EXPECT_EQ(fake_cuda::leftovers(), "");
    Address address = 0;
    ASSERT_EQ(driver.allocate(1, MiB, &address), kSuccess);
    EXPECT_EQ(driver.free(1, address), kSuccess);
    EXPECT_EQ(fake_cuda::context_references(0), 0);
    EXPECT_EQ(fake_cuda::context_references(1), 1);
  }
  EXPECT_EQ(fake_cuda::leftovers(), "");
}

TEST_F(Cuda, GivesAContextBackThatIsReleasedAndRetainsItAtTheNextUse) {
  CudaDriver driver;
  Address address = 0;
  driver.release_context(0);
  EXPECT_EQ(fake_cuda::context_references(0), 0);
  for (int round = 0; round < 2; round++) {
    ASSERT_EQ(driver.allocate(0, MiB, &address), kSuccess);
    EXPECT_EQ(driver.free(0, address), kSuccess);
    EXPECT_EQ(fake_cuda::context_references(0), 1);
    driver.release_context(0);
    EXPECT_EQ(fake_cuda::context_references(0), 0);
  }
}

TEST_F(Cuda, LeavesTheCallersContextAsItWas) {
  CudaDriver driver;
  Address address = 0;
  EXPECT_EQ(fake_cuda::current_context(), nullptr);
  ASSERT_EQ(driver.allocate(0, MiB, &address), kSuccess);
  EXPECT_EQ(fake_cuda::current_context(), nullptr);
  int theirs = 0;
  fake_cuda::set_current_context(&theirs);
  EXPECT_EQ(driver.free(0, address), kSuccess);
  EXPECT_EQ(fake_cuda::current_context(), &theirs);
  fake_cuda::set_current_context(nullptr);
}

TEST_F(Cuda, PushesNoContextThatIsCurrentAlready) {
  CudaDriver driver;
  Address address = 0;
  fake_cuda::set_current_context(fake_cuda::primary_context(0));
  ASSERT_EQ(driver.allocate(0, MiB, &address), kSuccess);
  EXPECT_EQ(driver.free(0, address), kSuccess);
  EXPECT_EQ(fake_cuda::calls("cuCtxPushCurrent"), 0u);
  fake_cuda::set_current_context(nullptr);
}

TEST_F(Cuda, WorksFromAThreadThatNeverTouchedIt) {
  CudaDriver driver;
  Address address = 0;
  ASSERT_EQ(driver.allocate(0, MiB, &address), kSuccess);
  std::thread([&] { EXPECT_EQ(driver.free(0, address), kSuccess); }).join();
}

// ---- Streams

TEST_F(Cuda, TellsThePerThreadStreamsOfThreadsApart) {
  CudaDriver driver;
  EXPECT_EQ(driver.resolve(0), 0u);
  EXPECT_EQ(driver.resolve(0x1234), 0x1234u);
  const Stream here = driver.resolve(kPerThread);
  EXPECT_EQ(driver.resolve(kPerThread), here);
  std::thread([&] { EXPECT_NE(driver.resolve(kPerThread), here); }).join();
}

TEST_F(Cuda, RecordsOnThePerThreadStreamOfAnotherThreadThroughTheLegacyStream) {
  CudaDriver driver;
  const Stream here = driver.resolve(kPerThread);
  uint64_t event = 0;
  ASSERT_EQ(driver.event_create(0, &event), kSuccess);
  EXPECT_EQ(driver.event_record(0, event, here), kSuccess);
  EXPECT_EQ(fake_cuda::last_recorded_stream(), 2u);
  std::thread([&] {
    EXPECT_EQ(driver.event_record(0, event, here), kSuccess);
    EXPECT_EQ(fake_cuda::last_recorded_stream(), 1u);
  }).join();
  EXPECT_EQ(driver.event_destroy(0, event), kSuccess);
}

TEST_F(Cuda, NeverHandsMemoryOfAThreadsDefaultStreamToAnotherThread) {
  AllocatorOptions options;
  options.driver = std::make_shared<CudaDriver>();
  Allocator allocator(options);
  const Address mine = allocator.allocate(512, 0, kPerThread);
  allocator.free(mine);
  EXPECT_EQ(allocator.allocate(512, 0, kPerThread), mine);
  allocator.free(mine);
  std::thread([&] {
    const Address theirs = allocator.allocate(512, 0, kPerThread);
    EXPECT_NE(theirs, mine);
    allocator.free(theirs);
  }).join();
}

// ---- All streams

class CudaStreamAll : public Cuda {
 protected:
  // A driver from before CUDA 12.5, where it is one.
  static std::unique_ptr<Allocator> open(bool is_old, DebugOptions debug = {}) {
    if (is_old) fake_cuda::set_version(12040);
    AllocatorOptions options;
    options.driver = std::make_shared<CudaDriver>();
    options.debug = debug;
    return std::make_unique<Allocator>(options);
  }
};

TEST_F(CudaStreamAll, AreOneEventOfTheDevicesContext) {
  for (const Stream own : {Stream{0x50}, kAllStreams}) {
    fake_cuda::reset();
    const auto allocator = open(false);
    const Address block = allocator->allocate(512, 0, own);
    allocator->record_stream(block, kAllStreams);
    fake_cuda::hold_work(true);
    allocator->free(block);
    EXPECT_EQ(fake_cuda::calls("cuCtxRecordEvent"), 1u);
    EXPECT_EQ(fake_cuda::calls("cuEventRecord"), 0u);
    EXPECT_EQ(fake_cuda::calls("cuCtxSynchronize"), 0u);
    const Address other = allocator->allocate(512, 0, own);
    EXPECT_NE(other, block) << "work is left";
    allocator->empty_cache(0);
    EXPECT_EQ(fake_cuda::calls("cuEventSynchronize"), 1u);
    allocator->free(other);
  }
}

TEST_F(CudaStreamAll, AreWaitedForOnTheHostBeforeCuda12_5) {
  for (const Stream own : {Stream{0x50}, kAllStreams}) {
    fake_cuda::reset();
    const auto allocator = open(true);
    const Address block = allocator->allocate(512, 0, own);
    uint64_t waits = 0;
    // Also by an event that was recorded before.
    for (const Stream user : {kAllStreams, Stream{0x60}, kAllStreams}) {
      allocator->record_stream(block, user);
      fake_cuda::hold_work(user == kAllStreams);
      allocator->free(block);
      waits += user == kAllStreams;
      EXPECT_EQ(fake_cuda::calls("cuCtxSynchronize"), waits);
      EXPECT_EQ(allocator->allocate(512, 0, own), block) << "the free has waited";
    }
    EXPECT_EQ(fake_cuda::calls("cuCtxRecordEvent"), 0u);
    EXPECT_EQ(fake_cuda::calls("cuEventCreate"), 1u);
    EXPECT_EQ(fake_cuda::calls("cuEventRecord"), 1u);
    allocator->free(block);
  }
}

TEST_F(CudaStreamAll, HaveNoHandle) {
  CudaDriver driver;
  EXPECT_EQ(driver.resolve(kAllStreams), kAllStreams);
  EXPECT_EQ(driver.user_handle(kAllStreams), kAllStreams);
  CaptureInfo info;
  info.capturing = true;
  EXPECT_EQ(driver.capture_info(0, kAllStreams, &info), kSuccess);
  EXPECT_FALSE(info.capturing);
  EXPECT_EQ(fake_cuda::calls("cuStreamGetCaptureInfo_v3"), 0u);
  EXPECT_EQ(driver.stream_synchronize(0, kAllStreams), kSuccess);
  EXPECT_EQ(fake_cuda::calls("cuCtxSynchronize"), 1u);
  EXPECT_EQ(fake_cuda::calls("cuStreamSynchronize"), 0u);
}

// Work of one stream may come behind poison that another one has queued.
TEST_F(CudaStreamAll, AreWaitedForBeforeAndAfterMemoryIsTouched) {
  const auto allocator = open(false, {.poison = true, .red_zones = true});
  const Address block = allocator->allocate(512, 0, kAllStreams);
  EXPECT_EQ(fake_cuda::calls("cuCtxSynchronize"), 1u);
  EXPECT_EQ(fake_cuda::calls("cuStreamSynchronize"), 1u);
  allocator->free(block);
  EXPECT_EQ(fake_cuda::calls("cuCtxSynchronize"), 3u) << "before the look, and before the poison";
  EXPECT_EQ(fake_cuda::calls("cuStreamSynchronize"), 3u);
}

TEST_F(CudaStreamAll, LeaveTheFreeToALaterCallWhereAStreamIsCaptured) {
  const auto allocator = open(false);
  const Address block = allocator->allocate(512, 0, 0x50);
  allocator->record_stream(block, kAllStreams);
  fake_cuda::capture(0x60, 0);
  try {
    allocator->free(block);
    ADD_FAILURE() << "recorded an event";
  } catch (const Error& error) {
    EXPECT_EQ(error.driver_code(), 901);
  }
  fake_cuda::capture(0x60, -1);
  EXPECT_EQ(allocator->allocate(512, 0, 0x50), block);
  allocator->free(block);
}

// ---- Captures

TEST_F(Cuda, TellsWhatACapturedStreamDependsOn) {
  for (const int version : {13000, 12000}) {
    fake_cuda::reset();
    fake_cuda::set_version(version);
    fake_cuda::capture(0x50, 3);
    CudaDriver driver;
    CaptureInfo info;
    ASSERT_EQ(driver.capture_info(0, 0x50, &info), kSuccess);
    EXPECT_TRUE(info.capturing);
    EXPECT_EQ(info.capture_id, 7u);
    EXPECT_EQ(info.graph, 0x70u);
    EXPECT_EQ(info.nodes.size(), 3u);
    ASSERT_EQ(driver.capture_info(0, 0x60, &info), kSuccess);
    EXPECT_FALSE(info.capturing);
    EXPECT_TRUE(info.nodes.empty());
    std::vector<uint64_t> before;
    ASSERT_EQ(driver.node_dependencies(0, 0x9000, &before), kSuccess);
    EXPECT_EQ(before, (std::vector<uint64_t>{0x9100, 0x9110}));
    EXPECT_EQ(fake_cuda::calls("cuStreamGetCaptureInfo_v3"), version == 13000 ? 2u : 0u);
  }
}

TEST_F(Cuda, AllocatesInRelaxedModeDuringACapture) {
  fake_cuda::capture(0x50, 0);
  AllocatorOptions options;
  options.driver = std::make_shared<CudaDriver>();
  Allocator allocator(options);
  allocator.capture_begin(0);
  allocator.free(allocator.allocate(512, 0, 0x50));
  EXPECT_EQ(fake_cuda::calls("cuThreadExchangeStreamCaptureMode"), 2u);
  EXPECT_EQ(fake_cuda::capture_mode(), 0);
  allocator.capture_end(0);
}

TEST_F(Cuda, ReadsRedZonesInRelaxedModeSinceOthersMayCapture) {
  AllocatorOptions options;
  options.driver = std::make_shared<CudaDriver>();
  options.debug.red_zones = true;
  Allocator allocator(options);
  const Address address = allocator.allocate(512, 0, 0x50);
  fake_cuda::fail("cuMemcpyDtoHAsync", 700);  // what comes of it is not of interest
  const uint64_t before = fake_cuda::calls("cuThreadExchangeStreamCaptureMode");
  allocator.free(address);
  EXPECT_EQ(fake_cuda::calls("cuThreadExchangeStreamCaptureMode"), before + 2);
  EXPECT_EQ(fake_cuda::capture_mode(), 0);
}

// ---- Memory

TEST_F(Cuda, CanBeToldToHaveLessMemory) {
  CudaDriver driver(CudaOptions{64 * MiB});
  uint64_t available = 0;
  uint64_t total = 0;
  Address address = 0;
  Address more = 0;
  uint64_t page = 0;
  ASSERT_EQ(driver.allocate(0, 40 * MiB, &address), kSuccess);
  EXPECT_EQ(driver.allocate(0, 25 * MiB, &more), kDriverOutOfMemory);
  ASSERT_EQ(driver.create(0, 20 * MiB, HandleType::kNone, false, &page), kSuccess);
  EXPECT_EQ(driver.create(0, 6 * MiB, HandleType::kNone, false, &page), kDriverOutOfMemory);
  ASSERT_EQ(driver.memory_info(0, &available, &total), kSuccess);
  EXPECT_EQ(available, 4 * MiB);
  EXPECT_EQ(total, 64 * MiB);
  ASSERT_EQ(driver.total_memory(0, &total), kSuccess);
  EXPECT_EQ(total, 64 * MiB);
  EXPECT_EQ(driver.release(0, page), kSuccess);
  EXPECT_EQ(driver.free(0, address), kSuccess);
  EXPECT_EQ(driver.allocate(0, 64 * MiB, &address), kSuccess);
  EXPECT_EQ(driver.free(0, address), kSuccess);
}

// What is free takes a device longer to tell than a page takes to map.
TEST_F(Cuda, DoesNotAskOnAMissWhatIsFree) {
  for (const char* config : {"", "expandable_segments:True"}) {
    AllocatorOptions options;
    options.driver = std::make_shared<CudaDriver>();
    options.config = config;
    Allocator allocator(options);
    allocator.free(allocator.allocate(30 * MiB, 0, 0x50));
    EXPECT_EQ(fake_cuda::calls("cuMemGetInfo"), 0u) << config;
  }
}

TEST_F(Cuda, TakesACapacityByName) {
  cachalot_driver* driver = nullptr;
  cachalot_allocator* allocator = nullptr;
  ASSERT_EQ(cachalot_driver_open("cuda:3GiB", &driver, nullptr), CACHALOT_OK);
  cachalot_allocator_options options{};
  options.struct_size = sizeof options;
  options.driver = driver;
  ASSERT_EQ(cachalot_allocator_create(&options, &allocator, nullptr), CACHALOT_OK);
  cachalot_device_totals totals{};
  totals.struct_size = sizeof totals;
  EXPECT_EQ(cachalot_get_device_totals(allocator, 0, &totals, nullptr), CACHALOT_OK);
  EXPECT_EQ(totals.total, 3 * GiB);
  EXPECT_EQ(cachalot_allocator_destroy(allocator, nullptr), CACHALOT_OK);
  cachalot_driver_destroy(driver);
  EXPECT_EQ(fake_cuda::leftovers(), "");
}

TEST_F(Cuda, FillsAndReadsMemoryBehindTheWorkOfAStream) {
  CudaDriver driver;
  Address address = 0;
  ASSERT_EQ(driver.allocate(0, MiB, &address), kSuccess);
  ASSERT_TRUE(driver.can_touch_memory());
  EXPECT_EQ(driver.fill(0, address, 16, 0xab, 0x50), kSuccess);
  std::array<uint8_t, 16> bytes{};
  EXPECT_EQ(driver.read(0, address, bytes.size(), bytes.data(), 0x50), kSuccess);
  EXPECT_EQ(bytes[15], 0xab);
  EXPECT_EQ(fake_cuda::calls("cuStreamSynchronize"), 1u);
  EXPECT_EQ(driver.free(0, address), kSuccess);
}

TEST_F(Cuda, CopiesByOneCallWithinADeviceAndByAnotherBetweenPeers) {
  fake_cuda::set_device_count(2);
  CudaDriver driver;
  Address from = 0;
  Address to = 0;
  ASSERT_EQ(driver.allocate(0, MiB, &from), kSuccess);
  ASSERT_EQ(driver.allocate(0, MiB, &to), kSuccess);
  ASSERT_EQ(driver.fill(0, from, 16, 0xab, 0x50), kSuccess);
  ASSERT_NE(driver.copies(), nullptr);
  EXPECT_EQ(driver.copies()->copy(0, to, from, 16, 0x50), kSuccess);
  EXPECT_EQ(fake_cuda::calls("cuMemcpyAsync"), 1u);
  uint8_t byte = 0;
  EXPECT_EQ(driver.read(0, to, 1, &byte, 0x50), kSuccess);
  EXPECT_EQ(byte, 0xab);
  EXPECT_EQ(driver.copies()->copy_peer(0, to, 1, from, 16, 0x50), kSuccess);
  EXPECT_EQ(fake_cuda::calls("cuMemcpyPeerAsync"), 1u);
  fake_cuda::fail("cuMemcpyAsync", 700);
  EXPECT_EQ(driver.copies()->copy(0, to, from, 16, 0x50), 700);
  EXPECT_EQ(driver.free(0, from), kSuccess);
  EXPECT_EQ(driver.free(0, to), kSuccess);
}

TEST_F(Cuda, SetsFlagsOfAPoolAsIntsAndLimitsAsWords) {
  CudaDriver driver;
  ASSERT_TRUE(driver.supports_memory_pools());
  uint64_t value = 0;
  ASSERT_EQ(driver.pool_set_attribute(0, 1, 1), kSuccess);
  ASSERT_EQ(driver.pool_get_attribute(0, 1, &value), kSuccess);
  EXPECT_EQ(value, 1u);
  ASSERT_EQ(driver.pool_set_attribute(0, 4, UINT64_MAX), kSuccess);
  ASSERT_EQ(driver.pool_get_attribute(0, 4, &value), kSuccess);
  EXPECT_EQ(value, UINT64_MAX);
}

TEST_F(Cuda, RefusesOptionsThatADeviceCannotServeAndWorksOtherwise) {
  fake_cuda::set_attribute(102, 0);
  AllocatorOptions options;
  options.driver = std::make_shared<CudaDriver>();
  options.config = "expandable_segments:True";
  try {
    Allocator allocator(options);
    ADD_FAILURE() << "made an allocator";
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), Status::kNotSupported);
    EXPECT_EQ(error.message(),
              "expandable_segments needs virtual memory, which the driver cuda does not have");
  }
  options.config = "";
  Allocator allocator(options);
  allocator.free(allocator.allocate(MiB, 0, 0));
}

TEST_F(Cuda, AsksForPagesThatNetworkCardsReachOnlyWhereTheDeviceHasThem) {
  fake_cuda::set_attribute(110, 0);
  AllocatorOptions options;
  options.driver = std::make_shared<CudaDriver>();
  options.config = "expandable_segments:True";
  Allocator allocator(options);
  allocator.free(allocator.allocate(MiB, 0, 0));
}

TEST_F(Cuda, GivesCallersFunctionsTheHandleOfAThreadsDefaultStream) {
  CudaDriver driver;
  EXPECT_EQ(driver.user_handle(driver.resolve(kPerThread)), kPerThread);
  EXPECT_EQ(driver.user_handle(0x1234), 0x1234u);
}

// ---- What the management library knows

TEST_F(Cuda, ListsTheProcessesOnADeviceInTheOutOfMemoryText) {
  AllocatorOptions options;
  options.driver = std::make_shared<CudaDriver>(CudaOptions{GiB});
  Allocator allocator(options);
  try {
    allocator.allocate(2 * GiB, 0, 0);
    ADD_FAILURE() << "had room";
  } catch (const Error& error) {
    EXPECT_NE(error.message().find(
                  "is free. Process 4711 has 3.00 GiB memory in use. Including non-PyTorch memory, "
                  "this process has 610.00 MiB memory in use. Of the allocated memory"),
              std::string::npos)
        << error.message();
  }
}

constexpr const char* kGpu = "GPU-f0f1f2f3-f4f5-f6f7-f8f9-fafbfcfdfeff";

TEST_F(Cuda, TellsWhatOtherToolsCallADevice) {
  const DeviceIdentity identity = CudaDriver().identity(0);
  EXPECT_EQ(identity.uuid, kGpu);
  EXPECT_EQ(identity.gpu_uuid, kGpu);
  EXPECT_EQ(identity.pci_bus_id, "0000:1a:00.0");
}

TEST_F(Cuda, TellsTheInstanceOfADividedGpuAndTheGpu) {
  fake_cuda::divide();
  const DeviceIdentity identity = CudaDriver().identity(0);
  EXPECT_EQ(identity.uuid, "MIG-20212223-2425-2627-2829-2a2b2c2d2e2f");
  EXPECT_EQ(identity.gpu_uuid, kGpu);
}

TEST_F(Cuda, TellsTheGpuAloneWhereTheDriverKnowsNoInstances) {
  fake_cuda::set_version(11030);
  EXPECT_EQ(CudaDriver().identity(0).uuid, kGpu);
}

TEST_F(Cuda, WorksWhereTheDriverDoesNotTellWhichGpuADeviceIs) {
  fake_cuda::fail("cuDeviceGetUuid", 999);
  const DeviceIdentity identity = CudaDriver().identity(0);
  EXPECT_EQ(identity.uuid, "");
  EXPECT_EQ(identity.pci_bus_id, "0000:1a:00.0");
}

TEST_F(Cuda, ShowsWhatOtherToolsCallADeviceOnTheMetricsPage) {
  cachalot_driver* driver = nullptr;
  cachalot_allocator* allocator = nullptr;
  ASSERT_EQ(cachalot_driver_open("cuda", &driver, nullptr), CACHALOT_OK);
  cachalot_allocator_options options{};
  options.struct_size = sizeof options;
  options.driver = driver;
  ASSERT_EQ(cachalot_allocator_create(&options, &allocator, nullptr), CACHALOT_OK);
  std::string page(20000, ' ');
  EXPECT_EQ(cachalot_metrics_text(allocator, page.data(), page.size(), nullptr, nullptr),
            CACHALOT_OK);
  const std::string line = "\ncachalot_device_info{device=\"0\",uuid=\"" + std::string(kGpu) +
                           "\",gpu_uuid=\"" + kGpu + "\",pci_bus_id=\"0000:1a:00.0\"} 1\n";
  EXPECT_NE(page.find(line), std::string::npos) << page;
  EXPECT_EQ(cachalot_allocator_destroy(allocator, nullptr), CACHALOT_OK);
  cachalot_driver_destroy(driver);
}

TEST_F(Cuda, KnowsWhetherADeviceIsPartOfAFabric) {
  CudaDriver driver;
  int32_t fabric = 0;
  EXPECT_EQ(driver.fabric_state(0, &fabric), kSuccess);
  EXPECT_EQ(fabric, 1);
}

// ---- Pinned memory

constexpr HostMemoryOrigin kAllocated = HostMemoryOrigin::kAllocated;
constexpr HostMemoryOrigin kRegistered = HostMemoryOrigin::kRegistered;

TEST_F(Cuda, GivesPinnedMemoryInTheContextOfTheDeviceThatIsInUse) {
  fake_cuda::set_device_count(3);
  {
    CudaDriver driver;
    Address on_device = 0;
    ASSERT_EQ(driver.allocate(1, MiB, &on_device), kSuccess);
    for (const HostMemoryOrigin origin : {kAllocated, kRegistered}) {
      Address address = 0;
      ASSERT_EQ(driver.host_allocate(MiB, origin, 1, &address), kSuccess);
      reinterpret_cast<char*>(address)[MiB - 1] = 1;
      EXPECT_EQ(driver.host_free(address, origin), kSuccess);
    }
    EXPECT_EQ(fake_cuda::context_references(0), 0);
    EXPECT_EQ(fake_cuda::context_references(1), 1);
    EXPECT_EQ(fake_cuda::context_references(2), 0);
    EXPECT_EQ(fake_cuda::current_context(), nullptr);
    EXPECT_EQ(driver.free(1, on_device), kSuccess);
  }
  EXPECT_EQ(fake_cuda::leftovers(), "");
}

TEST_F(Cuda, GivesPinnedMemoryInTheContextOfTheFirstDeviceWhereNoneIsInUse) {
  fake_cuda::set_device_count(2);
  {
    CudaDriver driver;
    Address address = 0;
    ASSERT_EQ(driver.host_allocate(MiB, kAllocated, 1, &address), kSuccess);
    EXPECT_EQ(fake_cuda::context_references(0), 1);
    EXPECT_EQ(fake_cuda::context_references(1), 0);
    std::thread([&] { EXPECT_EQ(driver.host_free(address, kAllocated), kSuccess); }).join();
  }
  EXPECT_EQ(fake_cuda::leftovers(), "");
}

TEST_F(Cuda, RegistersMemoryWhosePagesThreadsHaveTouched) {
  const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  uint64_t registered = 0;
  {
    CudaDriver driver;
    for (const int threads : {1, 2, 8, 128}) {
      for (const uint64_t size : {uint64_t{1}, page, page + 1, 3 * MiB + 5}) {
        Address address = 0;
        ASSERT_EQ(driver.host_allocate(size, kRegistered, threads, &address), kSuccess);
        EXPECT_EQ(fake_cuda::calls("cuMemHostRegister"), ++registered);  // in one call
        std::vector<unsigned char> resident((size + page - 1) / page);
        ASSERT_EQ(mincore(reinterpret_cast<void*>(address), size, resident.data()), 0);
        EXPECT_EQ(std::count_if(resident.begin(), resident.end(), [](auto of) { return of & 1; }),
                  static_cast<ptrdiff_t>(resident.size()));
        auto* const bytes = reinterpret_cast<char*>(address);
        EXPECT_EQ(bytes[0] + bytes[size - 1], 0);
        bytes[size - 1] = 1;
        EXPECT_EQ(driver.host_free(address, kRegistered), kSuccess);
      }
    }
    EXPECT_EQ(fake_cuda::calls("cuMemHostUnregister"), registered);
    EXPECT_EQ(fake_cuda::calls("cuMemHostAlloc") + fake_cuda::calls("cuMemFreeHost"), 0u);
  }
  EXPECT_EQ(fake_cuda::leftovers(), "");
}

TEST_F(Cuda, PassesOnWhyPinnedMemoryCannotBeHad) {
  CudaDriver driver;
  Address address = 77;
  fake_cuda::fail("cuMemHostAlloc", kDriverOutOfMemory);
  EXPECT_EQ(driver.host_allocate(MiB, kAllocated, 1, &address), kDriverOutOfMemory);
  fake_cuda::fail("cuMemHostRegister", 712);
  EXPECT_EQ(driver.host_allocate(MiB, kRegistered, 2, &address), 712);
  EXPECT_EQ(driver.host_allocate(uint64_t{1} << 60, kRegistered, 2, &address), kDriverOutOfMemory);
  EXPECT_EQ(address, 77u);
  EXPECT_EQ(fake_cuda::current_context(), nullptr);
}

TEST_F(Cuda, KeepsPinnedMemoryThatTheDriverDoesNotTakeBack) {
  CudaDriver driver;
  for (const HostMemoryOrigin origin : {kAllocated, kRegistered}) {
    Address address = 0;
    ASSERT_EQ(driver.host_allocate(MiB, origin, 1, &address), kSuccess);
    fake_cuda::fail(origin == kAllocated ? "cuMemFreeHost" : "cuMemHostUnregister", 719);
    EXPECT_EQ(driver.host_free(address, origin), 719);
    reinterpret_cast<char*>(address)[MiB - 1] = 1;
    EXPECT_EQ(driver.host_free(address, origin), kSuccess);
    EXPECT_NE(driver.host_free(address, origin), kSuccess);
  }
}

TEST_F(Cuda, OpensSegmentsOfOtherProcesses) {
  CudaDriver driver;
  SegmentHandles* const handles = driver.segment_handles();
  ASSERT_NE(handles, nullptr);
  Address segment = 0;
  ASSERT_EQ(driver.allocate(0, MiB, &segment), kSuccess);
  ShareableHandle handle;
  ASSERT_EQ(handles->get(0, segment, &handle), kSuccess);
  Address opened = 0;
  ASSERT_EQ(handles->open(0, handle, &opened), kSuccess);
  EXPECT_NE(opened, segment);
  EXPECT_NE(handles->open(0, handle, &opened), kSuccess);
  EXPECT_EQ(handles->close(0, opened), kSuccess);
  EXPECT_NE(handles->close(0, opened), kSuccess);
  EXPECT_EQ(driver.free(0, segment), kSuccess);
}

TEST_F(Cuda, SharesNothingWhereTheDriverLacksACall) {
  for (const char* call : {"cuIpcGetMemHandle", "cuIpcOpenMemHandle", "cuIpcCloseMemHandle"}) {
    fake_cuda::reset();
    fake_cuda::hide(call);
    EXPECT_EQ(CudaDriver().segment_handles(), nullptr) << call;
  }
}

TEST_F(Cuda, HasNoPinnedMemoryWhereTheDriverLacksACall) {
  for (const char* call :
       {"cuMemHostAlloc", "cuMemFreeHost", "cuMemHostRegister", "cuMemHostUnregister"}) {
    fake_cuda::reset();
    fake_cuda::hide(call);
    AllocatorOptions options;
    options.driver = std::make_shared<CudaDriver>();
    EXPECT_FALSE(options.driver->has_host_memory()) << call;
    Address address = 77;
    EXPECT_EQ(options.driver->host_allocate(MiB, kAllocated, 1, &address), kDriverNotSupported);
    EXPECT_EQ(options.driver->host_free(77, kRegistered), kDriverNotSupported);
    Allocator allocator(options);
    allocator.free(allocator.allocate(MiB, 0, 0));
    try {
      allocator.pinned();
      ADD_FAILURE() << call;
    } catch (const Error& error) {
      EXPECT_EQ(error.status(), Status::kNotSupported);
    }
  }
}

TEST_F(Cuda, RefusesPinnedMemoryInAForkedChildAndLeavesTheParentsAlone) {
  AllocatorOptions options;
  options.driver = std::make_shared<CudaDriver>();
  auto allocator = std::make_unique<Allocator>(options);
  PinnedAllocator& pinned = allocator->pinned();
  const Address address = pinned.allocate(MiB, 0, 0);
  const Address cached = pinned.allocate(4 * MiB, 0, 0);
  pinned.free(cached);
  const pid_t child = fork();
  if (child == 0) {
    int status = 0;
    for (const uint64_t size : {64 * MiB, 8 * MiB}) {
      try {
        pinned.allocate(size, 0, 0);
        status = 1;
      } catch (const Error&) {
      }
    }
    try {
      pinned.empty_cache();
      status = 2;
    } catch (const Error&) {
    }
    allocator.reset();
    options.driver.reset();
    if (fake_cuda::calls("cuMemHostAlloc") != 2 || fake_cuda::calls("cuMemFreeHost") != 0)
      status = 3;
    _exit(status);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  reinterpret_cast<char*>(address)[0] = 1;
  pinned.free(address);
  pinned.empty_cache();
  EXPECT_EQ(fake_cuda::calls("cuMemFreeHost"), 2u);
}

TEST_F(Cuda, EndsPinnedMemoryQuietlyWhenEveryCallFails) {
  AllocatorOptions options;
  options.driver = std::make_shared<CudaDriver>();
  auto allocator = std::make_unique<Allocator>(options);
  PinnedAllocator& pinned = allocator->pinned();
  const Address address = pinned.allocate(MiB, 0, 0);
  const Address used = pinned.allocate(MiB, 0, 0);
  pinned.record_stream(used, 0, 0x50);
  fake_cuda::fail_always(700);
  EXPECT_THROW(pinned.allocate(8 * MiB, 0, 0), Error);
  EXPECT_NO_THROW(pinned.free(used));  // it waits for an event
  EXPECT_NO_THROW(pinned.free(address));
  EXPECT_THROW(pinned.empty_cache(), Error);
  EXPECT_EQ(allocator->check(), "");
  EXPECT_NO_THROW(allocator->free_all());
  EXPECT_NO_THROW(allocator.reset());
}

// ---- Ends of processes and devices

TEST_F(Cuda, RefusesEveryCallInAForkedChildAndLeavesTheParentsMemoryAlone) {
  AllocatorOptions options;
  options.driver = std::make_shared<CudaDriver>();
  auto allocator = std::make_unique<Allocator>(options);
  const Address address = allocator->allocate(MiB, 0, 0);
  const pid_t child = fork();
  if (child == 0) {
    int status = 1;
    try {
      allocator->allocate(64 * MiB, 0, 0);
    } catch (const Error& error) {
      const bool is_told = error.message().find("forked") != std::string::npos;
      status = is_told && fake_cuda::calls("cuMemAlloc") == 1 ? 0 : 2;
    }
    allocator->free(address);
    allocator.reset();
    options.driver.reset();
    if (fake_cuda::calls("cuMemFree") + fake_cuda::calls("cuDevicePrimaryCtxRelease") != 0)
      status = 3;
    _exit(status);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  allocator->free(address);
  EXPECT_EQ(allocator->allocate(64 * MiB, 0, 0) != 0, true);
  allocator->free_all();
}

// 700: a lost context; 4: the driver is being torn down.
TEST_F(Cuda, EndsQuietlyWhenEveryCallFails) {
  for (const int code : {700, 4}) {
    for (const char* config : {"", "expandable_segments:True"}) {
      fake_cuda::reset();
      AllocatorOptions options;
      options.driver = std::make_shared<CudaDriver>();
      options.config = config;
      auto allocator = std::make_unique<Allocator>(options);
      const Address address = allocator->allocate(MiB, 0, 0);
      const Address shared = allocator->allocate(30 * MiB, 0, 0x50);
      allocator->record_stream(shared, 0x60);
      fake_cuda::fail_always(code);
      EXPECT_THROW(allocator->allocate(64 * MiB, 0, 0), Error);
      EXPECT_THROW(allocator->free(shared), Error);
      EXPECT_NO_THROW(allocator->free(address));
      EXPECT_THROW(allocator->empty_cache(0), Error);
      EXPECT_EQ(allocator->check(), "");
      EXPECT_NO_THROW(allocator->free_all());
      EXPECT_NO_THROW(allocator.reset());
    }
  }
}

}  // namespace
}  // namespace cachalot
