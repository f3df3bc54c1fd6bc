// SPDX-License-Identifier: MIT OR Apache-2.0
// No byte is handed out before its earlier uses are ordered: a property of random runs of the serving
// policy, looked at by physical page, since a page that moves takes its past along.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "../sanitizers.h"
#include "../test_seed.h"
#include "alloc/allocator.h"
#include "alloc/native/hot_path.h"
#include "base/units.h"
#include "device/sim_driver.h"

namespace cachalot {
namespace {

// How far the work of each stream is known to be done, by its number on that stream.
using VectorClock = std::map<Stream, uint64_t>;

void join(VectorClock& into, const VectorClock& other) {
  for (const auto& [stream, work] : other) into[stream] = std::max(into[stream], work);
}

// What a driver is made to leave out, so that the test can be seen to find it.
enum class Fault { kNone, kNoStreamWaits, kNoHostWaits, kEarlyEvents, kOwnUseIgnored };

// Keeps the order that the calls establish between streams, and which physical page lies where.
class OrderedDriver final : public SimDriver {
 public:
  OrderedDriver(uint64_t capacity, Fault fault)
      : SimDriver(SimOptions{.capacity = capacity}), fault_(fault) {}

  // ---- The caller's work. Gives the first use that is not ordered before, or "".
  std::string use(Stream stream, Address address, uint64_t size) {
    VectorClock& now = clocks_[stream];
    join(now, host_);  // what the host queues comes after what it has waited for
    now[stream]++;
    std::string found;
    for_each_granule(address, size, [&](VectorClock& used) {
      for (const auto& [other, work] : used) {
        if (now[other] >= work || !found.empty()) continue;
        found = "stream " + std::to_string(stream) + " gets memory that stream " +
                std::to_string(other) + " may still use";
      }
      used[stream] = now[stream];
    });
    for (Address page = address / kPage * kPage; page < address + size; page += kPage)
      mapped_.at(page).used[stream] = now[stream];
    return found;
  }

  DriverCode map(int device, Address address, uint64_t size, uint64_t handle) override {
    const DriverCode code = SimDriver::map(device, address, size, handle);
    if (code == kSuccess) mapped_[address] = {handle, {}};
    return code;
  }
  DriverCode unmap(int device, Address address, uint64_t size) override {
    for (Address page = address; page < address + size; page += kPage) {
      if (pinned_.contains(page)) note("a pinned page is unmapped");
      for (const auto& [stream, work] : mapped_.at(page).used) {
        if (host_[stream] < work) note("an address is unmapped while a stream may use it");
      }
      mapped_.erase(page);
    }
    return SimDriver::unmap(device, address, size);
  }
  DriverCode release(int device, uint64_t handle) override {
    pages_.erase(handle);
    return SimDriver::release(device, handle);
  }
  DriverCode event_record(int device, uint64_t event, Stream stream) override {
    require_stream(stream);
    if (fault_ != Fault::kEarlyEvents) events_[event] = clock_of(stream);
    return SimDriver::event_record(device, event, stream);
  }
  DriverCode stream_wait_event(int device, Stream stream, uint64_t event) override {
    require_stream(stream);
    if (stream == kAllStreams) note("all streams together are made to wait");
    if (fault_ != Fault::kNoStreamWaits) join(clocks_[stream], events_[event]);
    return SimDriver::stream_wait_event(device, stream, event);
  }
  DriverCode event_query(int device, uint64_t event) override {
    const DriverCode code = SimDriver::event_query(device, event);
    if (code == kSuccess) join(host_, events_[event]);
    return code;
  }
  DriverCode event_synchronize(int device, uint64_t event) override {
    join(host_, events_[event]);
    return SimDriver::event_synchronize(device, event);
  }
  DriverCode event_record_all(int device, uint64_t event) override {
    if (fault_ != Fault::kEarlyEvents) events_[event] = clock_of(kAllStreams);
    return SimDriver::event_record_all(device, event);
  }
  DriverCode stream_synchronize(int device, Stream stream) override {
    require_stream(stream);
    if (fault_ != Fault::kNoHostWaits) join(host_, clock_of(stream));
    return SimDriver::stream_synchronize(device, stream);
  }
  DriverCode device_synchronize(int device) override {
    if (fault_ != Fault::kNoHostWaits) join(host_, clock_of(kAllStreams));
    return SimDriver::device_synchronize(device);
  }

  void destroy_stream(Stream stream) { destroyed_.insert(stream); }
  void make_stream(Stream stream) { destroyed_.erase(stream); }
  // The pages of a part of a block, which must stay.
  void pin(Address address, uint64_t size) {
    for (Address page = address / kPage * kPage; page < address + size; page += kPage)
      pinned_.insert(page);
  }
  void unpin(Address address, uint64_t size) {
    for (Address page = address / kPage * kPage; page < address + size; page += kPage)
      pinned_.erase(pinned_.find(page));
  }

