// SPDX-License-Identifier: MIT OR Apache-2.0
// Everything that a caller can do, in random order, with the auditor behind every call.
//
// A run is made twice on drivers whose addresses repeat: on the general path with the auditor, and with
// hits and without it. Both have to tell the same story.
#include <gtest/gtest.h>

#include <cinttypes>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "../sanitizers.h"
#include "../test_seed.h"
#include "alloc/allocator.h"
#include "alloc/native/hot_path.h"
#include "alloc/tenants/tenant_scope.h"
#include "base/text.h"
#include "device/host_driver.h"
#include "device/sim_driver.h"

namespace cachalot {
namespace {

constexpr uint64_t kCapacity = 512 * MiB;
constexpr Stream kStreams[] = {0, 0x10, 0x20};
constexpr Stream kAllStreams = UINT64_MAX;
constexpr int kSteps = CACHALOT_HEAP_IS_SANITIZED ? 150 : 300;

// The calls whose errors an allocator can only pass over.
constexpr uint32_t kGivingBack = static_cast<uint32_t>(SimCall::kRelease) |
                                 static_cast<uint32_t>(SimCall::kUnmap) |
                                 static_cast<uint32_t>(SimCall::kUnreserve);

// A device without virtual memory, whose ranges begin anywhere, behind one another: below and above
// the 47 bits that addresses usually have.
class OddDriver final : public SimDriver {
 public:
  OddDriver() : SimDriver({kCapacity, 1}) {}

  const char* name() const override { return "custom"; }
  bool supports_virtual_memory() const override { return false; }
  DriverCode allocate(int device, uint64_t size, Address* address) override {
    if (!is_given_) machine().give_addresses(device, {&next_, 1});
    const DriverCode code = SimDriver::allocate(device, size, address);
    is_given_ = code != kSuccess;
    if (!is_given_) next_ += round_up(size + 1, 512) + gaps_.below(4) * 512;
    return code;
  }

 private:
  Random gaps_{1};
  Address next_ = (Address{1} << 47) - 512 * MiB - 512;
  bool is_given_ = false;
};

// The memory of pools that have their own.
struct OddMemory {
  Address next = 0x100000000000;
  uint64_t outstanding = 0;
};

class OddSource final : public PoolSource {
 public:
  explicit OddSource(OddMemory* memory) : memory_(*memory) {}
  Address allocate(uint64_t size, int, Stream) override {
    if (memory_.outstanding + size > 128 * MiB) return 0;
    memory_.outstanding += size;
    return std::exchange(memory_.next, memory_.next + size);
  }
  void free(Address, uint64_t size, int, Stream) override { memory_.outstanding -= size; }

 private:
  OddMemory& memory_;
};

struct Kind {
  std::string driver;
  Release release;
  std::string name;
  std::string config;
  uint32_t failing_calls;
  bool is_of_hits = false;
};

std::shared_ptr<Driver> make_driver(const std::string& name) {
  if (name == "host") return std::make_shared<HostDriver>(HostOptions{kCapacity, 2});
  if (name == "custom") return std::make_shared<OddDriver>();
  return std::make_shared<SimDriver>(SimOptions{kCapacity, 2});
}

class RandomRun {
 public:
  RandomRun(const Kind& kind, uint64_t seed, bool audits)
      : random_(seed), kind_(kind), tries_hits_(!audits), driver_(make_driver(kind.driver)) {
    sim_ = dynamic_cast<SimDriver*>(driver_.get());
    AllocatorOptions options;
    options.driver = driver_;
    options.config = kind.config;
    options.rules = rules_of(kind.release);
    options.check_every_call = audits;
    options.track_labels = random_.one_in(kind_.is_of_hits ? 2 : 4);
    options.context_source = label_contexts();
    allocator_ = std::make_unique<Allocator>(options);
  }

  // A line for each step.
  std::vector<std::string> run() {
    const int steps = kind_.is_of_hits ? 4 * kSteps : kSteps;
    for (int i = 0; i < steps && !testing::Test::HasFatalFailure(); i++) {
      story_.push_back("");
      step();
      story_.back() += numbers();
    }
    if (!testing::Test::HasFatalFailure()) end();
    return story_;
  }

