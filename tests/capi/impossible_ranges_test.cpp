// SPDX-License-Identifier: MIT OR Apache-2.0
// Drivers and sources of memory that name ranges which no memory can have: each is refused with its
// numbers, goes back to where it came from, and leaves the allocator as it was.
#include <array>
#include <functional>

#include "sim_fixture.h"

namespace cachalot_test {
namespace {

constexpr cachalot_address kLastHalf = cachalot_address{1} << 63;

struct Impossible {
  cachalot_address address;
  const char* flaw;
};

// Of whatever size above 512.
constexpr Impossible kImpossible[] = {
    {UINT64_MAX, "memory begins at a multiple of 512"},
    {UINT64_MAX - 511, "memory ends below 2^63"},
    {UINT64_MAX - 2 * MiB + 1, "memory ends below 2^63"},  // ends at 2^64 where it has 2 MiB
    {kLastHalf, "memory ends below 2^63"},
    {kLastHalf - 512, "memory ends below 2^63"},
    {kFirstAddress + 256, "memory begins at a multiple of 512"},
    {1, "memory begins at a multiple of 512"},
};

std::string text_of(const char* who, uint64_t size, const Impossible& impossible) {
  std::ostringstream text;
  text << who << " gave " << size << " bytes at 0x" << std::hex << impossible.address << ": "
       << impossible.flaw;
  return text.str();
}

// Gives `next`, and then lies far above for each further time.
struct Giver {
  cachalot_address next = 0;
  cachalot_address free_place = kFirstAddress + GiB;
  uint64_t total = 80 * GiB;
  std::vector<std::string> given_back = {};

  cachalot_address give() {
    if (next != 0) return std::exchange(next, 0);
    return std::exchange(free_place, free_place + 256 * GiB);
  }
  void take(cachalot_address address) {
    std::ostringstream text;
    text << std::hex << address;
    given_back.push_back(text.str());
  }
  std::string take_given_back() { return joined(std::exchange(given_back, {}), " "); }
};

Giver& giver_of(void* user_data) { return *static_cast<Giver*>(user_data); }

cachalot_device_ops giver_ops() {
  cachalot_device_ops ops = {};
  ops.struct_size = sizeof ops;
  ops.memory_info = [](void* user_data, int32_t, uint64_t* free, uint64_t* total) -> int32_t {
    *free = *total = giver_of(user_data).total;
    return 0;
  };
  ops.allocate = [](void* user_data, int32_t, uint64_t, cachalot_address* out) -> int32_t {
    *out = giver_of(user_data).give();
    return 0;
  };
  ops.free = [](void* user_data, int32_t, cachalot_address address) -> int32_t {
    giver_of(user_data).take(address);
    return 0;
  };
  return ops;
}

void add_virtual_memory(cachalot_device_ops* ops) {
  ops->reserve = ops->allocate;
  ops->unreserve = [](void* user_data, int32_t, cachalot_address address, uint64_t) -> int32_t {
    giver_of(user_data).take(address);
    return 0;
  };
  ops->granularity = [](void*, int32_t, uint64_t* out) -> int32_t {
    *out = 2 * MiB;
    return 0;
  };
  ops->create = [](void*, int32_t, uint64_t, int32_t, int32_t, uint64_t*) -> int32_t { return 0; };
  ops->export_handle = [](void*, int32_t, uint64_t, int32_t,
                          cachalot_shareable_handle*) -> int32_t { return 0; };
  ops->import_handle = [](void*, int32_t, const cachalot_shareable_handle*, int32_t,
                          uint64_t*) -> int32_t { return 0; };
  ops->release = [](void*, int32_t, uint64_t) -> int32_t { return 0; };
  ops->map = [](void*, int32_t, cachalot_address, uint64_t, uint64_t) -> int32_t { return 0; };
  ops->unmap = [](void*, int32_t, cachalot_address, uint64_t) -> int32_t { return 0; };
  ops->set_access = [](void*, int32_t, cachalot_address, uint64_t, int32_t) -> int32_t {
    return 0;
  };
}

void add_stream_ordered_memory(cachalot_device_ops* ops) {
  ops->pool_allocate = [](void* user_data, int32_t, uint64_t, cachalot_stream,
                          cachalot_address* out) -> int32_t {
    *out = giver_of(user_data).give();
    return 0;
  };
  ops->pool_free = [](void* user_data, int32_t, cachalot_address address,
                      cachalot_stream) -> int32_t {
    giver_of(user_data).take(address);
    return 0;
  };
  ops->pool_trim = [](void*, int32_t, uint64_t) -> int32_t { return 0; };
  ops->pool_get_attribute = [](void*, int32_t, int32_t, uint64_t* out) -> int32_t {
    *out = 0;
    return 0;
  };
  ops->pool_set_attribute = [](void*, int32_t, int32_t, uint64_t) -> int32_t { return 0; };
  ops->stream_create = [](void*, int32_t, cachalot_stream* out) -> int32_t {
    *out = 7;
    return 0;
  };
  ops->stream_wait_event = [](void*, int32_t, cachalot_stream, uint64_t) -> int32_t { return 0; };
}

// An allocator over a custom driver that gives what the test says.
class OverGiver {
 public:
  explicit OverGiver(const char* config = "", int32_t no_caching = -1) {
    cachalot_device_ops ops = giver_ops();
    add_virtual_memory(&ops);
    add_stream_ordered_memory(&ops);
    EXPECT_EQ(cachalot_driver_create_custom(&ops, 1, &giver, nullptr, &driver_, &error_),
              CACHALOT_OK);
    cachalot_allocator_options options = {};
    options.struct_size = sizeof options;
    options.driver = driver_;
    options.config = config;
    options.no_caching = no_caching;
    options.check_every_call = 1;
    EXPECT_EQ(cachalot_allocator_create(&options, &allocator_, &error_), CACHALOT_OK)
        << error_.message;
  }
  ~OverGiver() {
    EXPECT_EQ(cachalot_check(allocator_, &error_), CACHALOT_OK) << error_.message;
    EXPECT_EQ(cachalot_allocator_destroy_all(allocator_, nullptr), CACHALOT_OK);
    cachalot_driver_destroy(driver_);
  }
  OverGiver(const OverGiver&) = delete;
  OverGiver& operator=(const OverGiver&) = delete;