  // What calls of the driver did wrong, or "".
  const std::string& found() const { return found_; }

 private:
  static constexpr uint64_t kPage = 2 * MiB;
  static constexpr uint64_t kGranule = 64 * KiB;
  struct Mapping {
    uint64_t handle;
    VectorClock used;  // the work that used this address
  };
  struct Page {
    std::vector<VectorClock> uses = std::vector<VectorClock>(kPage / kGranule);
  };

  VectorClock clock_of(Stream stream) {
    if (stream != kAllStreams) return clocks_[stream];
    VectorClock all;
    for (const auto& [each, clock] : clocks_) join(all, clock);
    return all;
  }
  void note(const std::string& found) {
    if (found_.empty()) found_ = found;
  }
  void require_stream(Stream stream) {
    if (destroyed_.contains(stream)) note("a destroyed stream is used");
  }
  void for_each_granule(Address address, uint64_t size,
                        const std::function<void(VectorClock&)>& visit) {
    for (Address at = address; at < address + size; at += kGranule) {
      const Address page = at / kPage * kPage;
      visit(pages_[mapped_.at(page).handle].uses[(at - page) / kGranule]);
    }
  }

  const Fault fault_;
  std::map<Stream, VectorClock> clocks_;
  VectorClock host_;
  std::map<uint64_t, VectorClock> events_;
  std::map<Address, Mapping> mapped_;  // by the page's address
  std::map<uint64_t, Page> pages_;     // by handle
  std::set<Stream> destroyed_;
  std::multiset<Address> pinned_;
  std::string found_;
};

// A block, or a pinned part of one.
struct Live {
  Address address;
  uint64_t size;
  Stream stream;
  int life = 0;  // of the stream: each end begins the next
  std::set<Stream> users = {};
};

// The first thing that is wrong in a run, or "".
class RandomRun {
 public:
  RandomRun(uint64_t seed, Fault fault) : fault_(fault), random_(seed) {
    driver_ = std::make_shared<OrderedDriver>((16 + 2 * one_of(120)) * MiB, fault);
    AllocatorOptions options;
    options.driver = driver_;
    options.serving = {.is_on = true,
                       .thrift = one_of(2) == 0,
                       .borrow = one_of(4) == 0 ? Borrow::kAtLimit : Borrow::kFirst,
                       .announces_streams = one_of(2) == 0};
    announces_ = options.serving.announces_streams;
    allocator_ = std::make_unique<Allocator>(options);
  }

  std::string found(int steps) {
    for (int step = 0; step < steps; step++) {
      take_step();
      if (step % 64 == 0 && found_.empty()) found_ = allocator_->check();
      if (found_.empty()) found_ = driver_->found();
      if (!found_.empty()) break;
    }
    for (const Live& part : pinned_) allocator_->unpin(part.address, part.size);
    for (const Live& block : live_) allocator_->free(block.address, std::nullopt);
    return found_;
  }

 private:
  uint64_t one_of(uint64_t count) { return random_() % count; }
  Stream some_stream() { return 0x10 * (1 + one_of(4)); }
  // The use of a block of no stream is by any stream, so its next user can be another one.
  Stream user_of(const Live& block) {
    return block.stream == kAllStreams ? some_new_stream() : block.stream;
  }
  Stream some_new_stream() {
    const Stream stream = some_stream();
    if (ended_.erase(stream) != 0) driver_->make_stream(stream);
    return stream;
  }