 private:
  struct Live {
    Address address;
    uint64_t size;
    int device;
  };
  struct Pool {
    PoolId id;
    int device;
    bool is_routed;
    uint64_t capture;  // 0: none
  };
  struct Operation {
    int weight;
    int weight_of_hits;  // where most requests are to be hits, of a device with labels, tenants or history
    const char* name;
    void (RandomRun::*run)();
  };

  // ---- Steps

  void step() {
    static constexpr Operation kOperations[] = {
        {400, 400, "allocate", &RandomRun::allocate},
        {40, 80, "allocate and free", &RandomRun::allocate_and_free},
        {300, 300, "free", &RandomRun::free_one},
        {10, 5, "free nonsense", &RandomRun::free_nonsense},
        {60, 0, "record_stream", &RandomRun::record_stream},
        {60, 0, "work", &RandomRun::work},
        {8, 2, "empty_cache", &RandomRun::empty_cache},
        {10, 4, "trim", &RandomRun::trim},
        {15, 0, "pool_create", &RandomRun::pool_create},
        {15, 0, "pool_begin", &RandomRun::pool_begin},
        {15, 0, "pool_end", &RandomRun::pool_end},
        {8, 0, "pool_release", &RandomRun::pool_release},
        {6, 0, "pool_flags", &RandomRun::pool_flags},
        {10, 0, "capture_begin", &RandomRun::capture_begin},
        {30, 0, "capture_node", &RandomRun::capture_node},
        {12, 0, "capture_end", &RandomRun::capture_end},
        {25, 0, "fail", &RandomRun::fail},
        {6, 0, "configure", &RandomRun::configure},
        {6, 0, "set_settings", &RandomRun::set_settings},
        {8, 0, "limit", &RandomRun::limit},
        {10, 10, "snapshot", &RandomRun::snapshot},
        {10, 10, "reset", &RandomRun::reset},
        {6, 20, "history", &RandomRun::history},
        {6, 10, "observe", &RandomRun::observe},
        {4, 0, "caching", &RandomRun::switch_caching},
        {20, 0, "allocate_at", &RandomRun::allocate_at},
        {20, 5, "ask", &RandomRun::ask},
        {4, 30, "label", &RandomRun::label},
        {4, 20, "tenant", &RandomRun::tenant},
        {2, 0, "peer", &RandomRun::peer},
    };
    int total = 0;
    const auto weight_of = [&](const Operation& operation) {
      return kind_.is_of_hits ? operation.weight_of_hits : operation.weight;
    };
    for (const Operation& operation : kOperations) total += weight_of(operation);
    int chosen = static_cast<int>(random_.below(static_cast<uint64_t>(total)));
    const Operation* operation = kOperations;
    while (chosen >= weight_of(*operation)) chosen -= weight_of(*operation++);
    story_.back() += operation->name;
    guarded([&] { (this->*operation->run)(); });
  }

  // Errors are a part of the story. False if there was one.
  template <typename Call>
  bool guarded(Call call) {
    try {
      call();
      return true;
    } catch (const Error& error) {
      tell(error.what());
      EXPECT_NE(error.status(), Status::kInternal);
      return false;
    }
  }

  // As the C functions do.
  Address allocate_plain(uint64_t size, int device, Stream stream) {
    if (tries_hits_) {
      if (const Address hit = allocator_->hits().try_allocate(size, device, stream)) return hit;
    }
    return allocator_->allocate(size, device, stream);
  }
  void free_plain(Address address, std::optional<Stream> current_stream) {
    if (!current_stream && tries_hits_ && allocator_->hits().try_free(address)) return;
    allocator_->free(address, current_stream);
  }

  void allocate() {
    Request request;
    request.size = any_size();
    request.device = any_device();
    request.stream = request.current_stream = any_stream();
    if (random_.one_in(8)) request.current_stream = any_stream();
    const bool is_plain = request.current_stream == request.stream;
    add_live(is_plain ? allocate_plain(request.size, request.device, request.stream)
                      : allocator_->allocate(request),
             request.device);
  }

