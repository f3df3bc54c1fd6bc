// SPDX-License-Identifier: MIT OR Apache-2.0
// What a tool hears through NVTX: heaps and regions must describe the blocks in use, byte for byte,
// and balance in the end.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>

#include "../test_seed.h"
#include "cachalot/cachalot.h"

namespace cachalot_test {
namespace {

constexpr uint64_t MiB = uint64_t{1} << 20;

// The state that the calls so far lead to, each checked against the one before it.
class Announced {
 public:
  using Regions = std::map<uint64_t, uint64_t>;  // bytes, by address

  void hear(const std::string& calls) {
    std::istringstream lines(calls);
    for (std::string line; std::getline(lines, line);) hear_line(line);
  }

  const Regions& heaps() const { return heaps_; }
  const Regions& regions() const { return regions_; }
  // Blocks as the parts that lie in each heap.
  Regions parts_of(const Regions& blocks) const {
    Regions parts;
    for (const auto& [address, size] : blocks) {
      for (uint64_t begin = address; begin < address + size; begin += parts[begin]) {
        const auto& [heap, heap_size] = *std::prev(heaps_.upper_bound(begin));
        parts[begin] = std::min(address + size, heap + heap_size) - begin;
      }
    }
    return parts;
  }
  const std::map<uint64_t, std::string>& names() const { return names_; }
  int domains() const { return domains_; }

 private:
  void hear_line(const std::string& line) {
    std::istringstream words(line);
    std::string call;
    words >> call;
    if (call == "domain+") {
      EXPECT_EQ(line, "domain+ cachalot ");
      domains_++;
    } else if (call == "domain-") {
      EXPECT_TRUE(heaps_.empty());
      domains_--;
    } else if (call == "heap+") {
      const uint64_t address = next(words);
      EXPECT_TRUE(heaps_.emplace(address, next(words)).second) << line;
    } else if (call == "heap-") {
      remove_heap(next(words), line);
    } else if (call == "region+") {
      const uint64_t heap = next(words);
      const uint64_t address = next(words);
      EXPECT_TRUE(regions_.emplace(address, next(words)).second) << line;
      expect_inside(heap, address, line);
    } else if (call == "region=") {
      const uint64_t address = next(words);
      ASSERT_TRUE(regions_.contains(address)) << line;
      regions_[address] = next(words);
      expect_inside(std::prev(heaps_.upper_bound(address))->first, address, line);
    } else if (call == "region-") {
      const uint64_t address = next(words);
      EXPECT_EQ(regions_.erase(address), 1u) << line;
      names_.erase(address);
    } else if (call == "name") {
      const uint64_t address = next(words);
      EXPECT_TRUE(regions_.contains(address)) << line;
      words >> names_[address];
    } else {
      ADD_FAILURE() << line;
    }
  }

  void remove_heap(uint64_t address, const std::string& line) {
    ASSERT_TRUE(heaps_.contains(address)) << line;
    const auto region = regions_.lower_bound(address);
    EXPECT_TRUE(region == regions_.end() || region->first >= address + heaps_[address])
        << line << " while a region is in it";
    heaps_.erase(address);
  }

  void expect_inside(uint64_t heap, uint64_t address, const std::string& line) {
    ASSERT_TRUE(heaps_.contains(heap)) << line;
    EXPECT_TRUE(address >= heap && address + regions_[address] <= heap + heaps_[heap]) << line;
    const auto after = regions_.upper_bound(address);
    EXPECT_TRUE(after == regions_.end() || address + regions_[address] <= after->first) << line;
  }

  static uint64_t next(std::istringstream& words) {
    uint64_t number = 0;
    words >> number;
    return number;
  }

  Regions heaps_;
  Regions regions_;
  std::map<uint64_t, std::string> names_;
  int domains_ = 0;
};

class Nvtx : public testing::Test {
 protected:
  static void SetUpTestSuite() { setenv("NVTX_INJECTION64_PATH", CACHALOT_FAKE_NVTX_TOOL, 1); }

