// SPDX-License-Identifier: MIT OR Apache-2.0
// The answers to calls that a backend lacks, what comes before them, and who has hits.
#include "alloc/backend/backend.h"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "alloc/allocator.h"
#include "alloc/native/hot_path.h"
#include "alloc/tenants/tenants.h"
#include "device/sim_driver.h"

namespace cachalot {
namespace {

constexpr PoolId kPool{0, 1};
constexpr int kNoDevice = 7;
constexpr const char* kNoDeviceText = "device 7 does not exist; the driver has 1";

// What the call threw, as "status: text"; "" if it came back.
std::string answer(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return std::to_string(static_cast<int>(error.status())) + ": " + error.message();
  }
  return "";
}
std::string not_supported(const std::string& text) { return "3: " + text; }
std::string invalid_argument(const std::string& text) { return "1: " + text; }
std::string not_yet(const std::string& backend, const std::string& call) {
  return not_supported(backend + " does not yet support " + call +
                       ". If you need it, please file an issue describing your use case.");
}

// Has what every backend must have, and nothing else.
class BareBackend final : public Backend {
 public:
  const char* name() const override { return "bare"; }
  DeviceBackend& device(int) override { throw_invalid_state("not asked for"); }
  Address allocate(const Request&) override { return 0; }
  void free(Address, std::optional<Stream>) override {}
  void record_stream(Address, Stream, std::optional<Stream>) override {}
  BlockInfo block(Address) override { return {}; }
  std::pair<Address, uint64_t> base_allocation(Address) override { return {}; }
  void annotate(Address, const std::string&) override {}
  uint64_t live_blocks() override { return 0; }
  void free_all() override {}
  std::string check() override { return ""; }
};

class BareDevice final : public DeviceBackend {
 public:
  void empty_cache(PoolId, std::optional<Stream>) override {}
  void release_context() override {}
  uint64_t largest_block(uint64_t, Stream) override { return 0; }
  void trim(const TrimGoal&, uint64_t*) override {}
  void set_memory_fraction(double) override {}
  double memory_fraction() override { return 1; }
  void set_memory_limit(uint64_t) override {}
  uint64_t memory_limit() override { return 0; }
  void give_peer_access(int) override {}
  Stats stats() override { return {}; }
  void reset_peak_stats() override {}
  void reset_accumulated_stats() override {}
  DeviceTotals totals() override { return {}; }
  void pool_begin(PoolId, PoolFilter) override {}
  void pool_end(PoolId, std::optional<Stream>) override {}
};

TEST(BackendDefaults, RefuseByTheReferencesNameOfTheCall) {
  BareBackend bare;
  const std::pair<const char*, std::function<void()>> calls[] = {
      {"recordHistory", [&] { bare.record_history(HistoryOptions{}); }},
      {"attachAllocatorTraceTracker", [&] { bare.observe_trace(nullptr, {}); }},
      {"attachOutOfMemoryObserver", [&] { bare.observe_out_of_memory(nullptr); }},
      {"attachOomRejectionObserver", [&] { bare.observe_rejection(nullptr); }},
      {"createOrIncrefPool", [&] { bare.pool_create(0, kPool, {}); }},
      {"setUseOnOOM", [&] { bare.pool_set_use_on_oom(0, kPool, true); }},
      {"setNoSplit", [&] { bare.pool_set_no_split(0, kPool); }},
      {"getPoolUseCount", [&] { bare.pool_use_count(0, kPool); }},
      {"checkPoolLiveAllocations", [&] { bare.pool_has_live(0, kPool, {}); }},
  };
  for (const auto& [name, call] : calls) EXPECT_EQ(answer(call), not_yet("bare", name));
}

TEST(BackendDefaults, RefuseTheOtherCallsThatNeedBlocksOfTheLibraryInTheirOwnWords) {
  BareBackend bare;
  EXPECT_EQ(answer([&] { bare.snapshot({}, true); }),
            not_supported("Calling snapshot with backend:cudaMallocAsync is not meaningful. (For "
                          "backend:native, snapshot returns a detailed summary of all blocks "
                          "tracked by the allocator, but the cudaMallocAsync backend does not "
                          "track individual blocks.)"));
  EXPECT_EQ(answer([&] { bare.expandable_segments(0); }),
            not_supported("CUDAMallocAsyncAllocator does not yet support "
                          "getExpandableSegmentSizes."));
  EXPECT_EQ(answer([&] { bare.report({}); }),
            not_supported("there are no reports with backend:cudaMallocAsync: the driver's pool "
                          "keeps its blocks to itself"));
  EXPECT_EQ(answer([&] { bare.register_free_memory_callback(nullptr); }),
            not_supported("backend:cudaMallocAsync never calls free-memory callbacks"));
  EXPECT_EQ(answer([&] { bare.start_tenants(); }),
            not_supported("backend:cudaMallocAsync has no blocks of ours to count: no tenants"));
  EXPECT_EQ(answer([&] { bare.detach(1); }), invalid_argument("no observer has the id 1"));
}

TEST(BackendDefaults, IgnoreTheSwitchOfTheCacheAndTakeAnySettings) {
  BareBackend bare;
  bare.set_caching_enabled(false);
  EXPECT_TRUE(bare.is_caching());
  EXPECT_TRUE(bare.is_caching_enabled());
  Settings settings;
  settings.expandable_segments = true;
  EXPECT_EQ(answer([&] { bare.require_possible(settings); }), "");
  EXPECT_EQ(bare.context_of(512), kNoContext);
  EXPECT_EQ(bare.check_red_zones(), "");
}

TEST(DeviceBackendDefaults, IgnoreMarksAndReleasesAndHaveNoRows) {
  BareDevice bare;
  EXPECT_EQ(answer([&] {
              bare.capture_end();
              bare.capture_begin();
              bare.pool_release(kPool);
              bare.set_settings({});
            }),
            "");
  EXPECT_TRUE(bare.pool_stats().empty());
  EXPECT_TRUE(bare.stats_of_existing_pools().empty());
  EXPECT_TRUE(bare.label_stats().empty());
  EXPECT_EQ(bare.expandable_totals(), std::make_pair(uint64_t{0}, uint64_t{0}));
}

// ---- The order of checks

std::unique_ptr<Allocator> allocator_of(const std::string& config, bool check_every_call = false) {
  AllocatorOptions options;
  options.driver = std::make_shared<SimDriver>();
  options.config = config;
  options.check_every_call = check_every_call;
  return std::make_unique<Allocator>(options);
}

// The calls that backend:cudaMallocAsync refuses for a device.
using DeviceCall = std::function<void(Allocator&, int device)>;
const DeviceCall kRefused[] = {
    [](Allocator& a, int i) { a.pool_create(i, kPool, {}); },
    [](Allocator& a, int i) { a.pool_set_use_on_oom(i, kPool, true); },
    [](Allocator& a, int i) { a.pool_set_no_split(i, kPool); },
    [](Allocator& a, int i) { a.pool_use_count(i, kPool); },
    [](Allocator& a, int i) { a.pool_has_live(i, kPool, {}); },
    [](Allocator& a, int i) { a.expandable_segments(i); },
    [](Allocator& a, int i) { a.report({.size = 1, .device = i}); },
};

TEST(AsyncBackend, RefusesACallBeforeItAsksWhetherTheDeviceExists) {
  const auto async = allocator_of("backend:cudaMallocAsync");
  for (const DeviceCall& call : kRefused) {
    const std::string refusal = answer([&] { call(*async, 0); });
    EXPECT_EQ(refusal.rfind("3: ", 0), 0u) << refusal;
    EXPECT_EQ(answer([&] { call(*async, kNoDevice); }), refusal);
  }
  EXPECT_EQ(answer([&] { async->pool_set_no_split(0, kPool); }),
            not_yet("cudaMallocAsync", "setNoSplit"));
}

TEST(AsyncBackend, RefusesAnExactAddressAfterItHasLookedAtTheDevice) {
  const auto async = allocator_of("backend:cudaMallocAsync");
  EXPECT_EQ(answer([&] { async->allocate({.size = 0, .at = 1}); }),
            not_yet("cudaMallocAsync", "allocateWithAddress"));
  EXPECT_EQ(answer([&] { async->allocate({.size = 512, .device = kNoDevice, .at = 1}); }),
            invalid_argument(kNoDeviceText));
}

TEST(Backends, AskWhetherTheDeviceExistsInCallsThatTheyServeOrIgnore) {
  for (const char* const config : {"backend:cudaMallocAsync", "backend:native"}) {
    const auto allocator = allocator_of(config);
    const DeviceCall calls[] = {
        [](Allocator& a, int i) { a.stats(i); },
        [](Allocator& a, int i) { a.pool_stats(i); },
        [](Allocator& a, int i) { a.label_stats(i); },
        [](Allocator& a, int i) { a.pool_begin(i, kPool, nullptr); },
        [](Allocator& a, int i) { a.pool_end(i, kPool); },
        [](Allocator& a, int i) { a.pool_release(i, kPool); },
        [](Allocator& a, int i) { a.capture_begin(i); },
        [](Allocator& a, int i) { a.enable_peer_access(0, i); },
        [](Allocator& a, int i) { a.enable_peer_access(i, 0); },
    };
    for (const DeviceCall& call : calls)
      for (const int missing : {kNoDevice, -1})
        EXPECT_NE(answer([&] { call(*allocator, missing); }).find("does not exist"),
                  std::string::npos);
  }
}

TEST(NativeBackend, RefusesADeviceThatDoesNotExist) {
  const auto native = allocator_of("");
  for (const DeviceCall& call : kRefused)
    EXPECT_EQ(answer([&] { call(*native, kNoDevice); }), invalid_argument(kNoDeviceText));
}

// ---- Settings

class SimDriverWithoutPages final : public SimDriver {
 public:
  bool supports_virtual_memory() const override { return false; }
};

TEST(Settings, ThatNeedVirtualMemoryAreRefusedByTheBackendThatUsesItOnly) {
  constexpr const char* kExpandable = "expandable_segments:True";
  const std::string refusal =
      not_supported("expandable_segments needs virtual memory, which the driver sim does not have");
  AllocatorOptions options;
  options.driver = std::make_shared<SimDriverWithoutPages>();
  options.config = kExpandable;
  EXPECT_EQ(answer([&] { const Allocator made(options); }), refusal);
  options.config = "";
  Allocator native(options);
  const auto set = [](Settings& settings) { settings.expandable_segments = true; };
  EXPECT_EQ(answer([&] { native.configure(kExpandable); }), refusal);
  EXPECT_EQ(answer([&] { native.change_settings(set); }), refusal);
  EXPECT_FALSE(native.settings().expandable_segments);
  options.config = "backend:cudaMallocAsync";
  Allocator async(options);
  EXPECT_EQ(answer([&] { async.configure(kExpandable); }), "");
  EXPECT_EQ(answer([&] { async.change_settings(set); }), "");
  EXPECT_TRUE(async.settings().expandable_segments);
}

// ---- Hits

bool has_hits(Allocator& allocator) {
  const Address block = allocator.allocate(512, 0, 0);
  allocator.free(block);
  const Address hit = allocator.hits().try_allocate(512, 0, 0);
  return hit != 0 && allocator.hits().try_free(hit);
}

TEST(Hits, AreTriedOnlyWhileRequestsAreCachedAndNothingAuditsThem) {
  const auto native = allocator_of("");
  EXPECT_TRUE(has_hits(*native));
  native->set_caching_enabled(false);
  EXPECT_FALSE(has_hits(*native));
  native->set_caching_enabled(true);
  EXPECT_TRUE(has_hits(*native));
  EXPECT_FALSE(has_hits(*allocator_of("", true)));
}

TEST(Hits, AreNeverTriedWhereTheDriverDoesTheCaching) {
  const auto async = allocator_of("backend:cudaMallocAsync");
  async->set_caching_enabled(true);
  EXPECT_FALSE(has_hits(*async));
  EXPECT_STREQ(async->backend_name(), "cudaMallocAsync");
}

}  // namespace
}  // namespace cachalot