  // The same size again and again, which the hit path has a shortcut for.
  void allocate_and_free() {
    const uint64_t size = any_size();
    const int device = any_device();
    const Stream stream = any_stream();
    for (uint64_t i = random_.between(1, 5); i > 0; i--) {
      add_live(allocate_plain(size, device, stream), device);
      if (live_.empty() || random_.one_in(8)) return;  // a request of 0 bytes leaves nothing
      free_at(live_.size() - 1);
    }
  }

  void allocate_at() {
    const Snapshot snapshot = allocator_->snapshot({}, false);
    std::vector<std::pair<const SegmentRow*, const BlockRow*>> free;
    for (const SegmentRow& segment : snapshot.segments) {
      for (size_t i = 0; i < segment.block_count; i++) {
        const BlockRow& block = snapshot.blocks[segment.first_block + i];
        if (block.state == BlockState::kInactive) free.emplace_back(&segment, &block);
      }
    }
    if (free.empty()) return;
    const auto [segment, block] = random_.pick(free);
    Request request;
    request.device = segment->device;
    request.stream = request.current_stream = segment->stream;
    request.at = block->address + random_.below(block->size / 512) * 512;
    const uint64_t room = block->address + block->size - request.at;
    request.size = random_.one_in(2) ? room : random_.between(1, room);
    if (random_.one_in(16)) request.at += 8;
    add_live(allocator_->allocate(request), request.device);
  }

  void free_one() {
    if (!live_.empty()) free_at(static_cast<size_t>(random_.below(live_.size())));
  }

  void free_nonsense() {
    expect_invalid_free(0x1234);
    if (live_.empty()) return;
    const Live live = random_.pick(live_);
    if (live.size > 512) expect_invalid_free(live.address + 512);
    if (free_at(live_.size() - 1) && random_.one_in(2)) allocator_->free(0);
  }

  void record_stream() {
    if (live_.empty()) return;
    const Address address = random_.pick(live_).address;
    allocator_->record_stream(address, any_stream(), maybe_stream());
    allocator_->record_stream(address + 512, any_stream());
  }

  void work() {
    if (!sim_) return;
    const int device = any_device();
    switch (random_.below(5)) {
      case 0:
        return sim_->machine().finish_oldest(device, any_stream());
      case 1:
        return sim_->machine().finish_stream(device, any_stream());
      default:
        return sim_->machine().queue_work(device, any_stream());
    }
  }

  void empty_cache() {
    const PoolId pool = random_.one_in(3) && !pools_.empty() ? random_.pick(pools_).id : PoolId{};
    allocator_->empty_cache(any_device(), pool, maybe_stream());
  }

  void trim() {
    uint64_t released = 0;
    allocator_->trim(any_device(), {random_.below(GiB), random_.below(4), trim_time_++}, &released);
  }

  // ---- Pools and captures

  void pool_create() {
    const Pool pool{allocator_->new_pool_id(false), any_device(), false, 0};
    PoolOptions options;
    options.use_on_oom = random_.one_in(2);
    options.no_split = random_.one_in(4);
    options.whole_blocks = random_.one_in(3);
    if (random_.one_in(4)) options.source = std::make_shared<OddSource>(&sources_);
    pools_.push_back(pool);
    allocator_->pool_create(pool.device, pool.id, options);
  }

