// SPDX-License-Identifier: MIT OR Apache-2.0
// Everything that a caller of the C interface can do, in random order, with the auditor behind
// every call.
//
// A run is made twice on drivers whose addresses repeat: with the auditor, which settles what the
// hit path has put off, and without it. Both have to tell the same story.
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "../test_seed.h"
#include "cachalot/cachalot.h"

namespace {

using cachalot::Random;

constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr uint64_t kCapacity = 512 * kMiB;
constexpr cachalot_stream kStreams[] = {0, 0x10, 0x20};
constexpr int kSteps = 300;

// The calls whose errors an allocator can only pass over.
constexpr uint32_t kGivingBack =
    CACHALOT_SIM_CALL_RELEASE | CACHALOT_SIM_CALL_UNMAP | CACHALOT_SIM_CALL_UNRESERVE;

// A struct that says how long it is.
template <typename Struct>
Struct sized() {
  Struct made;
  std::memset(&made, 0, sizeof made);
  made.struct_size = sizeof made;
  return made;
}

// ---- A driver of the caller: accounts of one device, addresses one behind the other

class Accounts {
 public:
  static cachalot_driver* open() {
    auto ops = sized<cachalot_device_ops>();
    ops.memory_info = [](void* self, int32_t, uint64_t* out_free, uint64_t* out_total) {
      *out_total = kCapacity;
      *out_free = kCapacity - of(self).used_;
      return 0;
    };
    ops.allocate = [](void* self, int32_t, uint64_t size, cachalot_address* out_address) {
      if (!of(self).fits(size)) return CACHALOT_DRIVER_OUT_OF_MEMORY;
      *out_address = of(self).place(size + 512);
      of(self).add(*out_address, size);
      return 0;
    };
    ops.free = [](void* self, int32_t, cachalot_address address) {
      return of(self).remove(address);
    };
    ops.reserve = [](void* self, int32_t, uint64_t size, cachalot_address* out_address) {
      *out_address = of(self).place(size);
      return 0;
    };
    ops.unreserve = [](void*, int32_t, cachalot_address, uint64_t) { return 0; };
    ops.granularity = [](void*, int32_t, uint64_t* out_bytes) {
      *out_bytes = 2 * kMiB;
      return 0;
    };
    ops.create = [](void* self, int32_t, uint64_t size, int32_t, int32_t, uint64_t* out_handle) {
      if (!of(self).fits(size)) return CACHALOT_DRIVER_OUT_OF_MEMORY;
      *out_handle = ++of(self).handles_;
      of(self).add(*out_handle, size);
      return 0;
    };
    ops.export_handle = [](void*, int32_t, uint64_t, int32_t, cachalot_shareable_handle*) {
      return CACHALOT_DRIVER_NOT_SUPPORTED;
    };
    ops.import_handle = [](void*, int32_t, const cachalot_shareable_handle*, int32_t, uint64_t*) {
      return CACHALOT_DRIVER_NOT_SUPPORTED;
    };
    ops.release = [](void* self, int32_t, uint64_t handle) { return of(self).remove(handle); };
    ops.map = [](void*, int32_t, cachalot_address, uint64_t, uint64_t) { return 0; };
    ops.unmap = [](void*, int32_t, cachalot_address, uint64_t) { return 0; };
    ops.set_access = [](void*, int32_t, cachalot_address, uint64_t, int32_t) { return 0; };
    cachalot_driver* driver = nullptr;
    const auto destroy = [](void* self) { delete &of(self); };
    EXPECT_EQ(cachalot_driver_create_custom(&ops, 1, new Accounts, destroy, &driver, nullptr),
              CACHALOT_OK);
    return driver;
  }

 private:
  static Accounts& of(void* self) { return *static_cast<Accounts*>(self); }
  bool fits(uint64_t size) const { return size <= kCapacity - used_; }
  uint64_t place(uint64_t size) { return std::exchange(next_, next_ + (size + 511) / 512 * 512); }
  void add(uint64_t key, uint64_t size) {
    sizes_[key] = size;
    used_ += size;
  }
  int32_t remove(uint64_t key) {
    const auto found = sizes_.find(key);
    if (found == sizes_.end()) return CACHALOT_DRIVER_INVALID_VALUE;
    used_ -= found->second;
    sizes_.erase(found);
    return 0;
  }

