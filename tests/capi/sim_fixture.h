// SPDX-License-Identifier: MIT OR Apache-2.0
// What the tests of the behaviour rules share: an allocator over a simulated device, and what
// happens to it as short texts. Sizes read "20M", "1K" or "1000"; addresses are offsets from the
// first one that the device gives.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "cachalot/cachalot.h"

namespace cachalot_test {

inline constexpr uint64_t KiB = uint64_t{1} << 10;
inline constexpr uint64_t MiB = uint64_t{1} << 20;
inline constexpr uint64_t GiB = uint64_t{1} << 30;
inline constexpr cachalot_address kFirstAddress = 0x700000000000;
inline constexpr cachalot_stream kDefaultStream = 0;

// Both releases, for rules that are the same in both.
inline constexpr int32_t kReleases[] = {CACHALOT_RELEASE_2_11, CACHALOT_RELEASE_2_15};

inline std::string size_text(uint64_t bytes) {
  if (bytes != 0 && bytes % MiB == 0) return std::to_string(bytes / MiB) + "M";
  if (bytes != 0 && bytes % KiB == 0) return std::to_string(bytes / KiB) + "K";
  return std::to_string(bytes);
}

inline std::string address_text(cachalot_address address) {
  return address >= kFirstAddress ? size_text(address - kFirstAddress) : size_text(address);
}

inline std::string joined(const std::vector<std::string>& parts, const char* separator) {
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : separator) + part;
  return text;
}

// How a simulated allocator is made.
struct SimSetup {
  std::string config = {};
  int32_t release = CACHALOT_RELEASE_2_15;
  uint64_t capacity = 80 * GiB;
  uint32_t mend = 0;
  int32_t device_count = 1;
  bool check_every_call = true;
  cachalot_policy policy = {};  // all 0: the default
  int32_t texts = CACHALOT_TEXTS_DEFAULT;
};

// What a call came to.
struct Outcome {
  cachalot_status status = CACHALOT_OK;
  cachalot_address address = 0;
  cachalot_error error = CACHALOT_ERROR_INIT;

  std::string message() const { return error.message; }
  // Of an out-of-memory text: what the reference says, without the library's line behind it.
  std::string reference_text() const {
    const std::string text = message();
    return text.substr(0, text.find("\ncachalot: "));
  }
};

// What comes of an allocator of the serving policy over a custom driver, which a test expects to be refused.
inline Outcome create_serving_over(const cachalot_device_ops& ops, void* user_data) {
  Outcome outcome;
  cachalot_driver* driver = nullptr;
  EXPECT_EQ(cachalot_driver_create_custom(&ops, 1, user_data, nullptr, &driver, &outcome.error),
            CACHALOT_OK);
  cachalot_allocator_options options = {};
  options.struct_size = sizeof options;
  options.driver = driver;
  options.config = "";
  options.policy = CACHALOT_POLICY_SERVING;
  cachalot_allocator* allocator = nullptr;
  outcome.status = cachalot_allocator_create(&options, &allocator, &outcome.error);
  EXPECT_EQ(allocator, nullptr);
  cachalot_driver_destroy(driver);
  return outcome;
}

// After every call the auditor looks at everything; in the end all that is live is freed.
class SimAllocator {
 public:
  explicit SimAllocator(const std::string& config = "")
      : SimAllocator(SimSetup{.config = config}) {}

  explicit SimAllocator(const SimSetup& setup) {
    cachalot_sim_options sim = {};
    sim.struct_size = sizeof sim;
    sim.capacity = setup.capacity;
    sim.device_count = setup.device_count;
    ok(cachalot_sim_create(&sim, &driver_, &error_));
    ok(cachalot_sim_log_calls(driver_, CACHALOT_SIM_LOG_CALLS, &error_));
    cachalot_allocator_options options = {};
    options.struct_size = sizeof options;
    options.driver = driver_;
    options.config = setup.config.c_str();
    options.release = setup.release;
    options.mend = setup.mend;
    options.no_caching = -1;
    options.shareable_pages = 1;
    options.check_every_call = setup.check_every_call ? 1 : 0;
    options.policy = setup.policy.policy;
    options.thrift = setup.policy.thrift;
    options.borrow = setup.policy.borrow;
    options.streams = setup.policy.streams;
    options.page_bytes = setup.policy.page_bytes;
    options.texts = setup.texts;
    options.log = add_to_log;
    options.log_user_data = &log_;
    ok(cachalot_allocator_create(&options, &allocator_, &error_));
  }