  void begin(Pool& pool, Stream taken) {
    allocator_->pool_begin(pool.device, pool.id, [taken](Stream stream) {
      return taken == kAllStreams || stream == taken;
    });
    pool.is_routed = true;
  }
  void pool_begin() {
    if (!pools_.empty())
      begin(random_.pick(pools_), random_.one_in(2) ? kAllStreams : any_stream());
  }
  void end(Pool& pool) {
    allocator_->pool_end(pool.device, pool.id);
    pool.is_routed = false;
  }
  void pool_end() {
    if (!pools_.empty()) end(random_.pick(pools_));
  }
  void pool_release() {
    if (pools_.empty()) return;
    const Pool& pool = random_.pick(pools_);
    // The count would stay below 0, as in the reference, and keep the pool's memory for good.
    if (use_count(pool) > 0) allocator_->pool_release(pool.device, pool.id);
  }
  int use_count(const Pool& pool) {
    int count = 0;
    guarded([&] { count = allocator_->pool_use_count(pool.device, pool.id); });
    return count;
  }
  void pool_flags() {
    if (pools_.empty()) return;
    const Pool& pool = random_.pick(pools_);
    allocator_->pool_set_use_on_oom(pool.device, pool.id, random_.one_in(2));
    if (random_.one_in(4)) allocator_->pool_set_no_split(pool.device, pool.id);
    tell(allocator_->pool_has_live(pool.device, pool.id, {}) ? "without live blocks" : "");
  }

  void capture_begin() {
    if (!sim_) return;
    const Stream stream = any_stream();
    Pool pool{allocator_->new_pool_id(true), any_device(), false, ++last_capture_};
    sim_->machine().begin_capture(pool.device, stream, pool.capture);
    pools_.push_back(pool);
    allocator_->capture_begin(pool.device);
    begin(pools_.back(), random_.one_in(2) ? stream : kAllStreams);
  }
  void capture_node() {
    if (!sim_) return;
    const int device = any_device();
    switch (random_.below(4)) {
      case 0:
        return sim_->machine().fork_capture(device, any_stream(), any_stream());
      case 1:
        return sim_->machine().join_capture(device, any_stream(), any_stream());
      default:
        return sim_->machine().add_node(device, any_stream());
    }
  }
  void end_capture(Pool& pool) {
    sim_->machine().end_capture(pool.device, pool.capture);
    pool.capture = 0;
    allocator_->capture_end(pool.device);
    if (pool.is_routed) end(pool);
  }
  void capture_end() {
    for (Pool& pool : pools_) {
      if (pool.capture != 0 && random_.one_in(2)) return end_capture(pool);
    }
  }

  // ---- What goes wrong

  void fail() {
    if (!sim_) return;
    const uint32_t calls = (uint32_t{1} << random_.below(kSimCallCount)) & kind_.failing_calls;
    if (calls == 0) return sim_->machine().set_pending_error(700);
    const DriverCode code = random_.one_in(2) ? kDriverOutOfMemory : 700;
    const SimFailure failure{calls, code, random_.below(3), random_.between(1, 3)};
    sim_->machine().fail(failure);
    failures_.push_back(failure);
  }

  void forget_failures() {
    if (!sim_) return;
    for (SimFailure& failure : failures_) {
      failure.after = UINT64_MAX;
      sim_->machine().fail(failure);
    }
    sim_->machine().set_pending_error(kSuccess);
  }

  // ---- Settings and questions

  void configure() {
    static const char* const kConfigs[] = {
        "",
        "max_split_size_mb:30",
        "garbage_collection_threshold:0.5",
        "roundup_power2_divisions:[1:2,8:8,>:4],roundup_bypass_threshold_mb:32",
        "graph_capture_record_stream_reuse:True",
        "graph_capture_record_stream_reuse:False,expandable_segments:False",
        "release_lock_on_cudamalloc:True,large_segment_size_mb:24",
        "expandable_segments:True",
        "max_split_size_mb:1",
        "no such option",
    };
    allocator_->configure(random_.pick(kConfigs));
  }
  void set_settings() {
    allocator_->change_settings([&](Settings& settings) {
      settings.garbage_collection_threshold = random_.one_in(2) ? 0 : 0.7;
      settings.max_split_size = random_.one_in(2) ? kUnlimited : 25 * MiB;
      settings.release_lock_on_cudamalloc = random_.one_in(2);
    });
  }
  void limit() {
    const int device = any_device();
    if (random_.one_in(4)) return allocator_->set_memory_limit(device, kUnlimited);
    allocator_->set_memory_fraction(device, 0.25 * static_cast<double>(random_.below(6)));
    tell(std::to_string(allocator_->memory_fraction(device)));
  }