  std::unordered_map<uint64_t, uint64_t> sizes_;
  uint64_t used_ = 0;
  uint64_t handles_ = 0;
  uint64_t next_ = (uint64_t{1} << 47) - 256 * kMiB + 512;
};

// ---- Runs

struct Kind {
  std::string driver;
  int32_t release;
  std::string name;
  std::string config;
  uint32_t failing_calls;
};

cachalot_driver* open_driver(const std::string& name) {
  if (name == "custom") return Accounts::open();
  cachalot_driver* driver = nullptr;
  if (name == "host") {
    EXPECT_EQ(cachalot_driver_create_host(kCapacity, 2, &driver, nullptr), CACHALOT_OK);
    return driver;
  }
  auto options = sized<cachalot_sim_options>();
  options.capacity = kCapacity;
  options.device_count = 2;
  EXPECT_EQ(cachalot_sim_create(&options, &driver, nullptr), CACHALOT_OK);
  return driver;
}

class RandomRun {
 public:
  RandomRun(const Kind& kind, uint64_t seed, bool audits)
      : random_(seed), kind_(kind), driver_(open_driver(kind.driver)) {
    auto options = sized<cachalot_allocator_options>();
    options.driver = driver_;
    options.config = kind.config.c_str();
    options.release = kind.release;
    options.no_caching = -1;
    options.shareable_pages = random_.one_in(2) ? 1 : -1;
    options.check_every_call = audits ? 1 : 0;
    options.track_labels = random_.one_in(4) ? 1 : 0;
    options.context_source = CACHALOT_CONTEXT_LABELS;
    expect(CACHALOT_OK, cachalot_allocator_create(&options, &allocator_, &error_));
    devices_ = cachalot_driver_device_count(driver_);
  }
  ~RandomRun() {
    cachalot_allocator_destroy_all(allocator_, nullptr);
    cachalot_driver_destroy(driver_);
  }
  RandomRun(const RandomRun&) = delete;
  RandomRun& operator=(const RandomRun&) = delete;

  // A line for each step.
  std::vector<std::string> run() {
    for (int i = 0; i < kSteps && !testing::Test::HasFatalFailure(); i++) {
      story_.push_back("");
      step();
      story_.back() += numbers();
    }
    if (!testing::Test::HasFatalFailure()) end();
    return story_;
  }

 private:
  struct Live {
    cachalot_address address;
    uint64_t size;
  };
  struct Pool {
    cachalot_pool_id id;
    int32_t device;
    bool is_routed;
    uint64_t capture;  // 0: none
  };
  struct Operation {
    int weight;
    const char* name;
    void (RandomRun::*run)();
  };

  // ---- Steps

  void step() {
    static constexpr Operation kOperations[] = {
        {400, "allocate", &RandomRun::allocate},
        {40, "allocate and free", &RandomRun::allocate_and_free},
        {300, "free", &RandomRun::free_one},
        {10, "free nonsense", &RandomRun::free_nonsense},
        {60, "record_stream", &RandomRun::record_stream},
        {60, "work", &RandomRun::work},
        {10, "empty_cache", &RandomRun::empty_cache},
        {12, "trim", &RandomRun::trim},
        {6, "report", &RandomRun::report},
        {15, "pool_create", &RandomRun::pool_create},
        {15, "pool_begin", &RandomRun::pool_begin},
        {15, "pool_end", &RandomRun::pool_end},
        {8, "pool_release", &RandomRun::pool_release},
        {10, "pool_empty", &RandomRun::pool_empty},
        {10, "capture_begin", &RandomRun::capture_begin},
        {30, "capture_node", &RandomRun::capture_node},
        {12, "capture_end", &RandomRun::capture_end},
        {25, "fail", &RandomRun::fail},
        {6, "configure", &RandomRun::configure},
        {6, "settings", &RandomRun::change_settings},
        {8, "limit", &RandomRun::limit},
        {10, "snapshot", &RandomRun::snapshot},
        {10, "reset", &RandomRun::reset},
        {6, "history", &RandomRun::history},
        {6, "observe", &RandomRun::observe},
        {4, "caching", &RandomRun::switch_caching},
        {20, "ask", &RandomRun::ask},
        {4, "label", &RandomRun::label},
    };
    int total = 0;
    for (const Operation& operation : kOperations) total += operation.weight;
    int chosen = static_cast<int>(random_.below(static_cast<uint64_t>(total)));
    const Operation* operation = kOperations;
    while (chosen >= operation->weight) chosen -= operation++->weight;
    story_.back() += operation->name;
    (this->*operation->run)();
  }