  void take_step() {
    switch (one_of(64)) {
      case 0:
        return driver_->machine().finish_device(0);
      case 1:
        if (one_of(8) == 0) allocator_->empty_cache(0);
        return;
      case 2:
      case 3:
        if (!live_.empty()) use_by_another();
        return;
      case 4:
        return end_stream();
      case 5:
        return one_of(2) == 0 && !pinned_.empty() ? unpin_one() : pin_one();
      default:
        return one_of(2) == 0 && !live_.empty() ? free_one() : allocate_one();
    }
  }
  void allocate_one() {
    // Whole granules, so that no two blocks share one.
    uint64_t size = 64 * KiB * (1 + one_of(15));
    if (one_of(3) == 0) size = 64 * KiB * (17 + one_of(256));
    const Stream stream = one_of(8) == 0 ? kAllStreams : some_new_stream();
    try {
      const Address hit = allocator_->hits().try_allocate(size, 0, stream);
      const Address address = hit != 0 ? hit : allocator_->allocate(size, 0, stream);
      live_.push_back({address, size, stream, lives_[stream]});
      const std::string late = use(live_.back(), user_of(live_.back()));
      if (stream == kAllStreams) use_by_all(live_.back());
      if (found_.empty()) found_ = late;
    } catch (const Error& error) {
      if (error.status() != Status::kOutOfMemory) found_ = error.message();
    }
  }
  // What it gives counts for hand-outs only: streams of the caller may share a block.
  std::string use(const Live& block, Stream stream) {
    driver_->machine().queue_work(0, stream);
    return driver_->use(stream, block.address, block.size);
  }
  // The caller knows no stream of the block's.
  void use_by_all(Live& block) {
    if (fault_ != Fault::kOwnUseIgnored || block.stream != kAllStreams)
      allocator_->record_stream(block.address, kAllStreams, std::nullopt);
  }
  // The caller orders the two streams, and tells the allocator.
  void use_by_another() {
    Live& block = live_[one_of(live_.size())];
    const Stream other = some_stream();
    if (block.stream == kAllStreams) {
      use(block, some_new_stream());
      return use_by_all(block);
    }
    const bool has_user = is_of_this_life(block);
    if ((other == block.stream && has_user) || ended_.contains(other)) return;
    if (has_user) order(block.stream, other);
    use(block, other);
    if (one_of(4) == 0) return use_by_all(block);
    block.users.insert(other);
    allocator_->record_stream(block.address, other, std::nullopt);
  }
  // The next stream has the same handle. Blocks of the one that ends stay, and are freed later. A program that
  // does not announce the end waits for the stream, and has freed what it recorded for it.
  void end_stream() {
    const Stream stream = some_stream();
    if (ended_.contains(stream)) return;
    if (announces_) {
      allocator_->stream_ended(0, stream);
    } else {
      for (const Live& block : live_)
        if (block.users.contains(stream)) return;
      driver_->stream_synchronize(0, stream);
    }
    driver_->destroy_stream(stream);
    ended_.insert(stream);
    lives_[stream]++;
  }
  bool is_of_this_life(const Live& block) { return block.life == lives_[block.stream]; }
  void order(Stream first, Stream second) {
    uint64_t event = 0;
    driver_->event_create(0, &event);
    driver_->event_record(0, event, first);
    driver_->stream_wait_event(0, second, event);
    driver_->event_destroy(0, event);
  }
  void pin_one() {
    if (live_.empty() || pinned_.size() > 3) return;
    const Live& block = live_[one_of(live_.size())];
    const uint64_t begin = one_of(block.size);
    pinned_.push_back({block.address + begin, 1 + one_of(block.size - begin), block.stream});
    allocator_->pin(pinned_.back().address, pinned_.back().size);
    driver_->pin(pinned_.back().address, pinned_.back().size);
  }
  void unpin_one() {
    std::swap(pinned_[one_of(pinned_.size())], pinned_.back());
    driver_->unpin(pinned_.back().address, pinned_.back().size);
    allocator_->unpin(pinned_.back().address, pinned_.back().size);
    pinned_.pop_back();
  }
  void free_one() {
    std::swap(live_[one_of(live_.size())], live_.back());
    if (one_of(2) == 0 && is_of_this_life(live_.back())) use(live_.back(), user_of(live_.back()));
    const Address address = live_.back().address;
    if (!allocator_->hits().try_free(address)) allocator_->free(address);
    live_.pop_back();
  }

  const Fault fault_;
  std::mt19937_64 random_;
  std::shared_ptr<OrderedDriver> driver_;
  std::unique_ptr<Allocator> allocator_;
  std::vector<Live> live_;
  std::vector<Live> pinned_;
  std::set<Stream> ended_;  // and not made anew
  std::map<Stream, int> lives_;
  bool announces_ = false;
  std::string found_;
};

constexpr int kRuns = CACHALOT_HEAP_IS_SANITIZED ? 10 : 40;
constexpr int kSteps = 2000;

TEST(StreamOrder, NoByteIsHandedOutBeforeItsEarlierUsesAreOrdered) {
  const uint64_t seed = test_seed();
  for (int run = 0; run < kRuns; run++)
    ASSERT_EQ(RandomRun(seed + run, Fault::kNone).found(kSteps), "") << "seed " << seed + run;
}

void expect_found(Fault fault) {
  const uint64_t seed = test_seed();
  int found = 0;
  for (int run = 0; run < 10; run++) found += !RandomRun(seed + run, fault).found(kSteps).empty();
  EXPECT_GT(found, 0);
}

TEST(StreamOrder, TheTestFindsThatNoStreamWaits) { expect_found(Fault::kNoStreamWaits); }
TEST(StreamOrder, TheTestFindsThatTheHostDoesNotWait) { expect_found(Fault::kNoHostWaits); }
TEST(StreamOrder, TheTestFindsThatEventsComeTooEarly) { expect_found(Fault::kEarlyEvents); }
TEST(StreamOrder, TheTestFindsThatAUseByAllStreamsIsIgnored) {
  expect_found(Fault::kOwnUseIgnored);
}

}  // namespace
}  // namespace cachalot