  void snapshot() {
    const bool of_a_pool = random_.one_in(3) && !pools_.empty();
    const PoolId pool = of_a_pool ? random_.pick(pools_).id : PoolId{};
    const Snapshot snapshot = allocator_->snapshot(pool, random_.one_in(2));
    if (!of_a_pool) expect_sums(snapshot);
    for (const auto& trace : snapshot.traces) {
      for (const TraceEntry& entry : trace)
        tell(format("%s %" PRIx64 " %" PRIu64, action_name(entry.action), entry.address,
                    entry.size));
    }
  }
  void expect_sums(const Snapshot& snapshot) {
    for (int device = 0; device < allocator_->device_count(); device++) {
      int64_t reserved = 0;
      int64_t allocated = 0;
      for (const SegmentRow& row : snapshot.segments) {
        if (row.device != device) continue;
        reserved += static_cast<int64_t>(row.total_size);
        allocated += static_cast<int64_t>(row.allocated_size);
      }
      const Stats stats = allocator_->stats(device);
      ASSERT_EQ(reserved, stats.reserved_bytes.all.current);
      ASSERT_EQ(allocated, stats.allocated_bytes.all.current);
    }
  }

  void reset() {
    if (random_.one_in(2)) {
      allocator_->reset_peak_stats(any_device());
    } else {
      allocator_->reset_accumulated_stats(any_device());
    }
  }
  void history() {
    HistoryOptions options;
    options.enabled = random_.one_in(2);
    options.context = static_cast<ContextLevel>(random_.below(kind_.is_of_hits ? 1 : 4));
    options.max_entries = random_.below(100);
    options.clear = random_.one_in(2);
    allocator_->record_history(options);
  }

  void observe() {
    if (observer_ != 0) {
      allocator_->detach(std::exchange(observer_, 0));
    } else if (random_.one_in(2)) {
      observer_ = allocator_->observe_trace([this](const TraceEntry&) { observed_++; });
    } else if (random_.one_in(2)) {
      observer_ = allocator_->observe_out_of_memory(
          [this](const OutOfMemory&) { observed_ += allocator_->live_blocks(); });
    } else {
      observer_ = allocator_->register_free_memory_callback([this](int, uint64_t) {
        return !live_.empty() && guarded([this] { free_at(live_.size() / 2); });
      });
    }
  }
  void switch_caching() { allocator_->set_caching_enabled(random_.one_in(2)); }

  void ask() {
    const int device = any_device();
    if (random_.one_in(4)) tell(std::to_string(allocator_->largest_block(device, 512)));
    tell(std::to_string(allocator_->pool_stats(device).size()));
    tell(std::to_string(allocator_->label_stats(device).size()));
    tell(std::to_string(allocator_->expandable_totals().second));
    if (live_.empty()) return;
    const Live& live = random_.pick(live_);
    ASSERT_EQ(allocator_->block(live.address).size, live.size);
    tell(std::to_string(allocator_->base_allocation(live.address).second));
    allocator_->annotate(live.address, "text");
  }
  void label() {
    if (!pop_label()) push_label("label");
  }
  // The first one after a while, so that there are steps without tenants too.
  void tenant() {
    if (!tenant_) {
      if (!random_.one_in(4)) return;
      tenant_ = allocator_->tenant_create(
          {.name = "tenant",
           .terms = {random_.below(64) * MiB, random_.between(64, 512) * MiB, 0}});
    }
    is_tenant_begun_ ? void(end_tenant(*tenant_)) : begin_tenant(tenant_);
    is_tenant_begun_ = !is_tenant_begun_;
  }
  void peer() {
    if (allocator_->device_count() > 1) allocator_->enable_peer_access(0, 1);
  }

  // ---- The end

