// SPDX-License-Identifier: MIT OR Apache-2.0
// The serving policy by its rules alone (docs/policy.md): lists that are walked from end to end, no index.
// Of the library's it has the order of PyTorch's hash tables, which no rule of the policy tells. It makes
// its calls on a driver of its own.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "alloc/config/pool_id.h"
#include "alloc/config/serving_options.h"
#include "alloc/heap/hash_order.h"
#include "noting_driver.h"
#include "picture.h"

namespace cachalot::policy_model {

// A rule that the model breaks, so that the comparison can be seen to find it.
enum class Fault {
  kNone,
  kNoTick,             // P4: a request that no hit serves
  kEarlierStamp,       // P4: a merge keeps the earlier one
  kKeptStamps,         // P4: a hand-out does not clear them
  kNoLookAtEvents,     // P5 (1)
  kHighestOfEqual,     // P5 (2), (3)
  kNewPagesFirst,      // P5: (4) before (3)
  kLendsTooEarly,      // P5: (3) before (4), with at_limit too
  kNoRetry,            // P5 (6)
  kByAllPages,         // P7: the keys of (5) for (4)
  kPageBeyondLimit,    // P8
  kLatestFirst,        // P8: the page that was in use last
  kAlwaysFromTheBack,  // P8: also where a hole lies before the block
  kNoThrift,           // P8
  kNoSoftLimit,        // P8
  kWaitsBelowLimit,    // P8: the host waits although a new page could be made
  kKeptRanges,         // P8: without a page
  kNoHostWait,         // P9: where the driver cannot tell what is done
  kUnmapsTooEarly,     // P9: addresses that the device may still use
  kStampsStayBehind,   // P9: pages take no stamps along
  kHolesWaitForever,   // P9: no look finds that the device is done
  kNoWait,             // P10
  kWaitsAgain,         // P10: although a wait covers it
  kCoversOne,          // P10: a wait for all streams covers the one that has the stamp
  kBorrowsInCapture,   // P11
  kMovesPinned,        // P11: pinned pages, too
  kReleasesPinned,     // P11: the memory of a pinned pool
  kStampOfEnded,       // P14: a block leaves the stamp of a stream that has ended
  kUseOfEnded,         // P14: a free waits for a stream that has ended
  kMiscount,           // a byte in a statistic, for requests of 512 bytes
};
// Null: there is no such fault.
std::optional<Fault> fault_of(const std::string& name);

struct ModelOptions {
  uint64_t page_size = 2 * MiB;
  bool thrift = false;
  Borrow borrow = Borrow::kFirst;
  bool announces_streams = false;
  uint64_t divisions = 0;  // of a power of two; 0: sizes are rounded to 512 bytes only
  bool is_2_11 = false;    // any routing counts as a capture, and ties go by address alone
  Fault fault = Fault::kNone;
};

// A call that failed.
struct Failure {
  Status status;
  DriverCode code = kSuccess;
  OutOfMemory shortage = {};
};

class Model {
 public:
  Model(NotingDriver& driver, const ModelOptions& options) : driver_(driver), options_(options) {}

  // All of them throw Failure.
  Address allocate(uint64_t size, Stream stream);
  void free(Address address);
  void record_stream(Address address, Stream stream);
  void empty_cache(PoolId id);
  void trim(uint64_t keep_bytes);
  void set_limit(uint64_t bytes) { limit_ = bytes; }
  void pin(Address address, uint64_t size);
  void unpin(Address address, uint64_t size);
  void stream_ended(Stream stream);

  void pool_create(PoolId id, bool is_pinned);
  void pool_set_pinned(PoolId id, bool is_pinned);
  void pool_begin(PoolId id, std::optional<Stream> only);
  void pool_end(PoolId id);
  void pool_release(PoolId id);
  void capture_begin() { captures_++; }
  void capture_end() { captures_--; }

  Picture picture() const;
  const Numbers& numbers() const { return numbers_; }

 private:
  static constexpr uint64_t kLargestSmall = 1 * MiB;  // the largest size of the small class