  // Failures are a part of the story. They always say something, and never that the library is
  // broken.
  bool worked(cachalot_status status) {
    if (status == CACHALOT_OK) return true;
    EXPECT_NE(status, CACHALOT_ERROR_INTERNAL) << error_.message;
    EXPECT_EQ(error_.status, status);
    EXPECT_NE(error_.message[0], '\0');
    tell(error_.message);
    error_.message[0] = '\0';
    return false;
  }
  void expect(cachalot_status expected, cachalot_status status) {
    EXPECT_EQ(status, expected) << error_.message;
  }

  void allocate() {
    auto request = sized<cachalot_request>();
    request.size = any_size();
    request.device = any_device();
    request.stream = any_stream();
    request.has_current_stream = random_.one_in(8) ? 1 : 0;
    request.current_stream = any_stream();
    cachalot_address address = 0;
    if (worked(random_.one_in(2) ? cachalot_allocate_with(allocator_, &request, &address, &error_)
                                 : cachalot_allocate(allocator_, request.size, request.device,
                                                     request.stream, &address, &error_))) {
      add_live(address);
    }
  }

  // The same size again and again, which the hit path has a shortcut for.
  void allocate_and_free() {
    const uint64_t size = any_size();
    const int32_t device = any_device();
    const cachalot_stream stream = any_stream();
    for (uint64_t i = random_.between(1, 5); i > 0; i--) {
      cachalot_address address = 0;
      if (!worked(cachalot_allocate(allocator_, size, device, stream, &address, &error_))) return;
      add_live(address);
      if (live_.empty() || random_.one_in(8)) return;
      free_at(live_.size() - 1);
    }
  }

  void free_one() {
    if (!live_.empty()) free_at(random_.below(live_.size()));
  }
  void free_nonsense() {
    expect_invalid_free(0x1234);
    if (!live_.empty() && random_.pick(live_).size > 512) {
      expect_invalid_free(live_.front().address + 8);
    }
    expect(CACHALOT_OK, cachalot_free(allocator_, 0, &error_));
  }

  void record_stream() {
    if (live_.empty()) return;
    const cachalot_address address = random_.pick(live_).address;
    const cachalot_stream stream = any_stream();
    worked(random_.one_in(2) ? cachalot_record_stream(allocator_, address, stream, &error_)
                             : cachalot_record_stream_on_stream(allocator_, address, stream,
                                                                any_stream(), &error_));
    expect(CACHALOT_OK, cachalot_record_stream(allocator_, address + 8, stream, &error_));
  }

  void work() {
    if (!is_sim()) return;
    const int32_t device = any_device();
    const cachalot_stream stream = any_stream();
    switch (random_.below(5)) {
      case 0:
        return void(cachalot_sim_finish_oldest(driver_, device, stream, nullptr));
      case 1:
        return void(cachalot_sim_finish_stream(driver_, device, stream, nullptr));
      default:
        return void(cachalot_sim_queue_work(driver_, device, stream, nullptr));
    }
  }

  void empty_cache() {
    switch (random_.below(3)) {
      case 0:
        return void(worked(cachalot_empty_cache(allocator_, &error_)));
      case 1:
        return void(worked(cachalot_empty_device_cache(allocator_, any_device(), &error_)));
      default:
        return void(worked(cachalot_empty_device_cache_on_stream(allocator_, any_device(),
                                                                 any_stream(), &error_)));
    }
  }