  ~SimAllocator() {
    if (allocator_ != nullptr) destroy_all();
    cachalot_driver_destroy(driver_);
  }

  SimAllocator(const SimAllocator&) = delete;
  SimAllocator& operator=(const SimAllocator&) = delete;

  // Before the driver goes, whose calls can still be read. No other call of the allocator follows.
  void destroy_all() {
    ok(cachalot_check(allocator_, &error_));
    ok(cachalot_allocator_destroy_all(std::exchange(allocator_, nullptr), &error_));
  }

  cachalot_allocator* get() const { return allocator_; }
  cachalot_driver* driver() const { return driver_; }
  cachalot_error* error() { return &error_; }

  // Expects success of a call that gets error().
  void ok(cachalot_status status) { EXPECT_EQ(status, CACHALOT_OK) << error_.message; }

  // Expects a failure of a call that gets error(), and gives its text.
  std::string refused(cachalot_status status, cachalot_status expected) {
    EXPECT_EQ(status, expected) << error_.message;
    return status == CACHALOT_OK ? "" : error_.message;
  }

  // ---- Blocks

  Outcome try_allocate(uint64_t size, cachalot_stream stream = 0, int32_t device = 0) {
    Outcome outcome;
    outcome.status =
        cachalot_allocate(allocator_, size, device, stream, &outcome.address, &outcome.error);
    return outcome;
  }

  cachalot_address allocate(uint64_t size, cachalot_stream stream = 0, int32_t device = 0) {
    const Outcome outcome = try_allocate(size, stream, device);
    EXPECT_EQ(outcome.status, CACHALOT_OK) << outcome.message();
    return outcome.address;
  }

  void free(cachalot_address address) { ok(cachalot_free(allocator_, address, &error_)); }

  // The sizes in MiB, one after another, each block freed at once after all have been obtained.
  void cache(std::initializer_list<uint64_t> sizes_in_mib, cachalot_stream stream = 0) {
    std::vector<cachalot_address> blocks;
    for (const uint64_t size : sizes_in_mib) blocks.push_back(allocate(size * MiB, stream));
    for (const cachalot_address block : blocks) free(block);
  }

  void record_stream(cachalot_address address, cachalot_stream stream) {
    ok(cachalot_record_stream(allocator_, address, stream, &error_));
  }

  cachalot_block block(cachalot_address address) {
    cachalot_block block = {};
    block.struct_size = sizeof block;
    ok(cachalot_get_block(allocator_, address, &block, &error_));
    return block;
  }

  // The size of the block that a request gets; the block is freed.
  uint64_t block_size_for(uint64_t request) {
    const cachalot_address address = allocate(request);
    const uint64_t size = block(address).size;
    free(address);
    return size;
  }

  void empty_cache() { ok(cachalot_empty_cache(allocator_, &error_)); }
  void configure(const std::string& config) {
    ok(cachalot_configure(allocator_, config.c_str(), &error_));
  }
  void set_limit(uint64_t bytes) { ok(cachalot_set_memory_limit(allocator_, 0, bytes, &error_)); }

  cachalot_settings settings() {
    cachalot_settings settings = {};
    settings.struct_size = sizeof settings;
    ok(cachalot_get_settings(allocator_, &settings, &error_));
    return settings;
  }

  cachalot_stats stats(int32_t device = 0) {
    cachalot_stats stats = {};
    stats.struct_size = sizeof stats;
    ok(cachalot_get_stats(allocator_, device, &stats, &error_));
    return stats;
  }

  uint64_t reserved(int32_t device = 0) { return cachalot_memory_reserved(allocator_, device); }

  // ---- Pools

  static constexpr cachalot_pool_id user_pool(uint64_t number) { return {0, number}; }
  static constexpr cachalot_pool_id graph_pool(uint64_t number) { return {number, 0}; }