  struct Use {
    Stream stream;
    bool is_captured;
  };
  struct Block {
    Address begin;
    uint64_t size;
    State state;
    Stream user = 0;
    uint64_t requested = 0;
    Stamps stamps = {};
    std::vector<Use> uses = {};
    int events = 0;          // that its free waits for
    bool has_ended = false;  // the stream that had it; the range's own one stands for it

    Address end() const { return begin + size; }
    bool is_free() const { return state == State::kCached || state == State::kHole; }
    bool has_user() const { return state == State::kUsed || state == State::kWaiting; }
  };
  struct Page {
    Address address;
    uint64_t handle;
  };
  struct Range {
    PoolId pool;
    bool is_small;
    Stream stream;
    Address begin;
    uint64_t size;
    uint64_t number;  // the order in which ranges were reserved
    std::vector<Block> blocks;
    std::vector<Page> pages;
    bool has_stream_ended = false;
  };
  // Addresses whose pages have moved away.
  struct WaitingHole {
    Address begin;
    Address end;
    uint64_t stamp;  // of the latest work on them; 0: none is left
  };
  // Pages that have no place yet, and the work that may still use some of them.
  struct Loose {
    std::vector<uint64_t> handles;
    Stamps stamps;
  };
  struct Pool {
    PoolId id;
    int uses;
    bool is_pinned;
  };
  struct Pin {
    Address begin;
    uint64_t size;
    Address end() const { return begin + size; }
  };
  struct Route {
    PoolId id;
    std::optional<Stream> only;
  };
  struct Event {
    uint64_t event;
    Stream stream;
    Address block;
  };
  struct Ask {
    uint64_t requested;
    uint64_t size;
    Stream stream;
    PoolId pool;
    bool is_small;
  };
  struct Place {
    Address begin;
    uint64_t missing;  // pages of holes
    uint64_t cached;   // whole pages of cached blocks
  };
  struct Idle {
    Address begin;
    Address end;
    uint64_t stamp;
    Stream stream;
    bool is_small;
    bool is_behind_hole;
  };

  // ---- model.cpp
  bool is(Fault fault) const { return options_.fault == fault; }
  std::optional<Address> find_memory(const Ask& ask);
  bool wait_for_frees_and_holes(const Ask& ask);
  Address hand_out(Address found, const Ask& ask);
  OutOfMemory shortage_of(const Ask& ask);
  uint64_t rounded(uint64_t size) const;
  void complete(Address address);
  PoolId pool_of(Stream stream) const;
  bool is_captured(Stream stream);
  bool is_capturing(Stream stream);
  bool is_captured_call(const Block& block);
  bool may_be_capturing() const;
  static void count(Counts& counts, bool is_small, int64_t amount);
  void count_reserved(const Range& range, int64_t bytes);

  // ---- model_cache.cpp
  bool is_routing_a_capture() const { return options_.is_2_11 && !routes_.empty(); }
  void give_back_pool(PoolId id);
  void give_back_blocks(PoolId id, bool is_small);
  void give_back(Address address);
  void forget_if_empty(PoolId id);
  bool is_releasable(PoolId id) const;
  std::vector<PoolId> releasable() const;
  Pool* pool(PoolId id);

  // ---- model_blocks.cpp
  Range& range_at(Address address);
  Block& block_at(Address address);
  static void cut(Range& range, Address address);
  void merge(Range& range) const;
  bool is_of(const Range& range, const Ask& ask) const;
  bool is_pinned(Address page) const;
  void count_pinned();
  // Each run of pages without a pin, by address.
  std::vector<std::pair<Address, Address>> unpinned(Address begin, Address end) const;
  static bool is_foreign(const Range& range, const Block& block);

  // ---- model_search.cpp
  uint64_t order_of(const Range& range) const { return options_.is_2_11 ? 0 : range.number; }
  std::optional<Address> search(const Ask& ask);
  enum class Pages { kNew, kAny };
  std::optional<Address> find_place(const Ask& ask, Pages from);
  std::optional<Address> best_fit(const Ask& ask) const;
  std::optional<Address> borrow(const Ask& ask) const;
  template <class IsUsable>
  std::optional<Address> smallest(uint64_t size, IsUsable is_usable) const;
  std::optional<Place> best_place(const Ask& ask, bool by_all_pages) const;
  void look_at_run(const Range& range, size_t first, size_t end, const Ask& ask, bool by_all_pages,
                   std::optional<Place>* best) const;
  Place place_at(const Range& range, Address begin, uint64_t size) const;
  bool reserve(const Ask& ask);
  bool try_reserve(const Ask& ask, uint64_t bytes);