  void trim() {
    const int32_t device = any_device();
    const uint64_t before = cachalot_memory_reserved(allocator_, device);
    uint64_t released = 0;
    worked(cachalot_trim_at(allocator_, device, random_.below(before + 1), random_.below(4),
                            trim_time_++, &released, &error_));
    EXPECT_EQ(before - cachalot_memory_reserved(allocator_, device), released);
  }

  void report() {
    auto options = sized<cachalot_report_options>();
    options.device = any_device();
    options.size = random_.one_in(4) ? 0 : any_size();
    options.stream = any_stream();
    cachalot_report* made = nullptr;
    if (!worked(cachalot_report_create(allocator_, &options, &made, &error_))) return;
    auto numbers = sized<cachalot_report_numbers>();
    expect(CACHALOT_OK, cachalot_report_get_numbers(made, &numbers));
    EXPECT_EQ(numbers.reserved, numbers.allocated + numbers.pending + numbers.cached);
    EXPECT_EQ(numbers.allocated, cachalot_memory_allocated(allocator_, options.device));
    EXPECT_EQ(numbers.reserved, cachalot_memory_reserved(allocator_, options.device));
    uint64_t held = 0;
    for (size_t i = 0; i < cachalot_report_holder_count(made); i++) {
      auto row = sized<cachalot_report_holder>();
      expect(CACHALOT_OK, cachalot_report_get_holder(made, i, &row));
      held += row.bytes;
    }
    EXPECT_EQ(held, numbers.allocated);
    uint64_t not_held = 0;
    for (size_t i = 0; i < cachalot_report_reason_count(made); i++) {
      auto row = sized<cachalot_report_reason>();
      expect(CACHALOT_OK, cachalot_report_get_reason(made, i, &row));
      EXPECT_LE(row.largest, row.bytes);
      EXPECT_LE(row.releasable, row.bytes);
      not_held += row.bytes;
    }
    EXPECT_EQ(not_held, numbers.pending + numbers.cached);
    cachalot_report_destroy(made);
  }

  // ---- Pools and captures

  Pool new_pool(bool for_graph) {
    Pool pool{{0, 0}, any_device(), false, 0};
    expect(CACHALOT_OK, cachalot_pool_new_id(allocator_, for_graph, &pool.id, &error_));
    return pool;
  }
  void pool_create() {
    const Pool pool = new_pool(false);
    auto options = sized<cachalot_pool_options>();
    options.flags = static_cast<uint32_t>(random_.below(4));
    pools_.push_back(pool);
    worked(cachalot_pool_create(allocator_, pool.device, pool.id, &options, &error_));
  }
  void begin(Pool& pool, int32_t kind) {
    auto route = sized<cachalot_pool_route>();
    route.kind = kind;
    route.stream = any_stream();
    route.capture_id = pool.capture;
    route.predicate = [](void*, cachalot_stream stream) { return stream == 0 ? 1 : 0; };
    if (worked(cachalot_pool_begin(allocator_, pool.device, pool.id, &route, &error_))) {
      pool.is_routed = true;
    }
  }
  void pool_begin() {
    if (pools_.empty()) return;
    const auto kind = static_cast<int32_t>(random_.below(6));
    if (kind != CACHALOT_ROUTE_CAPTURE) begin(random_.pick(pools_), kind);
  }
  void end(Pool& pool) {
    if (worked(cachalot_pool_end(allocator_, pool.device, pool.id, &error_))) {
      pool.is_routed = false;
    }
  }
  void pool_end() {
    if (!pools_.empty()) end(random_.pick(pools_));
  }
  int32_t use_count(const Pool& pool) {
    int32_t count = 0;
    worked(cachalot_pool_use_count(allocator_, pool.device, pool.id, &count, &error_));
    return count;
  }
  void pool_release() {
    if (pools_.empty()) return;
    const Pool& pool = random_.pick(pools_);
    // The count would stay below 0, as in the reference, and keep the pool's memory for good.
    if (use_count(pool) > 0) {
      worked(cachalot_pool_release(allocator_, pool.device, pool.id, &error_));
    }
  }
  void pool_empty() {
    if (pools_.empty()) return;
    const Pool& pool = random_.pick(pools_);
    int32_t equal = 0;
    worked(cachalot_pool_has_live(allocator_, pool.device, pool.id, nullptr, 0, &equal, &error_));
    tell(std::to_string(equal));
    worked(
        cachalot_pool_set_use_on_oom(allocator_, pool.device, pool.id, random_.one_in(2), &error_));
    worked(cachalot_pool_empty(allocator_, pool.device, pool.id, &error_));
  }

