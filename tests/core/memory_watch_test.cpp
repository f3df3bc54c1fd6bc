// SPDX-License-Identifier: MIT OR Apache-2.0
// Poison and red zones: what is written where and when, and what is found.
#include "alloc/debug/memory_watch.h"

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "../test_seed.h"
#include "alloc/allocator.h"
#include "alloc/trace/contexts.h"
#include "base/text.h"
#include "device/host_driver.h"
#include "device/sim_driver.h"

namespace cachalot {
namespace {

constexpr DebugOptions kPoison{.poison = true};
constexpr DebugOptions kRedZones{.red_zones = true};

// A simulated device that keeps what is written, and says who wrote it.
class TouchableDriver final : public SimDriver {
 public:
  bool can_touch_memory() const override { return true; }
  DriverCode fill(int, Address address, uint64_t size, uint8_t byte, Stream stream) override {
    fills.push_back(format("%llu x %02x @%llx", static_cast<unsigned long long>(size), byte,
                           static_cast<unsigned long long>(stream)));
    for (uint64_t i = 0; i < size; i++) bytes[address + i] = byte;
    return fill_code;
  }
  DriverCode read(int, Address address, uint64_t size, void* out, Stream) override {
    reads++;
    for (uint64_t i = 0; i < size; i++) static_cast<uint8_t*>(out)[i] = bytes[address + i];
    return read_code;
  }

  std::unordered_map<Address, uint8_t> bytes;
  std::vector<std::string> fills;
  int reads = 0;
  DriverCode fill_code = kSuccess;
  DriverCode read_code = kSuccess;
};

using Texts = std::vector<std::string>;

class Watched : public testing::Test {
 protected:
  void make(DebugOptions debug, const std::string& config = "", ServingOptions serving = {}) {
    AllocatorOptions options;
    options.serving = serving;
    options.driver = driver;
    options.config = config;
    options.debug = debug;
    options.check_every_call = true;
    options.log = [this](LogLevel level, const char* text) {
      if (level == LogLevel::kDamage) damage.emplace_back(text);
    };
    allocator = std::make_unique<Allocator>(options);
  }

  void begin_capture() {
    allocator->pool_begin(0, {1, 0}, [](Stream) { return true; });
    driver->machine().begin_capture(0, 0x10, 1);
    allocator->capture_begin(0);
  }
  void end_capture() {
    driver->machine().end_capture(0, 1);
    allocator->capture_end(0);
    allocator->pool_end(0, {1, 0});
  }

  Texts take_fills() { return std::exchange(driver->fills, {}); }