  // ---- model_pages.cpp
  bool fill(const Place& place, const Ask& ask, Pages from);
  bool collect_pages(const Place& place, const Ask& ask, Pages from, Loose* loose);
  bool collect_beyond_soft_limit(uint64_t all_idle, bool can_tell, uint64_t missing,
                                 uint64_t within_limit, std::vector<uint64_t>* handles);
  void raise_soft_limit(uint64_t in_use, uint64_t moved);
  uint64_t count_of(const std::vector<Idle>& idle) const;
  std::vector<Idle> idle_pages(const Place& place, uint64_t size) const;
  static bool is_behind_hole(const Range& range, size_t block, Address begin);
  void create_pages(uint64_t count, std::vector<uint64_t>* handles);
  std::vector<Idle> longest_idle(const std::vector<Idle>& idle, uint64_t count) const;
  void take(const std::vector<Idle>& idle, Address place, bool can_tell, Loose* loose);
  uint64_t take_handle(Address address);
  void end_waiting_holes(uint64_t stamp, std::optional<Address> keep);
  void give_back_range(Address begin);
  void give_back_empty_ranges(const std::function<bool(const Range&)>& matches);
  void release(uint64_t handle);
  void map(const Place& place, uint64_t size, Loose* loose);
  uint64_t take_page(Address address);
  void make_hole(Address begin, Address end, State state);
  uint64_t pages_below(uint64_t bytes) const;
  void map_hole(Address begin, Address end, Loose* loose);

  // ---- model_order.cpp
  bool is_finished(Stream stream, uint64_t stamp) const;
  bool covers(Stream stream, Stream other, uint64_t stamp) const;
  Stream covered_by_wait_for(Stream stream) const;
  void wait_in_stream(const Block& block, Stream stream, Stream own);
  void wait_for(Stream stream, Stream other);
  DriverCode queue_wait(Stream stream, Stream other);
  DriverCode make_event(std::optional<uint64_t>* event);
  bool look_at_progress();
  bool query_progress();
  void look_at_waiting_holes();
  bool wait_for_waiting_holes();
  bool is_finished(const Block& block) const;
  static void require(DriverCode code);
  void wait_on_host(Address address);
  void wait_before_release(Address address);
  void synchronize(Stream stream);
  void synchronize_device();
  void finish(Stream stream);
  void begin_waiting(Address address, bool is_captured);
  static void order_uses(std::vector<Use>& uses);
  void record_events(Address address);
  void flush_deferred(std::optional<PoolId> pool);
  void look_at_events();
  void wait_for_events(std::optional<PoolId> pool);
  void finish_event(size_t index);
  std::optional<Stream> next_event_stream(std::optional<Stream> above) const;
  std::optional<size_t> first_event_of(Stream stream) const;

  NotingDriver& driver_;
  const ModelOptions options_;
  uint64_t limit_ = kUnlimited;
  uint64_t clock_ = 1;
  uint64_t ranges_made_ = 0;
  uint64_t reserved_ = 0;
  uint64_t soft_limit_ = 0;
  std::vector<Range> ranges_;  // by address
  std::vector<Pin> pins_;
  std::vector<Pool> pools_;
  HashOrder<PoolId> unused_;   // pools; the order is PyTorch's
  std::vector<Route> routes_;  // the newest first
  int captures_ = 0;
  std::vector<Event> events_;  // recorded, in their order
  std::vector<uint64_t> spare_events_;
  std::vector<Address> deferred_;
  std::map<std::pair<Stream, Stream>, uint64_t> waited_;
  std::map<Stream, uint64_t> finished_;
  std::optional<uint64_t> wait_event_;
  std::optional<uint64_t> progress_event_;
  std::optional<uint64_t> progress_clock_;
  std::vector<WaitingHole> waiting_holes_;  // in the order in which their pages moved
  Numbers numbers_;
};

}  // namespace cachalot::policy_model