  cachalot_allocator* get() const { return allocator_; }

  Outcome try_allocate(uint64_t size) {
    Outcome outcome;
    outcome.status = cachalot_allocate(allocator_, size, 0, 0, &outcome.address, &outcome.error);
    return outcome;
  }

  // A request for whose sake `impossible` is obtained is refused; the next one is served.
  void expect_refused(uint64_t size, uint64_t obtained, const Impossible& impossible,
                      const char* who = "the driver") {
    SCOPED_TRACE(text_of(who, obtained, impossible));
    giver.next = impossible.address;
    const Outcome refused = try_allocate(size);
    EXPECT_EQ(refused.status, CACHALOT_ERROR_INVALID_STATE);
    EXPECT_EQ(refused.message(), text_of(who, obtained, impossible));
    std::ostringstream address;
    address << std::hex << impossible.address;
    EXPECT_EQ(giver.take_given_back(), address.str());
    EXPECT_EQ(cachalot_memory_reserved(allocator_, 0), 0u);
    const Outcome served = try_allocate(size);
    EXPECT_EQ(served.status, CACHALOT_OK) << served.message();
    EXPECT_EQ(cachalot_free(allocator_, served.address, &error_), CACHALOT_OK) << error_.message;
    EXPECT_EQ(cachalot_empty_cache(allocator_, &error_), CACHALOT_OK) << error_.message;
    giver.take_given_back();
  }

  Giver giver;