  void capture_begin() {
    if (!is_sim()) return;
    Pool pool = new_pool(true);
    pool.capture = ++last_capture_;
    expect(CACHALOT_OK,
           cachalot_sim_begin_capture(driver_, pool.device, any_stream(), pool.capture, &error_));
    expect(CACHALOT_OK, cachalot_capture_begin(allocator_, pool.device, &error_));
    begin(pool, random_.one_in(2) ? CACHALOT_ROUTE_CAPTURE : CACHALOT_ROUTE_ALL);
    pools_.push_back(pool);
  }
  void capture_node() {
    if (!is_sim()) return;
    const int32_t device = any_device();
    const cachalot_stream stream = any_stream();
    const cachalot_stream other = any_stream();
    switch (random_.below(4)) {
      case 0:
        return void(cachalot_sim_fork_capture(driver_, device, stream, other, nullptr));
      case 1:
        return void(cachalot_sim_join_capture(driver_, device, stream, other, nullptr));
      default:
        return void(cachalot_sim_add_node(driver_, device, stream, nullptr));
    }
  }
  void end_capture(Pool& pool) {
    expect(CACHALOT_OK, cachalot_sim_end_capture(driver_, pool.device, pool.capture, &error_));
    pool.capture = 0;
    worked(cachalot_capture_end(allocator_, pool.device, &error_));
    if (pool.is_routed) end(pool);
  }
  void capture_end() {
    for (Pool& pool : pools_) {
      if (pool.capture != 0 && random_.one_in(2)) return end_capture(pool);
    }
  }

  // ---- What goes wrong

  void fail() {
    if (!is_sim()) return;
    auto failure = sized<cachalot_sim_failure>();
    failure.calls = (1u << random_.below(20)) & kind_.failing_calls;
    failure.code = random_.one_in(2) ? CACHALOT_DRIVER_OUT_OF_MEMORY : 700;
    failure.after = random_.below(3);
    failure.count = random_.between(1, 3);
    if (failure.calls == 0) {
      return expect(CACHALOT_OK, cachalot_sim_set_pending_error(driver_, 700, &error_));
    }
    expect(CACHALOT_OK, cachalot_sim_fail(driver_, &failure, &error_));
    failures_.push_back(failure);
  }
  void forget_failures() {
    if (!is_sim()) return;
    for (cachalot_sim_failure& failure : failures_) {
      failure.after = UINT64_MAX;
      expect(CACHALOT_OK, cachalot_sim_fail(driver_, &failure, &error_));
    }
    expect(CACHALOT_OK, cachalot_sim_set_pending_error(driver_, 0, &error_));
  }

  // ---- Settings and questions

  void configure() {
    static const char* const kConfigs[] = {
        "",
        "max_split_size_mb:30",
        "garbage_collection_threshold:0.5",
        "roundup_power2_divisions:[1:2,8:8,>:4],roundup_bypass_threshold_mb:32",
        "graph_capture_record_stream_reuse:True",
        "expandable_segments:True",
        "expandable_segments:False,large_segment_size_mb:24",
        "release_lock_on_cudamalloc:True",
        "no such option",
    };
    worked(cachalot_configure(allocator_, random_.pick(kConfigs), &error_));
  }
  void change_settings() {
    auto settings = sized<cachalot_settings>();
    expect(CACHALOT_OK, cachalot_get_settings(allocator_, &settings, &error_));
    settings.garbage_collection_threshold = random_.one_in(2) ? 0 : 0.7;
    settings.max_split_size = random_.one_in(2) ? UINT64_MAX : random_.between(1, 40) * kMiB;
    worked(cachalot_set_settings(allocator_, &settings, &error_));
  }
  void limit() {
    const double fraction = 0.25 * static_cast<double>(random_.below(6));
    worked(cachalot_set_memory_fraction(allocator_, any_device(), fraction, &error_));
    if (random_.one_in(3)) {
      worked(cachalot_set_memory_limit(allocator_, any_device(), UINT64_MAX, &error_));
    }
  }