  // All that was handed out comes back, and all that was obtained is given back.
  void end() {
    forget_failures();
    if (observer_ != 0) allocator_->detach(observer_);
    while (pop_label()) continue;
    if (is_tenant_begun_) end_tenant(*tenant_);
    allocator_->set_caching_enabled(true);
    for (const Pool& pool : pools_) {
      if (pool.capture != 0) sim_->machine().end_capture(pool.device, pool.capture);
    }
    for (Pool& pool : pools_) {
      if (pool.capture != 0) end_capture(pool);
      if (pool.is_routed) end(pool);
      while (use_count(pool) > 0) allocator_->pool_release(pool.device, pool.id);
    }
    while (!live_.empty()) ASSERT_TRUE(free_at(live_.size() - 1));
    ASSERT_EQ(allocator_->live_blocks(), 0u);
    for (int device = 0; device < allocator_->device_count(); device++) {
      allocator_->empty_cache(device);
      expect_empty(device);
    }
    EXPECT_EQ(sources_.outstanding, 0u);
    EXPECT_EQ(allocator_->check(), "");
  }

  void expect_empty(int device) {
    const Stats stats = allocator_->stats(device);
    for (const StatArray* stat :
         {&stats.allocation, &stats.active, &stats.allocated_bytes, &stats.active_bytes,
          &stats.requested_bytes, &stats.segment, &stats.inactive_split, &stats.reserved_bytes}) {
      EXPECT_EQ(stat->all.current, 0);
    }
    if (kind_.failing_calls & kGivingBack)
      return;  // what the driver refused to take is still there
    uint64_t available = 0;
    uint64_t total = 0;
    ASSERT_EQ(driver_->memory_info(device, &available, &total), kSuccess);
    EXPECT_EQ(available, total);
  }

  // ---- Helpers

  void add_live(Address address, int device) {
    if (address == 0) return;
    const uint64_t size = allocator_->block(address).size;
    tell(hex_address(address));
    const auto after = ranges_.lower_bound(address);
    ASSERT_TRUE(after == ranges_.end() || address + size <= after->first) << "overlap";
    ASSERT_TRUE(after == ranges_.begin() || std::prev(after)->second <= address) << "overlap";
    ranges_[address] = address + size;
    live_.push_back({address, size, device});
  }

  // A block of the cache is freed even if the driver then refuses something; one that came from the
  // driver directly stays live.
  bool free_at(size_t index) {
    const Live live = live_[index];
    live_[index] = live_.back();
    live_.pop_back();
    const bool worked = guarded([&] { free_plain(live.address, maybe_stream()); });
    if (!worked && is_uncached(live.address)) {
      live_.push_back(live);
      return false;
    }
    ranges_.erase(live.address);
    expect_invalid_free(live.address);
    return worked;
  }

  bool is_uncached(Address address) {
    bool uncached = false;
    guarded([&] { uncached = allocator_->block(address).uncached; });
    return uncached;
  }

  void expect_invalid_free(Address address) {
    try {
      allocator_->free(address);
      ADD_FAILURE() << hex_address(address) << " is not live, but can be freed";
    } catch (const Error& error) {
      EXPECT_EQ(error.status(), Status::kInvalidArgument);
    }
  }

  std::string numbers() {
    std::string text;
    for (int device = 0; device < allocator_->device_count(); device++) {
      const Stats stats = allocator_->stats(device);
      for (const StatName& row : stat_names(true)) {
        const int64_t value = stat_value(stats, row);
        if (value != 0)
          text += format("\n    %d %s %lld", device, row.name, static_cast<long long>(value));
      }
      for (const LabelStats& row : allocator_->label_stats(device))
        text += format("\n    %d %s %" PRId64 " of %" PRId64, device, row.label->c_str(),
                       row.allocated_bytes.current, row.allocation.allocated);
      for (const TenantRow& row : allocator_->tenants()->rows(device))
        text += format("\n    %d %s %" PRId64 " of %" PRId64, device, row.name.c_str(),
                       row.use.requested_bytes.peak, row.use.allocation.allocated);
    }
    return text;
  }

  void tell(const std::string& text) { story_.back() += " " + text; }
  int any_device() {
    return static_cast<int>(random_.below(static_cast<uint64_t>(driver_->device_count())));
  }
  Stream any_stream() { return random_.pick(kStreams); }
  std::optional<Stream> maybe_stream() {
    if (random_.one_in(2)) return {};
    return any_stream();
  }
  uint64_t any_size() {
    if (random_.one_in(100)) return random_.one_in(2) ? 0 : uint64_t{1} << random_.between(29, 62);
    const uint64_t size = random_.of_any_magnitude(1, 96 * MiB);
    return random_.one_in(2) ? size : uint64_t{512} << random_.below(16);
  }