  void create_pool(cachalot_pool_id id, uint32_t flags = 0) {
    cachalot_pool_options options = {};
    options.struct_size = sizeof options;
    options.flags = flags;
    ok(cachalot_pool_create(allocator_, 0, id, &options, &error_));
  }
  void begin_pool(cachalot_pool_id id, int32_t kind = CACHALOT_ROUTE_THIS_THREAD,
                  cachalot_stream stream = 0, uint64_t capture_id = 0) {
    cachalot_pool_route route = {};
    route.struct_size = sizeof route;
    route.kind = kind;
    route.stream = stream;
    route.capture_id = capture_id;
    ok(cachalot_pool_begin(allocator_, 0, id, &route, &error_));
  }
  void end_pool(cachalot_pool_id id) { ok(cachalot_pool_end(allocator_, 0, id, &error_)); }
  void release_pool(cachalot_pool_id id) { ok(cachalot_pool_release(allocator_, 0, id, &error_)); }
  // Ends the routing and gives back the use that its begin has added.
  void leave_pool(cachalot_pool_id id) {
    end_pool(id);
    release_pool(id);
  }
  void empty_pool(cachalot_pool_id id) { ok(cachalot_pool_empty(allocator_, 0, id, &error_)); }
  // 0: there is no such pool.
  int32_t use_count(cachalot_pool_id id) {
    int32_t count = 0;
    const auto status = cachalot_pool_use_count(allocator_, 0, id, &count, &error_);
    EXPECT_TRUE(status == CACHALOT_OK || status == CACHALOT_ERROR_INVALID_STATE);
    return count;
  }
  // A new pool with cached segments of these sizes, made by requests of the stream; its use count
  // is 1.
  void cache_in_pool(cachalot_pool_id id, std::initializer_list<uint64_t> sizes_in_mib,
                     uint32_t flags = 0) {
    create_pool(id, flags);
    begin_pool(id);
    cache(sizes_in_mib);
    leave_pool(id);
  }

  // ---- The device

  void queue_work(cachalot_stream stream) {
    ok(cachalot_sim_queue_work(driver_, 0, stream, &error_));
  }
  void finish_work(cachalot_stream stream) {
    ok(cachalot_sim_finish_stream(driver_, 0, stream, &error_));
  }
  void fail(uint32_t calls, int32_t code, uint64_t after = 0, uint64_t count = 1) {
    cachalot_sim_failure failure = {};
    failure.struct_size = sizeof failure;
    failure.calls = calls;
    failure.code = code;
    failure.after = after;
    failure.count = count;
    ok(cachalot_sim_fail(driver_, &failure, &error_));
  }
  // The next `count` requests to the driver for memory find none.
  void fail_allocations(uint64_t count = 1) {
    fail(CACHALOT_SIM_CALL_ALLOCATE | CACHALOT_SIM_CALL_CREATE, CACHALOT_DRIVER_OUT_OF_MEMORY, 0,
         count);
  }
  // The next segments lie at these offsets from the first address.
  void give_addresses(std::initializer_list<uint64_t> offsets) {
    std::vector<cachalot_address> addresses;
    for (const uint64_t offset : offsets) addresses.push_back(kFirstAddress + offset);
    ok(cachalot_sim_give_addresses(driver_, 0, addresses.data(), addresses.size(), &error_));
  }

  // A stream capture with its marks (R13), routed to a pool of graphs.
  void begin_capture(cachalot_pool_id pool, cachalot_stream stream, uint64_t capture_id) {
    begin_pool(pool, CACHALOT_ROUTE_CAPTURE, 0, capture_id);
    ok(cachalot_sim_begin_capture(driver_, 0, stream, capture_id, &error_));
    ok(cachalot_capture_begin(allocator_, 0, &error_));
  }
  void end_capture(cachalot_pool_id pool, uint64_t capture_id) {
    ok(cachalot_sim_end_capture(driver_, 0, capture_id, &error_));
    ok(cachalot_capture_end(allocator_, 0, &error_));
    end_pool(pool);
  }

  // The driver calls since the last time, "; " between them.
  std::string take_calls() {
    size_t length = 0;
    ok(cachalot_sim_read_calls(driver_, nullptr, 0, &length, &error_));
    std::string text(length + 1, '\0');
    ok(cachalot_sim_read_calls(driver_, text.data(), text.size(), nullptr, &error_));
    text.resize(length);
    std::istringstream lines(text);
    std::vector<std::string> calls;
    for (std::string line; std::getline(lines, line);) calls.push_back(shortened(line));
    return joined(calls, "; ");
  }

  // ---- What happened

  // Starts collecting what take_trace gives. Without it requests take the hot path of a hit.
  void watch() {
    ok(cachalot_observe_trace(allocator_, add_to_trace, &trace_, nullptr, nullptr, &error_));
  }

  // The events since the last time, "ACTION ADDRESS SIZE", "; " between them; " @STREAM" follows
  // in hexadecimal where it is not the default stream. Looks at the layout leave no entry.
  std::string take_trace() { return joined(std::exchange(trace_, {}), "; "); }