 private:
  cachalot_error error_ = CACHALOT_ERROR_INIT;
  cachalot_driver* driver_ = nullptr;
  cachalot_allocator* allocator_ = nullptr;
};

TEST(ImpossibleRanges, FromADriverAreRefusedAndGoBack) {
  for (const char* config : {"", "release_lock_on_cudamalloc:True"}) {
    OverGiver with(config);
    for (const Impossible& impossible : kImpossible) {
      with.expect_refused(1000, 2 * MiB, impossible);
      with.expect_refused(30 * MiB, 30 * MiB, impossible);
    }
  }
}

TEST(ImpossibleRanges, FromADriverAreRefusedAsReservationsToo) {
  OverGiver with("expandable_segments:True");
  for (const Impossible& impossible : kImpossible) with.expect_refused(1000, 90 * GiB, impossible);
}

TEST(ImpossibleRanges, OfMoreThanAnAddressSpaceAreRefused) {
  OverGiver with("expandable_segments:True");
  for (const uint64_t total : {uint64_t{1} << 60, UINT64_MAX / 2, UINT64_MAX - 511, UINT64_MAX}) {
    with.giver.total = total;
    const Outcome outcome = with.try_allocate(1000);
    EXPECT_EQ(outcome.status, CACHALOT_ERROR_INVALID_STATE);
    EXPECT_NE(outcome.message().find(": no range has more than 2^47 bytes"), std::string::npos)
        << outcome.message();
    EXPECT_NE(with.giver.take_given_back(), "");
  }
  with.giver.total = 0;
  EXPECT_NE(with.try_allocate(1000).status, CACHALOT_OK);
  with.giver.total = UINT64_MAX;
  OverGiver plain;
  plain.giver.total = UINT64_MAX;
  const Outcome outcome = plain.try_allocate(uint64_t{1} << 59);
  EXPECT_EQ(outcome.status, CACHALOT_ERROR_INVALID_STATE);
  EXPECT_NE(outcome.message().find(": no range has more than 2^47 bytes"), std::string::npos)
      << outcome.message();
}

// Without caching and in stream-ordered memory blocks begin where they like.
TEST(ImpossibleRanges, FromADriverAreRefusedWithoutCachingAndInStreamOrderedMemoryToo) {
  OverGiver uncached("", 1);
  OverGiver stream_ordered("backend:cudaMallocAsync");
  for (OverGiver* with : {&uncached, &stream_ordered}) {
    for (const cachalot_address address : {UINT64_MAX, UINT64_MAX - 511, kLastHalf - 512})
      with->expect_refused(1000, 1000, {address, "memory ends below 2^63"});
    with->giver.next = kFirstAddress + 16;
    const Outcome served = with->try_allocate(1000);
    EXPECT_EQ(served.address, kFirstAddress + 16) << served.message();
  }
}

TEST(ImpossibleRanges, ThatLieOverLiveMemoryAreRefusedAndLeaveItAlone) {
  OverGiver with;
  with.giver.next = kFirstAddress;
  const cachalot_address block = with.try_allocate(30 * MiB).address;
  ASSERT_EQ(block, kFirstAddress);
  for (const uint64_t offset : {uint64_t{0}, uint64_t{512}, 30 * MiB - 512, 0 - 20 * MiB + 512}) {
    with.giver.next = kFirstAddress + offset;
    std::ostringstream text;
    text << "the driver gave 20971520 bytes at 0x" << std::hex << kFirstAddress + offset
         << ", where 31457280 bytes at 0x700000000000 are in use";
    const Outcome outcome = with.try_allocate(2 * MiB);
    EXPECT_EQ(outcome.status, CACHALOT_ERROR_INVALID_STATE);
    EXPECT_EQ(outcome.message(), text.str());
  }
  EXPECT_EQ(with.giver.take_given_back(), "") << "what is live would have gone with it";
  for (const uint64_t offset : {30 * MiB, 0 - 20 * MiB}) {
    with.giver.next = kFirstAddress + offset;
    EXPECT_EQ(with.try_allocate(20 * MiB).address, kFirstAddress + offset) << "beside it";
  }
}

TEST(ImpossibleRanges, GivenTwiceWithoutCachingAreRefused) {
  OverGiver with("", 1);
  with.giver.next = kFirstAddress;
  ASSERT_EQ(with.try_allocate(1000).address, kFirstAddress);
  with.giver.next = kFirstAddress;
  const Outcome again = with.try_allocate(2000);
  EXPECT_EQ(again.status, CACHALOT_ERROR_INVALID_STATE);
  EXPECT_EQ(again.message(),
            "the driver gave 2000 bytes at 0x700000000000: another live block begins there");
  EXPECT_EQ(with.giver.take_given_back(), "");
  EXPECT_EQ(cachalot_free(with.get(), kFirstAddress, nullptr), CACHALOT_OK);
}

// ---- A pool's source

class PoolOfGiver {
 public:
  PoolOfGiver() {
    cachalot_pool_source source = {};
    source.struct_size = sizeof source;
    source.user_data = &giver;
    source.allocate = [](void* user_data, uint64_t, int32_t, cachalot_stream) {
      return giver_of(user_data).give();
    };
    source.free = [](void* user_data, cachalot_address address, uint64_t, int32_t,
                     cachalot_stream) { giver_of(user_data).take(address); };
    cachalot_pool_options options = {};
    options.struct_size = sizeof options;
    options.source = &source;
    with.ok(cachalot_pool_create(with.get(), 0, kPool, &options, with.error()));
    with.begin_pool(kPool);
  }
  ~PoolOfGiver() { with.leave_pool(kPool); }
  PoolOfGiver(const PoolOfGiver&) = delete;
  PoolOfGiver& operator=(const PoolOfGiver&) = delete;