  std::shared_ptr<TouchableDriver> driver = std::make_shared<TouchableDriver>();
  Texts damage;
  std::unique_ptr<Allocator> allocator;
};

using Poison = Watched;
using RedZone = Watched;

TEST_F(Watched, TouchesNothingWhereNothingWasAskedFor) {
  make({});
  const Address address = allocator->allocate(1000, 0, 0);
  EXPECT_EQ(allocator->block(address).requested, 1000u);
  allocator->free(address);
  EXPECT_EQ(take_fills(), Texts{});
  EXPECT_EQ(driver->reads, 0);
}

TEST_F(Watched, IsRefusedByADriverWhoseMemoryCannotBeTouched) {
  for (const DebugOptions debug : {kPoison, kRedZones}) {
    AllocatorOptions options;
    options.driver = std::make_shared<SimDriver>();
    options.debug = debug;
    try {
      Allocator refused(options);
      FAIL();
    } catch (const Error& error) {
      EXPECT_EQ(error.status(), Status::kNotSupported);
      EXPECT_EQ(error.message(),
                "poison and red zones need memory that can be written, which the driver sim does "
                "not have");
    }
  }
}

// ---- Poison

TEST_F(Poison, FillsTheWholeBlockWithNaNsOnItsStream) {
  make(kPoison);
  const Address address = allocator->allocate(1000, 0, 0x20);
  EXPECT_EQ(take_fills(), Texts{});
  allocator->free(address);
  EXPECT_EQ(take_fills(), Texts{"1024 x ff @20"});
  double value = 0;
  ASSERT_EQ(driver->read(0, address, sizeof value, &value, 0), kSuccess);
  EXPECT_TRUE(value != value);
}

TEST_F(Poison, WaitsForTheStreamsThatUseTheBlock) {
  make(kPoison);
  const Address address = allocator->allocate(1000, 0, 0x20);
  driver->machine().queue_work(0, 0x30);
  allocator->record_stream(address, 0x30);
  allocator->free(address);
  EXPECT_EQ(take_fills(), Texts{}) << "the other stream still works on it";
  driver->machine().finish_stream(0, 0x30);
  allocator->free(allocator->allocate(512, 0, 0x40));
  EXPECT_EQ(take_fills(), (Texts{"1024 x ff @20", "512 x ff @40"}));
}

TEST_F(Poison, IsNoPartOfACapture) {
  make(kPoison);
  const Address before = allocator->allocate(1000, 0, 0x10);
  begin_capture();
  allocator->free(before);
  allocator->free(allocator->allocate(1000, 0, 0x10));
  EXPECT_EQ(take_fills(), Texts{});
  allocator->free(allocator->allocate(1000, 0, 0x20));
  EXPECT_EQ(take_fills(), Texts{"1024 x ff @20"}) << "this stream is not captured";
  end_capture();
  allocator->free(allocator->allocate(1000, 0, 0x10));
  EXPECT_EQ(take_fills(), Texts{"1024 x ff @10"});
}

TEST_F(Poison, LeavesThePagesOfASourceAlone) {
  struct Source final : PoolSource {
    Address allocate(uint64_t, int, Stream) override { return 0x900000000000; }
    void free(Address, uint64_t, int, Stream) override {}
  };
  make({.poison = true, .red_zones = true});
  allocator->pool_create(0, {0, 1}, {.source = std::make_shared<Source>()});
  allocator->pool_begin(0, {0, 1}, [](Stream) { return true; });
  allocator->free(allocator->allocate(1000, 0, 0));
  EXPECT_EQ(take_fills(), Texts{});
  allocator->pool_end(0, {0, 1});
}

// Addresses and numbers of a random run.
std::string decisions(DebugOptions debug, const std::string& config) {
  auto driver = std::make_shared<TouchableDriver>();
  AllocatorOptions options;
  options.driver = driver;
  options.config = config;
  options.debug = debug;
  Allocator allocator(options);
  Random random(test_seed());
  std::vector<Address> live;
  std::string text;
  for (int i = 0; i < 300; i++) {
    if (live.empty() || random.one_in(2)) {
      live.push_back(allocator.allocate(random.of_any_magnitude(1, 100 * KiB), 0, random.below(2)));
      text += hex_address(live.back()) + " ";
    } else {
      std::swap(random.pick(live), live.back());
      allocator.record_stream(live.back(), random.below(3));
      allocator.free(live.back());
      live.pop_back();
    }
  }
  const Stats stats = allocator.stats(0);
  text += format("%lld of %lld", static_cast<long long>(stats.requested_bytes.all.peak),
                 static_cast<long long>(stats.reserved_bytes.all.peak));
  allocator.free_all();
  return text;
}

TEST(PoisonedMemory, ChangesNoDecision) {
  for (const char* config : {"", "expandable_segments:True"})
    EXPECT_EQ(decisions(kPoison, config), decisions({}, config));
}

// Otherwise the lender's work would not be ordered with the borrower's.
TEST_F(Poison, IsQueuedOnTheStreamThatHasBorrowedTheBlock) {
  make({.poison = true, .red_zones = true}, "", {.is_on = true});
  const Address lent = allocator->allocate(1000, 0, 0x20);
  allocator->free(lent);
  take_fills();
  ASSERT_EQ(allocator->allocate(1000, 0, 0x30), lent);
  EXPECT_EQ(take_fills(), Texts{"536 x fb @30"});
  driver->bytes[lent + 1000] = 1;
  EXPECT_TRUE(allocator->check_red_zones().find("stream 0x30") != std::string::npos);
  allocator->free(lent);
  EXPECT_EQ(take_fills(), Texts{"1536 x ff @30"});
  EXPECT_EQ(damage.size(), 1u);
}

TEST_F(Poison, IsQueuedOnNoStreamThatHasEnded) {
  make({.poison = true, .red_zones = true}, "", {.is_on = true});
  const Address own = allocator->allocate(1000, 0, 0x20);
  const Address lent = allocator->allocate(5 * MiB, 0, 0x20);
  allocator->free(lent);
  ASSERT_EQ(allocator->allocate(5 * MiB, 0, 0x30), lent);
  take_fills();
  allocator->stream_ended(0, 0x30);
  allocator->free(lent);
  EXPECT_EQ(take_fills(), Texts{}) << "the borrower";
  allocator->stream_ended(0, 0x20);
  EXPECT_EQ(allocator->check_red_zones(), "");
  allocator->free(own);
  EXPECT_EQ(take_fills(), Texts{}) << "the stream of the range";
  allocator->free(allocator->allocate(1000, 0, 0x20));
  EXPECT_EQ(take_fills(), (Texts{"536 x fb @20", "1536 x ff @20"})) << "another one has the handle";
}

// ---- Red zones

TEST_F(RedZone, LiesBehindTheCallersBytesUpToTheEndOfTheBlock) {
  make(kRedZones);
  const Address address = allocator->allocate(1000, 0, 0x20);
  EXPECT_EQ(allocator->block(address).requested, 1512u) << "what was asked for, and 512 bytes more";
  EXPECT_EQ(allocator->block(address).size, 1536u);
  EXPECT_EQ(take_fills(), Texts{"536 x fb @20"});
  EXPECT_FALSE(driver->bytes.contains(address + 999));
  EXPECT_EQ(driver->bytes[address + 1000], 0xFB);
  allocator->free(address);
  EXPECT_EQ(damage, Texts{});
  EXPECT_EQ(take_fills(), Texts{});
}

TEST_F(RedZone, TellsOfAWriteBehindTheBlockWhenItIsFreed) {
  make(kRedZones);
  const Address address = allocator->allocate(1000, 0, 0x20);
  driver->bytes[address + 1002] = 0x3f;
  allocator->free(address);
  EXPECT_EQ(damage, Texts{"the block at " + hex_address(address) +
                          " of 1000 bytes (device 0, stream 0x20) was written beyond its end: byte "
                          "3 after it is 0x3f"});
  EXPECT_EQ(allocator->allocate(1000, 0, 0x20), address) << "the free itself has worked";
  allocator->free(address);
  EXPECT_EQ(damage.size(), 1u);
}

TEST_F(RedZone, TellsTheLabelOfTheHandOut) {
  make(kRedZones);
  push_label("attention");
  const Address address = allocator->allocate(10, 0, 0);
  pop_label();
  driver->bytes[address + 10] = 0;
  allocator->free(address);
  ASSERT_EQ(damage.size(), 1u);
  EXPECT_TRUE(damage[0].find("(device 0, stream 0x0, label attention)") != std::string::npos)
      << damage[0];
}

TEST_F(RedZone, IsLookedAtToItsLastByte) {
  make(kRedZones);
  const Address address = allocator->allocate(2 * MiB - 1000, 0, 0);
  const uint64_t size = allocator->block(address).size;
  driver->bytes[address + size - 1] = 0;
  allocator->free(address);
  EXPECT_EQ(damage.size(), 1u);
}

TEST_F(RedZone, IsLookedAtOnDemand) {
  make(kRedZones);
  const Address intact = allocator->allocate(1000, 0, 0);
  const Address written = allocator->allocate(1000, 0, 0);
  EXPECT_EQ(allocator->check_red_zones(), "");
  driver->bytes[written + 1000] = 1;
  EXPECT_TRUE(allocator->check_red_zones().starts_with("the block at " + hex_address(written)));
  allocator->free(written);
  EXPECT_EQ(allocator->check_red_zones(), "");
  allocator->free(intact);
  EXPECT_EQ(damage.size(), 1u) << "only frees report";
}

TEST_F(RedZone, SeesWhatIsWrittenUntilTheFreeCompletes) {
  make(kRedZones);
  const Address address = allocator->allocate(1000, 0, 0x20);
  driver->machine().queue_work(0, 0x30);
  allocator->record_stream(address, 0x30);
  allocator->free(address);
  driver->bytes[address + 1000] = 1;
  driver->machine().finish_stream(0, 0x30);
  EXPECT_EQ(damage, Texts{});
  allocator->free(allocator->allocate(512, 0, 0x40));
  EXPECT_EQ(damage.size(), 1u);
}

TEST_F(RedZone, IsNeitherMadeNorLookedAtInACapture) {
  make(kRedZones);
  const Address before = allocator->allocate(1000, 0, 0x10);
  take_fills();
  driver->bytes[before + 1000] = 1;
  begin_capture();
  allocator->free(before);
  const Address inside = allocator->allocate(1000, 0, 0x10);
  end_capture();
  allocator->free(inside);
  EXPECT_EQ(take_fills(), Texts{});
  EXPECT_EQ(driver->reads, 0);
  EXPECT_EQ(damage, Texts{});
}

// It is filled by a wait for the device, which ends captures of all streams.
TEST_F(RedZone, OfABlockOfAllStreamsIsMadeWhileNoneIsCaptured) {
  make(kRedZones);
  allocator->free(allocator->allocate(1000, 0, kAllStreams));
  EXPECT_EQ(take_fills().size(), 1u);
  EXPECT_EQ(driver->reads, 1);
  begin_capture();
  allocator->allocate(1000, 0, kAllStreams);
  EXPECT_EQ(take_fills(), Texts{});
  end_capture();
  allocator->allocate(1000, 0, kAllStreams);
  EXPECT_EQ(take_fills().size(), 1u);
}

TEST_F(RedZone, IsNotTrustedWhereTheDriverFailed) {
  make(kRedZones);
  driver->fill_code = 700;
  const Address unfilled = allocator->allocate(1000, 0, 0);
  driver->bytes[unfilled + 1000] = 1;
  allocator->free(unfilled);
  driver->fill_code = kSuccess;
  const Address unread = allocator->allocate(1000, 0, 0);
  driver->bytes[unread + 1000] = 1;
  driver->read_code = 700;
  allocator->free(unread);
  EXPECT_EQ(damage, Texts{});
}

// ---- Both, in real memory

// Callers write all of their bytes and sometimes one more.
void expect_each_overrun_found(const std::string& config) {
  Texts damage;
  AllocatorOptions options;
  options.driver = std::make_shared<HostDriver>(HostOptions{256 * MiB, 1});
  options.config = config;
  options.debug = {.poison = true, .red_zones = true};
  options.check_every_call = true;
  options.log = [&](LogLevel, const char* text) { damage.emplace_back(text); };
  Allocator allocator(options);
  Random random(test_seed());
  std::map<Address, uint64_t> live;
  Texts expected;
  for (int i = 0; i < 2000; i++) {
    if (live.size() < 20 && random.one_in(2)) {
      const uint64_t size = random.of_any_magnitude(1, 4 * MiB);
      const Address address = allocator.allocate(size, 0, random.below(2));
      std::memset(reinterpret_cast<void*>(address), 0x11, size);
      live[address] = size;
    } else if (!live.empty()) {
      auto chosen = std::next(live.begin(), static_cast<long>(random.below(live.size())));
      const auto [address, size] = *chosen;
      live.erase(chosen);
      if (random.one_in(10)) {
        const uint64_t beyond = random.below(512);
        *reinterpret_cast<uint8_t*>(address + size + beyond) = 0x11;
        expected.push_back(hex_address(address) +
                           format(" byte %llu", static_cast<unsigned long long>(beyond + 1)));
      }
      allocator.free(address);
      EXPECT_EQ(*reinterpret_cast<uint8_t*>(address), 0xFF);
    }
  }
  ASSERT_EQ(damage.size(), expected.size());
  for (size_t i = 0; i < damage.size(); i++) {
    const size_t blank = expected[i].find(' ');
    EXPECT_TRUE(
        damage[i].find(" at " + expected[i].substr(0, blank) + " of ") != std::string::npos &&
        damage[i].find(expected[i].substr(blank) + " after it is 0x11") != std::string::npos)
        << damage[i] << ", expected " << expected[i];
  }
  for (const auto& [address, size] : live) allocator.free(address);
}

TEST(RedZones, FindEachOverrunAndNothingElse) { expect_each_overrun_found(""); }

TEST(RedZones, FindEachOverrunInExpandableSegments) {
  expect_each_overrun_found("expandable_segments:True");
}

}  // namespace
}  // namespace cachalot