  // The remarks since the last time.
  std::string take_log() { return joined(std::exchange(log_, {}), "; "); }

  // All segments by address, " | " between them: "0: used 1K, free 2047K". Waiting blocks read
  // "pending".
  std::string layout(cachalot_pool_id pool = {0, 0}) {
    return describe_blocks(pool, [](const cachalot_block_row& row) {
      const char* states[] = {"free ", "used ", "pending "};
      return states[row.state] + size_text(row.size);
    });
  }

  // The same with the requested sizes alone, also of free blocks [core 9.6]: "0: 1000, 0".
  std::string requested_sizes() {
    return describe_blocks(
        {0, 0}, [](const cachalot_block_row& row) { return std::to_string(row.requested_size); });
  }

  // The numbers of all segments by address (R2).
  std::vector<int64_t> segment_numbers() {
    std::vector<int64_t> numbers;
    for (const cachalot_segment_row& row : segments()) numbers.push_back(row.number);
    return numbers;
  }

  std::vector<cachalot_segment_row> segments(cachalot_pool_id pool = {0, 0}) {
    cachalot_snapshot* snapshot = take_snapshot(pool);
    std::vector<cachalot_segment_row> rows;
    for (size_t i = 0; i < cachalot_snapshot_segment_count(snapshot); i++) {
      cachalot_segment_row row = {};
      row.struct_size = sizeof row;
      ok(cachalot_snapshot_segment(snapshot, i, &row));
      rows.push_back(row);
    }
    cachalot_snapshot_destroy(snapshot);
    return rows;
  }

  // The caller owns it.
  cachalot_snapshot* take_snapshot(cachalot_pool_id pool = {0, 0}) {
    cachalot_snapshot_options options = {};
    options.struct_size = sizeof options;
    options.pool = pool;
    cachalot_snapshot* snapshot = nullptr;
    ok(cachalot_snapshot_take(allocator_, &options, &snapshot, &error_));
    return snapshot;
  }

 private:
  static void add_to_log(void* user_data, int32_t, const char* message) {
    static_cast<std::vector<std::string>*>(user_data)->push_back(message);
  }

  static void add_to_trace(void* user_data, const cachalot_trace_entry* entry) {
    if (entry->action == CACHALOT_ACTION_SNAPSHOT) return;
    std::ostringstream text;
    text << cachalot_action_name(entry->action) << ' ' << address_text(entry->address) << ' '
         << size_text(entry->size);
    if (entry->stream != kDefaultStream) text << " @" << std::hex << entry->stream;
    static_cast<std::vector<std::string>*>(user_data)->push_back(text.str());
  }

  // A driver call with its numbers in the words of the tests.
  static std::string shortened(const std::string& line) {
    std::istringstream in(line);
    std::vector<std::string> words;
    for (std::string word; in >> word;) {
      const bool is_address = word.size() == 12 && word[0] == '7';
      const bool is_size = word.find_first_not_of("0123456789") == std::string::npos;
      if (is_address) {
        word = address_text(std::stoull(word, nullptr, 16));
      } else if (is_size) {
        word = size_text(std::stoull(word));
      }
      words.push_back(word);
    }
    return joined(words, " ");
  }

  template <class Describe>
  std::string describe_blocks(cachalot_pool_id pool, Describe describe) {
    cachalot_snapshot* snapshot = take_snapshot(pool);
    std::vector<std::string> segments;
    for (size_t i = 0; i < cachalot_snapshot_segment_count(snapshot); i++) {
      cachalot_segment_row segment = {};
      segment.struct_size = sizeof segment;
      ok(cachalot_snapshot_segment(snapshot, i, &segment));
      std::vector<std::string> blocks;
      for (size_t b = 0; b < segment.block_count; b++) {
        cachalot_block_row row = {};
        row.struct_size = sizeof row;
        ok(cachalot_snapshot_block(snapshot, segment.first_block + b, &row));
        blocks.push_back(describe(row));
      }
      segments.push_back(address_text(segment.address) + ": " + joined(blocks, ", "));
    }
    cachalot_snapshot_destroy(snapshot);
    return joined(segments, " | ");
  }

  cachalot_driver* driver_ = nullptr;
  cachalot_allocator* allocator_ = nullptr;
  cachalot_error error_ = CACHALOT_ERROR_INIT;
  std::vector<std::string> trace_;
  std::vector<std::string> log_;
};

}  // namespace cachalot_test