  void snapshot() {
    auto options = sized<cachalot_snapshot_options>();
    options.without_history = random_.one_in(2) ? 1 : 0;
    cachalot_snapshot* taken = nullptr;
    if (!worked(cachalot_snapshot_take(allocator_, &options, &taken, &error_))) return;
    std::vector<uint64_t> reserved(static_cast<size_t>(devices_));
    for (size_t i = 0; i < cachalot_snapshot_segment_count(taken); i++) {
      auto row = sized<cachalot_segment_row>();
      expect(CACHALOT_OK, cachalot_snapshot_segment(taken, i, &row));
      reserved[static_cast<size_t>(row.device)] += row.total_size;
      for (size_t b = 0; b < row.block_count; b++) {
        auto block = sized<cachalot_block_row>();
        expect(CACHALOT_OK, cachalot_snapshot_block(taken, row.first_block + b, &block));
        row.total_size -= block.size;
      }
      EXPECT_EQ(row.total_size, 0u);
    }
    for (int32_t device = 0; device < devices_; device++) {
      EXPECT_EQ(reserved[static_cast<size_t>(device)],
                cachalot_memory_reserved(allocator_, device));
      for (size_t i = 0; i < cachalot_snapshot_entry_count(taken, device); i++) {
        auto entry = sized<cachalot_trace_entry>();
        expect(CACHALOT_OK, cachalot_snapshot_entry(taken, device, i, &entry));
        tell(cachalot_action_name(entry.action));
      }
    }
    cachalot_snapshot_destroy(taken);
  }

  void reset() {
    const int32_t device = any_device();
    expect(CACHALOT_OK, random_.one_in(2)
                            ? cachalot_reset_peak_stats(allocator_, device, &error_)
                            : cachalot_reset_accumulated_stats(allocator_, device, &error_));
  }
  void history() {
    auto options = sized<cachalot_history_options>();
    options.enabled = random_.one_in(2) ? 1 : 0;
    options.context = static_cast<int32_t>(random_.below(4));
    options.max_entries = random_.below(100);
    options.clear = random_.one_in(2) ? 1 : 0;
    options.skip_actions = random_.one_in(2) ? "alloc,segment_map" : nullptr;
    worked(cachalot_record_history(allocator_, &options, &error_));
  }

  void observe() {
    if (observer_ != 0) {
      return expect(CACHALOT_OK, cachalot_detach(allocator_, std::exchange(observer_, 0), &error_));
    }
    const auto see_entry = [](void* self, const cachalot_trace_entry*) {
      static_cast<RandomRun*>(self)->observed_++;
    };
    const auto free_one_more = [](void* self, int32_t, uint64_t) -> int32_t {
      auto& run = *static_cast<RandomRun*>(self);
      return !run.live_.empty() && run.free_at(run.live_.size() / 2) ? 1 : 0;
    };
    expect(CACHALOT_OK,
           random_.one_in(2)
               ? cachalot_observe_trace(allocator_, see_entry, this, nullptr, &observer_, &error_)
               : cachalot_register_free_memory_callback(allocator_, free_one_more, this, nullptr,
                                                        &observer_, &error_));
  }
  void switch_caching() {
    expect(CACHALOT_OK, cachalot_set_caching_enabled(allocator_, random_.one_in(2), &error_));
    tell(std::to_string(cachalot_is_caching_enabled(allocator_)));
  }