  Nvtx() : tool_(dlopen(CACHALOT_FAKE_NVTX_TOOL, RTLD_NOW)) {
    if (!tool_) throw std::runtime_error(dlerror());
    calls_ = reinterpret_cast<const char* (*)(int)>(dlsym(tool_, "fake_nvtx_calls"));
    calls_(1);
  }
  ~Nvtx() override {
    close();
    dlclose(tool_);
  }

  void open(uint32_t debug, const char* config = "") {
    cachalot_allocator_options options = {};
    options.struct_size = sizeof options;
    options.config = config;
    options.no_caching = -1;
    options.debug = debug;
    options.check_every_call = 1;
    ok(cachalot_driver_open("host:512MiB", &options.driver, &error));
    ok(cachalot_allocator_create(&options, &allocator, &error));
    cachalot_driver_destroy(options.driver);
  }
  void close() {
    if (allocator) ok(cachalot_allocator_destroy_all(allocator, &error));
    allocator = nullptr;
  }

  void ok(cachalot_status status) { EXPECT_EQ(status, CACHALOT_OK) << error.message; }
  cachalot_address allocate(uint64_t size, cachalot_stream stream = 0) {
    cachalot_address address = 0;
    ok(cachalot_allocate(allocator, size, 0, stream, &address, &error));
    return address;
  }
  void free(cachalot_address address) { ok(cachalot_free(allocator, address, &error)); }
  void empty_cache() { ok(cachalot_empty_cache(allocator, &error)); }

  const Announced& announced() {
    announced_.hear(calls_(1));
    return announced_;
  }
  void expect_nothing_left() {
    EXPECT_TRUE(announced().heaps().empty());
    EXPECT_TRUE(announced().regions().empty());
    EXPECT_EQ(announced().domains(), 0);
  }

  cachalot_allocator* allocator = nullptr;
  cachalot_error error = CACHALOT_ERROR_INIT;
  const char* (*calls_)(int) = nullptr;