  static constexpr cachalot_pool_id kPool = SimAllocator::user_pool(1);
  Giver giver;
  SimAllocator with;
};

TEST(ImpossibleRanges, FromAPoolsSourceAreRefusedAndGoBack) {
  PoolOfGiver pool;
  for (const Impossible& impossible : kImpossible) {
    for (const uint64_t size : {2 * MiB, 30 * MiB}) {
      SCOPED_TRACE(text_of("the pool's source", size, impossible));
      pool.giver.next = impossible.address;
      const Outcome refused = pool.with.try_allocate(size == 2 * MiB ? 1000 : size);
      EXPECT_EQ(refused.status, CACHALOT_ERROR_INVALID_STATE);
      EXPECT_EQ(refused.message(), text_of("the pool's source", size, impossible));
      EXPECT_EQ(pool.with.reserved(), 0u);
      std::ostringstream address;
      address << std::hex << impossible.address;
      EXPECT_EQ(pool.giver.take_given_back(), address.str());
    }
  }
  pool.with.free(pool.with.allocate(1000));
  EXPECT_EQ(pool.giver.take_given_back(), "");
}

TEST(ImpossibleRanges, FromAPoolsSourceCannotLieOverTheDriversMemory) {
  PoolOfGiver pool;
  pool.with.end_pool(PoolOfGiver::kPool);
  const cachalot_address block = pool.with.allocate(30 * MiB);
  pool.with.begin_pool(PoolOfGiver::kPool);
  pool.giver.next = block + 20 * MiB;
  EXPECT_EQ(pool.with.try_allocate(1000).message(),
            "the pool's source gave 2097152 bytes at 0x700001400000, where 31457280 bytes at "
            "0x700000000000 are in use");
  EXPECT_EQ(pool.giver.take_given_back(), "");
  pool.with.free(block);
  pool.with.release_pool(PoolOfGiver::kPool);
}

// ---- The simulated driver

TEST(ImpossibleRanges, GivenToTheSimulatedDriverAreRefused) {
  SimAllocator with;
  for (const Impossible& impossible : kImpossible) {
    const std::array addresses = {kFirstAddress, impossible.address};
    if (impossible.address == kLastHalf - 512) continue;  // 512 bytes fit
    std::ostringstream text;
    text << "addresses[1] is 0x" << std::hex << impossible.address << ": " << impossible.flaw;
    EXPECT_EQ(with.refused(cachalot_sim_give_addresses(with.driver(), 0, addresses.data(),
                                                       addresses.size(), with.error()),
                           CACHALOT_ERROR_INVALID_ARGUMENT),
              text.str());
  }
  with.free(with.allocate(1000));
  EXPECT_EQ(with.layout(), "0: free 2M") << "none of a refused list is used";
}

TEST(ImpossibleRanges, ThatOnlyASmallerSegmentWouldFitAreRefusedLater) {
  SimAllocator with;
  const cachalot_address last = kLastHalf - 512;
  with.ok(cachalot_sim_give_addresses(with.driver(), 0, &last, 1, with.error()));
  EXPECT_EQ(with.try_allocate(1000).message(),
            "the driver gave 2097152 bytes at 0x7ffffffffffffe00: memory ends below 2^63");
  EXPECT_EQ(with.take_calls(), "malloc 2M 7ffffffffffffe00; free 7ffffffffffffe00");
  with.free(with.allocate(1000));
}

TEST(ImpossibleGranularity, IsRefusedWhereTheServingPolicyIsAskedFor) {
  Giver giver;
  cachalot_device_ops ops = giver_ops();
  add_virtual_memory(&ops);
  ops.granularity = [](void*, int32_t, uint64_t* out) -> int32_t {
    *out = 0;
    return 0;
  };
  const Outcome outcome = create_serving_over(ops, &giver);
  EXPECT_EQ(outcome.status, CACHALOT_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(outcome.message(), "the driver custom maps memory of device 0 in multiples of 0 bytes");
}

}  // namespace
}  // namespace cachalot_test