  void ask() {
    const int32_t device = any_device();
    uint64_t number = 0;
    size_t count = 0;
    worked(cachalot_largest_block(allocator_, device, 512, &number, &error_));
    worked(cachalot_pool_stats_count(allocator_, device, &count, &error_));
    worked(cachalot_expandable_segments(allocator_, device, nullptr, 0, &count, &error_));
    worked(cachalot_memory_summary(allocator_, device, 0, nullptr, 0, &count, &error_));
    tell(std::to_string(number) + " " + std::to_string(count));
    if (live_.empty()) return;
    const Live& live = random_.pick(live_);
    EXPECT_EQ(size_of(live.address), live.size);
    cachalot_address base = 0;
    worked(cachalot_base_allocation(allocator_, live.address, &base, &number, &error_));
    worked(cachalot_annotate(allocator_, live.address, "text", &error_));
  }
  void label() {
    if (cachalot_label_pop(nullptr) == CACHALOT_OK) return;
    expect(CACHALOT_OK, cachalot_label_push("label", &error_));
  }

  // ---- The end

  // All that was handed out comes back, and all that was obtained is given back.
  void end() {
    forget_failures();
    if (observer_ != 0) cachalot_detach(allocator_, observer_, nullptr);
    while (cachalot_label_pop(nullptr) == CACHALOT_OK) continue;
    expect(CACHALOT_OK, cachalot_set_caching_enabled(allocator_, 1, &error_));
    for (const Pool& pool : pools_) {
      if (pool.capture != 0) {
        cachalot_sim_end_capture(driver_, pool.device, pool.capture, nullptr);
      }
    }
    for (Pool& pool : pools_) {
      if (pool.capture != 0) end_capture(pool);
      if (pool.is_routed) end(pool);
      while (use_count(pool) > 0) {
        expect(CACHALOT_OK, cachalot_pool_release(allocator_, pool.device, pool.id, &error_));
      }
    }
    while (!live_.empty()) ASSERT_TRUE(free_at(live_.size() - 1)) << error_.message;
    expect(CACHALOT_OK, cachalot_empty_cache(allocator_, &error_));
    for (int32_t device = 0; device < devices_; device++) expect_empty(device);
    expect(CACHALOT_OK, cachalot_check(allocator_, &error_));
    expect(CACHALOT_OK, cachalot_allocator_destroy(std::exchange(allocator_, nullptr), &error_));
  }

  void expect_empty(int32_t device) {
    EXPECT_EQ(cachalot_memory_allocated(allocator_, device), 0u);
    EXPECT_EQ(cachalot_memory_active(allocator_, device), 0u);
    EXPECT_EQ(cachalot_memory_reserved(allocator_, device), 0u);
    if ((kind_.failing_calls & kGivingBack) || has_lost_)
      return;  // what the driver refused to take is still there
    auto totals = sized<cachalot_device_totals>();
    expect(CACHALOT_OK, cachalot_get_device_totals(allocator_, device, &totals, &error_));
    EXPECT_EQ(totals.used, 0u);
    EXPECT_EQ(totals.outside, 0u);
  }

  // ---- Helpers

  uint64_t size_of(cachalot_address address) {
    auto block = sized<cachalot_block>();
    expect(CACHALOT_OK, cachalot_get_block(allocator_, address, &block, &error_));
    return block.size;
  }

  void add_live(cachalot_address address) {
    if (address == 0) return;
    const uint64_t size = size_of(address);
    tell(std::to_string(address));
    const auto after = ranges_.lower_bound(address);
    ASSERT_TRUE(after == ranges_.end() || address + size <= after->first) << "overlap";
    ASSERT_TRUE(after == ranges_.begin() || std::prev(after)->second <= address) << "overlap";
    ranges_[address] = address + size;
    live_.push_back({address, size});
  }

  // A block of the cache is freed even if the driver then refuses something; one that came from the
  // driver directly stays live.
  bool free_at(size_t index) {
    const Live live = live_[index];
    live_[index] = live_.back();
    live_.pop_back();
    const bool was_freed = worked(
        random_.one_in(4) ? cachalot_free_on_stream(allocator_, live.address, any_stream(), &error_)
                          : cachalot_free(allocator_, live.address, &error_));
    auto block = sized<cachalot_block>();
    if (!was_freed &&
        cachalot_get_block(allocator_, live.address, &block, nullptr) == CACHALOT_OK) {
      EXPECT_EQ(block.uncached, 1);
      live_.push_back(live);
      return false;
    }
    has_lost_ |= !was_freed;
    ranges_.erase(live.address);
    expect_invalid_free(live.address);
    return was_freed;
  }

