// SPDX-License-Identifier: MIT OR Apache-2.0
// A walk through the whole interface, for tests that ask what a call needs or leaves alone.
#pragma once

#include <cstring>
#include <string>

#include "cachalot/cachalot.h"

template <class Struct>
Struct sized() {
  Struct out;
  std::memset(&out, 0, sizeof out);
  out.struct_size = sizeof out;
  return out;
}

// Counts what did not go as it should, and keeps the first message.
class Tour {
 public:
  int failures() const { return failures_; }
  const char* first_message() const { return message_; }

  // Every function, over a driver by name, under an option string.
  void walk(const char* driver_name, const char* config) {
    cachalot_driver* driver = nullptr;
    ok(cachalot_driver_open(driver_name, &driver, &error_));
    auto options = sized<cachalot_allocator_options>();
    options.driver = driver;
    options.config = config;
    options.track_labels = 1;
    options.context_source = CACHALOT_CONTEXT_STACK;
    options.check_every_call = 1;
    cachalot_allocator* allocator = nullptr;
    ok(cachalot_allocator_create(&options, &allocator, &error_));
    if (allocator == nullptr) return;
    const bool is_native = std::strcmp(cachalot_allocator_backend(allocator), "native") == 0;
    if (is_native) history(allocator);
    blocks(allocator, is_native);
    limits_and_settings(allocator);
    statistics(allocator);
    if (is_native) {
      pools(allocator);
      snapshot_and_trace(allocator);
    }
    out_of_memory(allocator);
    ok(cachalot_check(allocator, &error_));
    ok(cachalot_allocator_destroy_all(allocator, &error_));
    cachalot_driver_destroy(driver);
  }

 private:
  void expect(cachalot_status status, cachalot_status expected) {
    if (status == expected) return;
    if (failures_++ == 0) std::memcpy(message_, error_.message, sizeof message_);
  }
  void ok(cachalot_status status) { expect(status, CACHALOT_OK); }

  void history(cachalot_allocator* allocator) {
    auto history = sized<cachalot_history_options>();
    history.enabled = 1;
    history.context = CACHALOT_CONTEXT_LEVEL_ALL;
    history.max_entries = 1000;
    uint64_t id = 0;
    ok(cachalot_record_history(allocator, &history, &error_));
    ok(cachalot_observe_trace(
        allocator, [](void*, const cachalot_trace_entry*) {}, nullptr, nullptr, &id, &error_));
    ok(cachalot_detach(allocator, id, &error_));
    ok(cachalot_observe_rejection(
        allocator, [](void*, const cachalot_rejection*) {}, nullptr, nullptr, &id, &error_));
  }

  void blocks(cachalot_allocator* allocator, bool is_native) {
    cachalot_address small = 0;
    cachalot_address large = 0;
    ok(cachalot_label_push("kv-cache", &error_));
    ok(cachalot_set_metadata("step 1", &error_));
    ok(cachalot_allocate(allocator, 512, 0, 0, &small, &error_));
    auto request = sized<cachalot_request>();
    request.size = 30 << 20;
    request.stream = 3;
    ok(cachalot_allocate_with(allocator, &request, &large, &error_));
    auto block = sized<cachalot_block>();
    ok(cachalot_get_block(allocator, small, &block, &error_));
    if (is_native) {
      uint64_t context = 0;
      char text[256];
      ok(cachalot_context_of(allocator, small, &context, &error_));
      ok(cachalot_context_text(allocator, context, text, sizeof text, nullptr, &error_));
      ok(cachalot_annotate(allocator, small, "weights", &error_));
    }
    ok(cachalot_record_stream(allocator, large, 5, &error_));
    ok(cachalot_record_stream(allocator, large, 6, &error_));
    ok(cachalot_free(allocator, large, &error_));
    ok(cachalot_free_on_stream(allocator, small, 0, &error_));
    expect(cachalot_free(allocator, 0x1234, &error_), CACHALOT_ERROR_INVALID_ARGUMENT);
    uint64_t largest = 0;
    ok(cachalot_largest_block(allocator, 0, 0, &largest, &error_));
    ok(cachalot_empty_cache(allocator, &error_));
    ok(cachalot_set_metadata(nullptr, &error_));
    ok(cachalot_label_pop(&error_));
  }