  Random random_;
  uint64_t trim_time_ = 0;
  const Kind kind_;
  const bool tries_hits_;
  OddMemory sources_;
  std::shared_ptr<Driver> driver_;
  SimDriver* sim_ = nullptr;
  std::unique_ptr<Allocator> allocator_;
  std::vector<Live> live_;
  std::map<Address, Address> ranges_;  // begin to end
  std::vector<Pool> pools_;
  std::vector<SimFailure> failures_;
  std::vector<std::string> story_;
  uint64_t observer_ = 0;
  uint64_t observed_ = 0;
  uint64_t last_capture_ = 0;
  std::shared_ptr<Tenant> tenant_;
  bool is_tenant_begun_ = false;
};

std::vector<Kind> kinds() {
  const struct {
    const char* name;
    const char* config;
    bool needs_virtual_memory;
    bool needs_2_15;
    uint32_t failing_calls = kAllSimCalls & ~kGivingBack;
    bool has_kind_of_hits = false;
  } configs[] = {
      {"default", "", false, false, kAllSimCalls & ~kGivingBack, true},
      {"max_split", "max_split_size_mb:24,max_non_split_rounding_mb:22", false, false,
       kAllSimCalls & ~kGivingBack, true},
      {"expandable", "expandable_segments:True", true, false, kAllSimCalls & ~kGivingBack, true},
      {"collecting", "garbage_collection_threshold:0.5,per_process_memory_fraction:0.5", false,
       false},
      {"rounding", "roundup_power2_divisions:[1:4,16:8,>:2]", false, false},
      {"reuse", "graph_capture_record_stream_reuse:True", false, false},
      {"unlocked", "release_lock_on_cudamalloc:True", false, false},
      {"several",
       "expandable_segments:True,max_split_size_mb:40,garbage_collection_threshold:0.6,"
       "graph_capture_record_stream_reuse:True",
       true, false},
      {"rejecting", "per_process_memory_fraction:0.5,throw_on_cudamalloc_oom:True", false, true},
      {"refused", "expandable_segments:True", true, false, kAllSimCalls},
      {"reserving", "expandable_segments:True,expandable_segments_reserve:0.25", true, true},
  };
  std::vector<Kind> kinds;
  for (const char* driver : {"sim", "host", "custom"}) {
    for (const Release release : {Release::k2_11, Release::k2_15}) {
      for (const auto& config : configs) {
        if (config.needs_virtual_memory && driver == std::string("custom")) continue;
        if (config.needs_2_15 && release != Release::k2_15) continue;
        kinds.push_back({driver, release, config.name, config.config, config.failing_calls});
        if (config.has_kind_of_hits)
          kinds.push_back({driver, release, std::string("hits_") + config.name, config.config,
                           config.failing_calls, true});
      }
    }
  }
  return kinds;
}

class RandomOperations : public testing::TestWithParam<Kind> {};

TEST_P(RandomOperations, KeepEverythingInOrderAndEndWithNothing) {
  const uint64_t seed = test_seed();
  const std::vector<std::string> audited = RandomRun(GetParam(), seed, true).run();
  if (HasFailure()) FAIL() << "after " << audited.size() << " steps: " << audited.back();
  if (GetParam().driver == "host") return;  // addresses differ
  const std::vector<std::string> unaudited = RandomRun(GetParam(), seed, false).run();
  ASSERT_EQ(unaudited.size(), audited.size());
  for (size_t i = 0; i < audited.size(); i++) {
    ASSERT_EQ(unaudited[i], audited[i]) << "step " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Drivers, RandomOperations, testing::ValuesIn(kinds()),
                         [](const auto& test) {
                           const Kind& kind = test.param;
                           const int release = static_cast<int>(kind.release);
                           return kind.driver + "_" + std::to_string(release) + "_" + kind.name;
                         });

}  // namespace
}  // namespace cachalot