  void expect_invalid_free(cachalot_address address) {
    expect(CACHALOT_ERROR_INVALID_ARGUMENT, cachalot_free(allocator_, address, &error_));
  }

  std::string numbers() {
    std::string text;
    for (int32_t device = 0; device < devices_; device++) {
      auto stats = sized<cachalot_stats>();
      expect(CACHALOT_OK, cachalot_get_stats(allocator_, device, &stats, &error_));
      const char* name = nullptr;
      int64_t value = 0;
      for (size_t i = 0; cachalot_stats_at(&stats, kind_.release, i, &name, &value) == CACHALOT_OK;
           i++) {
        if (value == 0) continue;
        text += "\n    " + std::to_string(device) + " " + name + " " + std::to_string(value);
      }
    }
    return text;
  }

  void tell(const std::string& text) { story_.back() += " " + text; }
  bool is_sim() const { return kind_.driver == "sim"; }
  int32_t any_device() {
    return static_cast<int32_t>(random_.below(static_cast<uint64_t>(devices_)));
  }
  cachalot_stream any_stream() { return random_.pick(kStreams); }
  uint64_t any_size() {
    if (random_.one_in(100)) return random_.one_in(2) ? 0 : uint64_t{1} << random_.between(29, 62);
    const uint64_t size = random_.of_any_magnitude(1, 96 * kMiB);
    return random_.one_in(2) ? size : uint64_t{512} << random_.below(16);
  }

  Random random_;
  uint64_t trim_time_ = 0;
  bool has_lost_ = false;  // an uncached block that the driver refused to take
  const Kind kind_;
  cachalot_driver* driver_ = nullptr;
  cachalot_allocator* allocator_ = nullptr;
  cachalot_error error_ = CACHALOT_ERROR_INIT;
  int32_t devices_ = 0;
  std::vector<Live> live_;
  std::map<cachalot_address, cachalot_address> ranges_;  // begin to end
  std::vector<Pool> pools_;
  std::vector<cachalot_sim_failure> failures_;
  std::vector<std::string> story_;
  uint64_t observer_ = 0;
  uint64_t observed_ = 0;
  uint64_t last_capture_ = 0;
};

std::vector<Kind> kinds() {
  constexpr uint32_t kAllCalls = 0xFFFFF;
  constexpr uint32_t kUsual = kAllCalls & ~kGivingBack;
  const struct {
    const char* name;
    const char* config;
    uint32_t failing_calls;
  } configs[] = {
      {"default", "", kUsual},
      {"max_split", "max_split_size_mb:24,max_non_split_rounding_mb:22", kUsual},
      {"expandable", "expandable_segments:True", kUsual},
      {"collecting", "garbage_collection_threshold:0.5,per_process_memory_fraction:0.5", kUsual},
      {"reuse", "graph_capture_record_stream_reuse:True", kUsual},
      {"unlocked", "release_lock_on_cudamalloc:True,roundup_power2_divisions:4", kUsual},
      {"refused", "expandable_segments:True", kAllCalls},
  };
  std::vector<Kind> kinds;
  for (const char* driver : {"sim", "host", "custom"}) {
    for (const int32_t release : {CACHALOT_RELEASE_2_11, CACHALOT_RELEASE_2_15}) {
      for (const auto& config : configs) {
        kinds.push_back({driver, release, config.name, config.config, config.failing_calls});
      }
    }
  }
  return kinds;
}

class RandomOperations : public testing::TestWithParam<Kind> {};

TEST_P(RandomOperations, KeepEverythingInOrderAndEndWithNothing) {
  const uint64_t seed = cachalot::test_seed();
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
                           return kind.driver + "_" + std::to_string(kind.release) + "_" +
                                  kind.name;
                         });

}  // namespace