  void limits_and_settings(cachalot_allocator* allocator) {
    auto settings = sized<cachalot_settings>();
    auto totals = sized<cachalot_device_totals>();
    double fraction = 0;
    char text[512];
    ok(cachalot_set_memory_fraction(allocator, 0, 0.5, &error_));
    ok(cachalot_memory_fraction(allocator, 0, &fraction, &error_));
    ok(cachalot_set_memory_fraction(allocator, 0, 1, &error_));
    ok(cachalot_configure(allocator, "max_split_size_mb:64,roundup_power2_divisions:4", &error_));
    expect(cachalot_configure(allocator, "max_split_size_mb:x", &error_),
           CACHALOT_ERROR_INVALID_ARGUMENT);
    ok(cachalot_get_config(allocator, text, sizeof text, nullptr, &error_));
    ok(cachalot_get_settings(allocator, &settings, &error_));
    ok(cachalot_set_settings(allocator, &settings, &error_));
    ok(cachalot_get_device_totals(allocator, 0, &totals, &error_));
  }

  void statistics(cachalot_allocator* allocator) {
    auto stats = sized<cachalot_stats>();
    static thread_local char text[1];
    size_t length = 0;
    ok(cachalot_get_stats(allocator, 0, &stats, &error_));
    ok(cachalot_memory_summary(allocator, 0, 0, text, sizeof text, &length, &error_));
    ok(cachalot_reset_peak_stats(allocator, 0, &error_));
    ok(cachalot_reset_accumulated_stats(allocator, 0, &error_));
    if (cachalot_memory_reserved(allocator, 0) > cachalot_max_memory_reserved(allocator, 0))
      failures_++;
  }

  void pools(cachalot_allocator* allocator) {
    cachalot_pool_id id{};
    auto route = sized<cachalot_pool_route>();
    cachalot_address block = 0;
    int32_t count = 0;
    ok(cachalot_pool_new_id(allocator, 0, &id, &error_));
    ok(cachalot_pool_create(allocator, 0, id, nullptr, &error_));
    route.kind = CACHALOT_ROUTE_ALL;
    ok(cachalot_pool_begin(allocator, 0, id, &route, &error_));
    ok(cachalot_allocate(allocator, 4096, 0, 0, &block, &error_));
    ok(cachalot_pool_has_live(allocator, 0, id, &block, 1, &count, &error_));
    ok(cachalot_pool_end(allocator, 0, id, &error_));
    ok(cachalot_free(allocator, block, &error_));
    ok(cachalot_pool_use_count(allocator, 0, id, &count, &error_));
    ok(cachalot_pool_release(allocator, 0, id, &error_));
    ok(cachalot_pool_release(allocator, 0, id, &error_));
    ok(cachalot_pool_empty(allocator, 0, id, &error_));
  }

  void snapshot_and_trace(cachalot_allocator* allocator) {
    cachalot_snapshot* snapshot = nullptr;
    cachalot_trace* trace = nullptr;
    cachalot_replay* replay = nullptr;
    text_.clear();
    ok(cachalot_snapshot_take(allocator, nullptr, &snapshot, &error_));
    ok(cachalot_trace_write(snapshot, nullptr, "tour", append, &text_, &error_));
    cachalot_snapshot_destroy(snapshot);
    ok(cachalot_trace_read(take, &text_, &trace, &error_));
    if (trace == nullptr) return;
    auto options = sized<cachalot_replay_options>();
    options.config = "";  // not the recorded one, which ends in an error
    ok(cachalot_replay_run(trace, &options, &replay, &error_));
    auto result = sized<cachalot_replay_result>();
    ok(cachalot_replay_get_result(replay, &result));
    cachalot_replay_destroy(replay);
    cachalot_trace_destroy(trace);
  }

  void out_of_memory(cachalot_allocator* allocator) {
    cachalot_address block = 0;
    expect(cachalot_allocate(allocator, uint64_t{1} << 50, 0, 0, &block, &error_),
           CACHALOT_ERROR_OUT_OF_MEMORY);
  }

  static int32_t append(void* user_data, const void* bytes, size_t count) {
    static_cast<std::string*>(user_data)->append(static_cast<const char*>(bytes), count);
    return 0;
  }
  static int64_t take(void* user_data, void* buffer, size_t capacity) {
    auto& left = *static_cast<std::string*>(user_data);
    const size_t count = left.copy(static_cast<char*>(buffer), capacity);
    left.erase(0, count);
    return static_cast<int64_t>(count);
  }

  cachalot_error error_ = CACHALOT_ERROR_INIT;
  int failures_ = 0;
  char message_[sizeof(cachalot_error::message)] = "";
  std::string text_;
};