 private:
  void* tool_;
  Announced announced_;
};

using Regions = Announced::Regions;

TEST_F(Nvtx, HearsNothingUnlessItIsAskedFor) {
  for (const uint32_t debug : {0u, CACHALOT_DEBUG_POISON | CACHALOT_DEBUG_RED_ZONES}) {
    open(debug);
    free(allocate(1000));
    empty_cache();
    close();
    EXPECT_STREQ(calls_(1), "");
  }
}

TEST_F(Nvtx, HearsOfNoDomainBeforeThereIsMemory) {
  open(CACHALOT_DEBUG_NVTX);
  EXPECT_STREQ(calls_(1), "");
}

TEST_F(Nvtx, HearsOfASegmentAsAHeapAndOfABlockAsTheBytesThatWereRequested) {
  open(CACHALOT_DEBUG_NVTX);
  const cachalot_address block = allocate(1000);
  EXPECT_EQ(announced().heaps(), (Regions{{block, 2 * MiB}}));
  EXPECT_EQ(announced().regions(), (Regions{{block, 1000}}));
  free(block);
  EXPECT_EQ(announced().heaps(), (Regions{{block, 2 * MiB}})) << "still cached";
  EXPECT_EQ(announced().regions(), Regions{});
  empty_cache();
  EXPECT_EQ(announced().heaps(), Regions{});
  close();
  expect_nothing_left();
}

TEST_F(Nvtx, HearsTheLabelAsTheName) {
  open(CACHALOT_DEBUG_NVTX);
  ok(cachalot_label_push("weights", &error));
  const cachalot_address named = allocate(1000);
  ok(cachalot_label_pop(&error));
  allocate(1000);
  EXPECT_EQ(announced().names(), (std::map<uint64_t, std::string>{{named, "weights"}}));
}

TEST_F(Nvtx, HearsOfAFreeWhenItCompletes) {
  open(CACHALOT_DEBUG_NVTX);
  const cachalot_address block = allocate(1000);
  ok(cachalot_record_stream(allocator, block, 0x10, &error));
  free(block);
  EXPECT_EQ(announced().regions(), (Regions{{block, 1000}})) << "another stream may use it";
  const cachalot_address other = allocate(500);
  EXPECT_EQ(announced().regions(), (Regions{{other, 500}}));
}

TEST_F(Nvtx, HearsOfExpandableSegmentsPageByPage) {
  open(CACHALOT_DEBUG_NVTX, "expandable_segments:True");
  const cachalot_address block = allocate(50 * MiB - 1);
  EXPECT_EQ(
      announced().heaps(),
      (Regions{{block, 20 * MiB}, {block + 20 * MiB, 20 * MiB}, {block + 40 * MiB, 20 * MiB}}));
  EXPECT_EQ(
      announced().regions(),
      (Regions{{block, 20 * MiB}, {block + 20 * MiB, 20 * MiB}, {block + 40 * MiB, 10 * MiB - 1}}));
  const cachalot_address behind = allocate(30 * MiB);
  EXPECT_EQ(announced().heaps().size(), 4u);
  EXPECT_EQ(announced().regions(),
            announced().parts_of({{block, 50 * MiB - 1}, {behind, 30 * MiB}}));
  free(block);
  empty_cache();
  EXPECT_EQ(announced().heaps(),
            (Regions{{block + 40 * MiB, 20 * MiB}, {block + 60 * MiB, 20 * MiB}}));
  EXPECT_EQ(announced().regions(), (Regions{{behind, 10 * MiB}, {behind + 10 * MiB, 20 * MiB}}));
  close();
  expect_nothing_left();
}

TEST_F(Nvtx, HearsOfTheBytesThatPoisonAndRedZonesTouch) {
  open(CACHALOT_DEBUG_NVTX | CACHALOT_DEBUG_POISON | CACHALOT_DEBUG_RED_ZONES);
  const cachalot_address block = allocate(1000);
  std::string calls = calls_(0);
  const std::string at = std::to_string(block);
  EXPECT_TRUE(calls.ends_with("region= " + at + " 1536 \nregion= " + at + " 1000 \n")) << calls;
  EXPECT_EQ(announced().regions(), (Regions{{block, 1000}}));
  free(block);
  calls = calls_(0);
  EXPECT_EQ(calls, "region= " + at + " 1536 \nregion- " + at + " \n");
  EXPECT_EQ(announced().regions(), Regions{});
}

class NvtxUnder : public Nvtx,
                  public testing::WithParamInterface<std::pair<uint32_t, const char*>> {};

TEST_P(NvtxUnder, RandomRequestsHearsOfTheLiveBlocksAndOfNothingElse) {
  open(GetParam().first, GetParam().second);
  cachalot::Random random(cachalot::test_seed());
  Regions live;
  for (int i = 0; i < 1500; i++) {
    if (live.size() < 30 && random.one_in(2)) {
      const uint64_t size = random.of_any_magnitude(1, 15 * MiB);
      live[allocate(size, random.below(2))] = size;
    } else if (!live.empty()) {
      const auto chosen = std::next(live.begin(), static_cast<long>(random.below(live.size())));
      free(chosen->first);
      live.erase(chosen);
    }
    if (random.one_in(20)) empty_cache();
    ASSERT_EQ(announced().regions(), announced().parts_of(live)) << "after call " << i;
  }
  close();
  expect_nothing_left();
}

INSTANTIATE_TEST_SUITE_P(Options, NvtxUnder,
                         testing::Values(std::pair{CACHALOT_DEBUG_NVTX, ""},
                                         std::pair{CACHALOT_DEBUG_NVTX, "expandable_segments:True"},
                                         std::pair{CACHALOT_DEBUG_NVTX | CACHALOT_DEBUG_POISON |
                                                       CACHALOT_DEBUG_RED_ZONES,
                                                   "expandable_segments:True"}));

}  // namespace
}  // namespace cachalot_test
