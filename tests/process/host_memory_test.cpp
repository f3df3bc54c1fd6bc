// SPDX-License-Identifier: MIT OR Apache-2.0
// The n-th request for ordinary memory fails, for every n, in every function of the interface: the
// answer is OUT_OF_HOST_MEMORY, and the allocator is what it was.
//
// `new` is this program's own, which the library uses too.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "cachalot/cachalot.h"

namespace {

std::atomic<long> live{0};              // objects from new that were not deleted
thread_local long left_until_fail = 0;  // 0: no request fails
thread_local bool has_failed = false;

void* request(size_t size, size_t alignment) {
  if (left_until_fail > 0 && --left_until_fail == 0) {
    has_failed = true;
    return nullptr;
  }
  void* const memory =
      alignment == 0
          ? std::malloc(size)
          : std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
  if (memory != nullptr) live++;
  return memory;
}

void* request_or_throw(size_t size, size_t alignment = 0) {
  if (void* const memory = request(size, alignment)) return memory;
  throw std::bad_alloc();
}

void give_back(void* memory) {
  if (memory != nullptr) live--;
  std::free(memory);
}

}  // namespace

void* operator new(size_t size) { return request_or_throw(size); }
void* operator new[](size_t size) { return request_or_throw(size); }
void* operator new(size_t size, const std::nothrow_t&) noexcept { return request(size, 0); }
void* operator new[](size_t size, const std::nothrow_t&) noexcept { return request(size, 0); }
void* operator new(size_t size, std::align_val_t alignment) {
  return request_or_throw(size, static_cast<size_t>(alignment));
}
void operator delete(void* memory) noexcept { give_back(memory); }
void operator delete[](void* memory) noexcept { give_back(memory); }
void operator delete(void* memory, size_t) noexcept { give_back(memory); }
void operator delete[](void* memory, size_t) noexcept { give_back(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { give_back(memory); }
void operator delete(void* memory, size_t, std::align_val_t) noexcept { give_back(memory); }

namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr cachalot_pool_id kPool = {0, 1};
constexpr cachalot_pool_id kNewPool = {0, 2};

template <class Struct>
Struct zero() {
  Struct out;
  std::memset(&out, 0, sizeof out);
  out.struct_size = sizeof out;
  return out;
}

int32_t drop_text(void*, const void*, size_t) { return 0; }

// An allocator with something of everything, over a simulated device.
struct World {
  explicit World(const char* config, int32_t release = CACHALOT_RELEASE_2_15) {
    auto sim = zero<cachalot_sim_options>();
    sim.capacity = 1024 * kMiB;
    sim.device_count = 2;
    must(cachalot_sim_create(&sim, &driver, &error));
    auto options = zero<cachalot_allocator_options>();
    options.driver = driver;
    options.config = config;
    options.release = release;
    options.track_labels = 1;
    options.context_source = CACHALOT_CONTEXT_LABELS;
    options.log = [](void*, int32_t, const char*) {};
    must(cachalot_allocator_create(&options, &allocator, &error));
  }

  ~World() {
    if (snapshot != nullptr) cachalot_snapshot_destroy(snapshot);
    if (trace != nullptr) cachalot_trace_destroy(trace);
    if (replay != nullptr) cachalot_replay_destroy(replay);
    if (other != nullptr) cachalot_allocator_destroy_all(other, nullptr);
    if (other_driver != nullptr) cachalot_driver_destroy(other_driver);
    while (cachalot_label_pop(nullptr) == CACHALOT_OK) {
    }
    cachalot_set_metadata(nullptr, nullptr);
    EXPECT_EQ(cachalot_allocator_destroy_all(allocator, &error), CACHALOT_OK) << error.message;
    cachalot_driver_destroy(driver);
  }

  World(const World&) = delete;
  World& operator=(const World&) = delete;

  void must(cachalot_status status) {
    if (status != CACHALOT_OK) ADD_FAILURE() << error.message;
  }

  cachalot_address allocate(uint64_t size, cachalot_stream stream = 0) {
    cachalot_address address = 0;
    must(cachalot_allocate(allocator, size, 0, stream, &address, &error));
    return address;
  }
  void free(cachalot_address address) { must(cachalot_free(allocator, address, &error)); }
  void use_on(cachalot_address address, cachalot_stream stream) {
    must(cachalot_sim_queue_work(driver, 0, stream, &error));
    must(cachalot_record_stream(allocator, address, stream, &error));
  }
  void allocate_pinned(uint64_t size) { must(pinned_status(size, &error)); }
  cachalot_status pinned_status(uint64_t size, cachalot_error* reason) {
    return cachalot_pinned_allocate(allocator, size, &pinned, reason);
  }
  void free_pinned() { must(cachalot_pinned_free(allocator, pinned, &error)); }
  void use_pinned_on(cachalot_stream stream) {
    must(cachalot_sim_queue_work(driver, 0, stream, &error));
    must(cachalot_pinned_record_stream(allocator, pinned, 0, stream, &error));
  }
  void begin_pinned_pool() {
    auto route = zero<cachalot_pool_route>();
    route.kind = CACHALOT_ROUTE_ALL;
    must(cachalot_pinned_pool_begin(allocator, 0, kPool, &route, &error));
  }
  void record_history() {
    auto history = zero<cachalot_history_options>();
    history.enabled = 1;
    history.context = CACHALOT_CONTEXT_LEVEL_ALL;
    history.max_entries = 1000;
    must(cachalot_record_history(allocator, &history, &error));
  }
  void begin_pool(cachalot_pool_id id) {
    auto route = zero<cachalot_pool_route>();
    route.kind = CACHALOT_ROUTE_ALL;
    must(cachalot_pool_begin(allocator, 0, id, &route, &error));
  }
  void end_pool(cachalot_pool_id id) { must(cachalot_pool_end(allocator, 0, id, &error)); }

  // All that can be asked of the allocator, as one text; but for address ranges without memory, which
  // stay reserved whatever a growth failed of.
  std::string state() {
    std::string text;
    const auto add = [&](const auto& value) {
      text.append(reinterpret_cast<const char*>(&value), sizeof value);
    };
    must(cachalot_check(allocator, &error));
    for (int32_t device = 0; device < 2; device++) {
      auto stats = zero<cachalot_stats>();
      must(cachalot_get_stats(allocator, device, &stats, &error));
      add(stats);
      size_t rows = 0;
      if (cachalot_label_stats_count(allocator, device, &rows, nullptr) == CACHALOT_OK) {
        for (size_t i = 0; i < rows; i++) {
          auto row = zero<cachalot_label_stats>();
          must(cachalot_label_stats_at(allocator, device, i, &row, &error));
          text += row.label;
          add(row.allocation);
          add(row.allocated_bytes);
        }
      }
      double fraction = 0;
      uint64_t limit = 0;
      cachalot_memory_fraction(allocator, device, &fraction, nullptr);
      cachalot_memory_limit(allocator, device, &limit, nullptr);
      add(fraction);
      add(limit);
      for (const cachalot_pool_id id : {kPool, kNewPool}) {
        int32_t count = -1;
        cachalot_pool_use_count(allocator, device, id, &count, nullptr);
        add(count);
      }
      auto totals = zero<cachalot_device_totals>();
      must(cachalot_get_device_totals(allocator, device, &totals, &error));
      add(totals);
    }
    auto of_pinned = zero<cachalot_pinned_stats>();
    must(cachalot_pinned_get_stats(allocator, &of_pinned, &error));
    of_pinned.allocate_times = of_pinned.free_times = {};
    add(of_pinned);
    auto settings = zero<cachalot_settings>();
    must(cachalot_get_settings(allocator, &settings, &error));
    add(settings);
    char config[256] = "";
    cachalot_get_config(allocator, config, sizeof config, nullptr, nullptr);
    text += config;
    cachalot_snapshot* picture = nullptr;
    auto with_history = zero<cachalot_snapshot_options>();
    if (cachalot_snapshot_take(allocator, &with_history, &picture, nullptr) == CACHALOT_OK) {
      for (size_t i = 0; i < cachalot_snapshot_segment_count(picture); i++) {
        auto row = zero<cachalot_segment_row>();
        must(cachalot_snapshot_segment(picture, i, &row));
        add(row);
      }
      for (size_t i = 0; i < cachalot_snapshot_block_count(picture); i++) {
        auto row = zero<cachalot_block_row>();
        must(cachalot_snapshot_block(picture, i, &row));
        add(row);
      }
      cachalot_snapshot_destroy(picture);
    }
    return text;
  }

  cachalot_error error = CACHALOT_ERROR_INIT;
  cachalot_driver* driver = nullptr;
  cachalot_allocator* allocator = nullptr;
  // What a call made.
  cachalot_snapshot* snapshot = nullptr;
  cachalot_trace* trace = nullptr;
  cachalot_replay* replay = nullptr;
  cachalot_allocator* other = nullptr;
  cachalot_driver* other_driver = nullptr;
  cachalot_address block = 0;
  cachalot_address result = 0;
  void* pinned = nullptr;
};

// One call, on a world that `prepare` has made ready. A call that changes its mind half-way by rule
// (a cache that is emptied before the request fails, as in the reference) says what it may change.
struct Case {
  std::string name;
  std::function<void(World&)> prepare;
  std::function<cachalot_status(World&, cachalot_error*)> call;
  const char* config = "";
  bool may_release_cache = false;
};

void add_cases_of_pinned_memory(std::vector<Case>* all) {
  const auto add = [&](const char* name, auto prepare, auto call, bool may_release = false) {
    all->push_back({std::string(name) + " pinned", prepare, call, "", may_release});
  };
  const auto nothing = [](World&) {};
  const auto allocate = [](World& w, cachalot_error* e) { return w.pinned_status(4096, e); };
  const auto allocate_used = [](World& w) {
    w.allocate_pinned(4096);
    w.use_pinned_on(3);
    w.use_pinned_on(4);
  };
  add("the first block", nothing, allocate);
  add(
      "a hit",
      [](World& w) {
        w.allocate_pinned(4096);
        w.free_pinned();
      },
      allocate);
  for (const char* config :
       {"pinned_use_background_threads:True", "pinned_use_cuda_host_register:True",
        "pinned_reserve_segment_size_mb:1"})
    all->push_back({std::string("a block pinned ") + config, nothing, allocate, config});
  add("freeing what streams use", allocate_used, [](World& w, cachalot_error* e) {
    const cachalot_status status = cachalot_pinned_free(w.allocator, w.pinned, e);
    w.pinned = nullptr;
    return status;
  });
  add(
      "completing what streams used",
      [=](World& w) {
        allocate_used(w);
        w.free_pinned();
        w.must(cachalot_sim_finish_device(w.driver, 0, &w.error));
      },
      allocate, true);
  add(
      "recording a stream", [](World& w) { w.allocate_pinned(4096); },
      [](World& w, cachalot_error* e) {
        return cachalot_pinned_record_stream(w.allocator, w.pinned, 0, 9, e);
      });
  add(
      "emptying the cache",
      [](World& w) {
        for (const uint64_t size : {16, 4096, 70000}) {
          void* blocks[5];
          for (void*& block : blocks) {
            w.allocate_pinned(size);
            block = w.pinned;
          }
          for (void* block : blocks) w.must(cachalot_pinned_free(w.allocator, block, &w.error));
        }
      },
      [](World& w, cachalot_error* e) {
        const cachalot_status status = cachalot_pinned_empty_cache(w.allocator, e);
        auto stats = zero<cachalot_pinned_stats>();
        if (status != CACHALOT_OK) return status;
        const cachalot_status known = cachalot_pinned_get_stats(w.allocator, &stats, e);
        EXPECT_EQ(stats.allocations.current, 0);
        return known;
      },
      true);
  add(
      "giving back at a free what the driver refuses",
      [](World& w) {
        w.must(cachalot_set_pinned_max_cached_size(w.allocator, 16, &w.error));
        w.allocate_pinned(4096);
        auto failure = zero<cachalot_sim_failure>();
        failure.calls = CACHALOT_SIM_CALL_HOST_FREE;
        failure.code = 999;
        failure.count = 1;
        w.must(cachalot_sim_fail(w.driver, &failure, &w.error));
      },
      [](World& w, cachalot_error* e) {
        const cachalot_status status = cachalot_pinned_free(w.allocator, w.pinned, e);
        void* const before = std::exchange(w.pinned, nullptr);
        w.allocate_pinned(4096);
        EXPECT_EQ(w.pinned, before);  // it was kept
        return status;
      });
  add("routing to a pool", nothing, [](World& w, cachalot_error* e) {
    return cachalot_pinned_pool_begin(w.allocator, 0, kPool, nullptr, e);
  });
  add(
      "a block of a pool", [](World& w) { w.begin_pinned_pool(); }, allocate);
  add(
      "releasing a pool", [](World& w) { w.begin_pinned_pool(); },
      [](World& w, cachalot_error* e) {
        return cachalot_pinned_pool_release(w.allocator, kPool, e);
      });
}

std::vector<Case> cases() {
  const auto nothing = [](World&) {};
  const auto allocate = [](uint64_t size, cachalot_stream stream = 0) {
    return [size, stream](World& w, cachalot_error* e) {
      return cachalot_allocate(w.allocator, size, 0, stream, &w.result, e);
    };
  };
  const auto free_it = [](World& w, cachalot_error* e) {
    return cachalot_free(w.allocator, w.block, e);
  };
  const auto label = [](World& w) { w.must(cachalot_label_push("kv-cache", &w.error)); };
  std::vector<Case> all;
  for (const char* config : {"", "expandable_segments:True"}) {
    const std::string kind = *config ? " (expandable)" : "";
    const auto add = [&](const char* name, auto prepare, auto call) {
      all.push_back({name + kind, prepare, call, config});
    };
    add("the first small block", nothing, allocate(512));
    add("the first large block", nothing, allocate(3 * kMiB));
    add("a huge block", nothing, allocate(100 * kMiB));
    add(
        "a block of another stream", [](World& w) { w.allocate(512); }, allocate(512, 7));
    add(
        "a hit", [](World& w) { w.free(w.allocate(512)); }, allocate(512));
    add(
        "a block with history",
        [=](World& w) {
          w.record_history();
          label(w);
        },
        allocate(512));
    add("a block with a new label", label, allocate(512));
    add(
        "growth of a segment", [](World& w) { w.allocate(30 * kMiB); }, allocate(30 * kMiB));
    add(
        "a block where pieces are free",
        [](World& w) {
          w.block = w.allocate(20 * kMiB);
          const auto second = w.allocate(20 * kMiB);
          w.allocate(20 * kMiB);
          w.free(w.block);
          w.free(second);
        },
        allocate(30 * kMiB));
    add(
        "many blocks",
        [](World& w) {
          for (int i = 0; i < 600; i++) w.allocate(512);
        },
        [](World& w, cachalot_error* e) {
          for (int i = 0; i < 700; i++) {
            const auto status = cachalot_allocate(w.allocator, 512, 0, 0, &w.result, e);
            if (status != CACHALOT_OK) return status;
          }
          return CACHALOT_OK;
        });
    all.back().may_release_cache = true;  // the blocks before are there
    add(
        "freeing", [](World& w) { w.block = w.allocate(512); }, free_it);
    add(
        "freeing with history",
        [](World& w) {
          w.record_history();
          w.block = w.allocate(512);
        },
        free_it);
    add(
        "freeing with a label",
        [=](World& w) {
          label(w);
          w.block = w.allocate(512);
        },
        free_it);
    add(
        "freeing what another stream uses",
        [](World& w) {
          w.block = w.allocate(512);
          w.use_on(w.block, 3);
          w.use_on(w.block, 4);
        },
        free_it);
    add(
        "completing what another stream used",
        [](World& w) {
          w.block = w.allocate(512);
          w.use_on(w.block, 3);
          w.free(w.block);
          w.must(cachalot_sim_finish_device(w.driver, 0, &w.error));
        },
        allocate(512));
    all.back().may_release_cache = true;  // completes the free first
    add(
        "recording a stream", [](World& w) { w.block = w.allocate(512); },
        [](World& w, cachalot_error* e) {
          return cachalot_record_stream(w.allocator, w.block, 9, e);
        });
    add(
        "recording a second stream",
        [](World& w) {
          w.block = w.allocate(512);
          w.use_on(w.block, 3);
        },
        [](World& w, cachalot_error* e) {
          return cachalot_record_stream(w.allocator, w.block, 9, e);
        });
    add(
        "emptying the cache",
        [](World& w) {
          w.record_history();
          w.allocate(30 * kMiB);
          w.free(w.allocate(50 * kMiB));
          w.free(w.allocate(512));
        },
        [](World& w, cachalot_error* e) { return cachalot_empty_cache(w.allocator, e); });
    all.back().may_release_cache = true;
    add(
        "more than there is", [](World& w) { w.free(w.allocate(200 * kMiB, 5)); },
        [](World& w, cachalot_error* e) {
          const auto status = cachalot_allocate(w.allocator, 2000 * kMiB, 0, 0, &w.result, e);
          return status == CACHALOT_ERROR_OUT_OF_MEMORY ? CACHALOT_OK : status;
        });
    all.back().may_release_cache = true;
    add(
        "a block of a private pool", [](World& w) { w.begin_pool(kPool); }, allocate(512));
    add("the statistics", label, [](World& w, cachalot_error* e) {
      auto stats = zero<cachalot_stats>();
      return cachalot_get_stats(w.allocator, 0, &stats, e);
    });
    add(
        "a summary", [](World& w) { w.allocate(512); },
        [](World& w, cachalot_error* e) {
          char text[16384];
          size_t length = 0;
          return cachalot_memory_summary(w.allocator, 0, 0, text, sizeof text, &length, e);
        });
    add(
        "a snapshot",
        [](World& w) {
          w.record_history();
          w.allocate(512);
          w.free(w.allocate(30 * kMiB));
        },
        [](World& w, cachalot_error* e) {
          return cachalot_snapshot_take(w.allocator, nullptr, &w.snapshot, e);
        });
    add(
        "settings by a string", [](World& w) { w.allocate(512); },
        [](World& w, cachalot_error* e) {
          return cachalot_configure(w.allocator,
                                    "max_split_size_mb:64,roundup_power2_divisions:[256:4,>:8],"
                                    "garbage_collection_threshold:0.8",
                                    e);
        });
    add(
        "settings as numbers", [](World& w) { w.allocate(512); },
        [](World& w, cachalot_error* e) {
          auto settings = zero<cachalot_settings>();
          const auto status = cachalot_get_settings(w.allocator, &settings, e);
          if (status != CACHALOT_OK) return status;
          settings.max_split_size = 64 * kMiB;
          return cachalot_set_settings(w.allocator, &settings, e);
        });
    add(
        "a limit", [](World& w) { w.allocate(512); },
        [](World& w, cachalot_error* e) {
          return cachalot_set_memory_fraction(w.allocator, 0, 0.5, e);
        });
  }
  const auto add = [&](const char* name, auto prepare, auto call) {
    all.push_back({name, prepare, call});
  };
  add("making an allocator", nothing, [](World& w, cachalot_error* e) {
    auto options = zero<cachalot_allocator_options>();
    options.driver = w.driver;
    options.config = "max_split_size_mb:64";
    options.context_source = CACHALOT_CONTEXT_STACK;
    return cachalot_allocator_create(&options, &w.other, e);
  });
  add("making a driver", nothing, [](World& w, cachalot_error* e) {
    return cachalot_driver_open("host:1GiB", &w.other_driver, e);
  });
  add("making a pool", nothing, [](World& w, cachalot_error* e) {
    auto options = zero<cachalot_pool_options>();
    options.flags = CACHALOT_POOL_USE_ON_OOM | CACHALOT_POOL_NO_SPLIT;
    return cachalot_pool_create(w.allocator, 0, kNewPool, &options, e);
  });
  const auto begin = [](World& w, cachalot_error* e) {
    auto route = zero<cachalot_pool_route>();
    route.kind = CACHALOT_ROUTE_ALL;
    return cachalot_pool_begin(w.allocator, 0, kNewPool, &route, e);
  };
  add("routing to a new pool", nothing, begin);
  add(
      "routing to a pool that is there",
      [](World& w) { w.must(cachalot_pool_create(w.allocator, 0, kNewPool, nullptr, &w.error)); },
      begin);
  add(
      "routing to a second pool", [](World& w) { w.begin_pool(kPool); }, begin);
  add(
      "ending a routing", [](World& w) { w.begin_pool(kPool); },
      [](World& w, cachalot_error* e) { return cachalot_pool_end(w.allocator, 0, kPool, e); });
  add(
      "releasing a pool",
      [](World& w) {
        w.begin_pool(kPool);
        w.free(w.allocate(512));
        w.end_pool(kPool);
      },
      [](World& w, cachalot_error* e) { return cachalot_pool_release(w.allocator, 0, kPool, e); });
  add(
      "a pool for the worst case",
      [](World& w) { w.must(cachalot_pool_create(w.allocator, 0, kPool, nullptr, &w.error)); },
      [](World& w, cachalot_error* e) {
        return cachalot_pool_set_use_on_oom(w.allocator, 0, kPool, 1, e);
      });
  add(
      "a pool that does not split",
      [](World& w) { w.must(cachalot_pool_create(w.allocator, 0, kPool, nullptr, &w.error)); },
      [](World& w, cachalot_error* e) {
        return cachalot_pool_set_no_split(w.allocator, 0, kPool, e);
      });
  add(
      "what lives in a pool",
      [](World& w) {
        w.begin_pool(kPool);
        w.block = w.allocate(512);
      },
      [](World& w, cachalot_error* e) {
        int32_t equal = 0;
        return cachalot_pool_has_live(w.allocator, 0, kPool, &w.block, 1, &equal, e);
      });
  add(
      "freeing inside of a capture",
      [](World& w) {
        w.begin_pool(kPool);
        w.must(cachalot_sim_begin_capture(w.driver, 0, 3, 77, &w.error));
        w.must(cachalot_capture_begin(w.allocator, 0, &w.error));
        w.block = w.allocate(512, 3);
        w.must(cachalot_record_stream_on_stream(w.allocator, w.block, 4, 3, &w.error));
      },
      [](World& w, cachalot_error* e) {
        return cachalot_free_on_stream(w.allocator, w.block, 3, e);
      });
  add(
      "freeing inside of a capture that may reuse",
      [](World& w) {
        w.must(cachalot_configure(w.allocator, "graph_capture_record_stream_reuse:True", &w.error));
        w.begin_pool(kPool);
        w.must(cachalot_sim_begin_capture(w.driver, 0, 3, 77, &w.error));
        w.must(cachalot_capture_begin(w.allocator, 0, &w.error));
        w.block = w.allocate(512, 3);
        w.must(cachalot_record_stream_on_stream(w.allocator, w.block, 4, 3, &w.error));
      },
      [](World& w, cachalot_error* e) {
        return cachalot_free_on_stream(w.allocator, w.block, 3, e);
      });
  add(
      "recording history", [](World& w) { w.allocate(512); },
      [](World& w, cachalot_error* e) {
        auto history = zero<cachalot_history_options>();
        history.enabled = 1;
        history.max_entries = 1000;
        history.context = CACHALOT_CONTEXT_LEVEL_ALL;
        history.skip_actions = "segment_alloc,segment_free";
        return cachalot_record_history(w.allocator, &history, e);
      });
  add(
      "annotating",
      [](World& w) {
        w.record_history();
        w.block = w.allocate(512);
      },
      [](World& w, cachalot_error* e) {
        return cachalot_annotate(w.allocator, w.block, "a text that is longer than most", e);
      });
  const auto observe = [](World& w, cachalot_error* e) {
    uint64_t id = 0;
    return cachalot_observe_trace(
        w.allocator, [](void*, const cachalot_trace_entry*) {}, nullptr, nullptr, &id, e);
  };
  add("observing the trace", nothing, observe);
  add("observing out of memory", nothing, [](World& w, cachalot_error* e) {
    uint64_t id = 0;
    return cachalot_observe_out_of_memory(
        w.allocator, [](void*, const cachalot_out_of_memory*) {}, nullptr, nullptr, &id, e);
  });
  add("registering a callback that frees memory", nothing, [](World& w, cachalot_error* e) {
    uint64_t id = 0;
    return cachalot_register_free_memory_callback(
        w.allocator, [](void*, int32_t, size_t) -> int32_t { return 0; }, nullptr, nullptr, &id, e);
  });
  add(
      "a block while the trace is observed", [=](World& w) { w.must(observe(w, &w.error)); },
      allocate(512));
  add(
      "detaching",
      [=](World& w) {
        w.must(cachalot_observe_trace(
            w.allocator, [](void*, const cachalot_trace_entry*) {}, nullptr, nullptr, &w.result,
            &w.error));
      },
      [](World& w, cachalot_error* e) { return cachalot_detach(w.allocator, w.result, e); });
  add("a label", nothing, [](World&, cachalot_error* e) {
    return cachalot_label_push("a-label-that-is-long-enough", e);
  });
  add("a label in a label", label, [](World&, cachalot_error* e) {
    return cachalot_label_push("a-label-that-is-long-enough", e);
  });
  add("metadata", nothing, [](World&, cachalot_error* e) {
    return cachalot_set_metadata("a text that is longer than most texts are", e);
  });
  add(
      "access of a peer",
      [](World& w) {
        w.must(cachalot_configure(w.allocator, "expandable_segments:True", &w.error));
        w.allocate(30 * kMiB);
      },
      [](World& w, cachalot_error* e) {
        return cachalot_enable_peer_access(w.allocator, 0, 1, e);
      });
  add("a reserve class", nothing, [](World& w, cachalot_error* e) {
    return cachalot_set_reserve_class(w.allocator, 5, "a-class-with-a-long-name", e);
  });
  add("a default reserve", nothing, [](World& w, cachalot_error* e) {
    return cachalot_set_default_reserve(w.allocator, "a-class-with-a-long-name", 0.5, e);
  });
  add(
      "memory of the driver",
      [](World& w) { w.must(cachalot_set_caching_enabled(w.allocator, 0, &w.error)); },
      allocate(512));
  add(
      "memory for the driver",
      [](World& w) {
        w.must(cachalot_set_caching_enabled(w.allocator, 0, &w.error));
        w.block = w.allocate(512);
      },
      free_it);
  add(
      "writing a trace",
      [](World& w) {
        w.record_history();
        w.free(w.allocate(512));
        w.must(cachalot_snapshot_take(w.allocator, nullptr, &w.snapshot, &w.error));
      },
      [](World& w, cachalot_error* e) {
        return cachalot_trace_write(w.snapshot, nullptr, "small", drop_text, nullptr, e);
      });
  // The other backend, whose blocks are the driver's.
  const auto add_async = [&](const char* name, auto prepare, auto call) {
    all.push_back(
        {std::string(name) + " (cudaMallocAsync)", prepare, call, "backend:cudaMallocAsync"});
  };
  add_async("the first block", nothing, allocate(512));
  add_async(
      "another block", [](World& w) { w.allocate(512); }, allocate(512, 7));
  add_async(
      "freeing", [](World& w) { w.block = w.allocate(512); }, free_it);
  add_async(
      "freeing what another stream uses",
      [](World& w) {
        w.block = w.allocate(512);
        w.use_on(w.block, 3);
        w.use_on(w.block, 4);
      },
      free_it);
  add_async(
      "recording a stream", [](World& w) { w.block = w.allocate(512); },
      [](World& w, cachalot_error* e) {
        return cachalot_record_stream(w.allocator, w.block, 9, e);
      });
  add_async("more than there is", nothing, [](World& w, cachalot_error* e) {
    const auto status = cachalot_allocate(w.allocator, 2000 * kMiB, 0, 0, &w.result, e);
    return status == CACHALOT_ERROR_OUT_OF_MEMORY ? CACHALOT_OK : status;
  });
  add_async(
      "a limit", [](World& w) { w.allocate(512); },
      [](World& w, cachalot_error* e) {
        return cachalot_set_memory_fraction(w.allocator, 0, 0.5, e);
      });
  add_async(
      "emptying the cache", [](World& w) { w.free(w.allocate(512)); },
      [](World& w, cachalot_error* e) { return cachalot_empty_cache(w.allocator, e); });
  add_cases_of_pinned_memory(&all);
  return all;
}

class WithoutHostMemory : public testing::TestWithParam<Case> {};

std::string test_name(const testing::TestParamInfo<Case>& info) {
  std::string name;
  for (const char c : info.param.name) {
    if (std::isalnum(static_cast<unsigned char>(c))) name += c;
    if (c == ' ') name += '_';
  }
  return name;
}

INSTANTIATE_TEST_SUITE_P(EachCall, WithoutHostMemory, testing::ValuesIn(cases()), test_name);

// False: the call did not ask for an n-th time.
bool fails_at(const Case& tried, long n) {
  World world(tried.config);
  tried.prepare(world);
  world.state();  // whose first question may prepare something
  const std::string before = world.state();
  cachalot_error error = CACHALOT_ERROR_INIT;
  has_failed = false;
  left_until_fail = n;
  const cachalot_status status = tried.call(world, &error);
  left_until_fail = 0;
  const std::string after = world.state();  // the auditor is part of it
  if (!has_failed) {
    EXPECT_EQ(status, CACHALOT_OK) << error.message;
    return false;
  }
  // A request that can be done without is.
  if (status == CACHALOT_OK) return true;
  EXPECT_EQ(status, CACHALOT_ERROR_OUT_OF_HOST_MEMORY) << error.message;
  EXPECT_STREQ(error.message, "out of host memory");
  const auto differs = std::mismatch(before.begin(), before.end(), after.begin(), after.end());
  EXPECT_TRUE(tried.may_release_cache || before == after)
      << "the state has changed at byte " << differs.first - before.begin() << " of "
      << before.size();
  // What could not be done can be done now.
  EXPECT_EQ(tried.call(world, &error), CACHALOT_OK) << error.message;
  return true;
}

TEST_P(WithoutHostMemory, ACallSaysSoAndChangesNothing) {
  { World(""); }  // what is kept for the life of the process
  fails_at(GetParam(), 1'000'000);
  for (long n = 1; n < 100'000; n++) {
    SCOPED_TRACE("request " + std::to_string(n));
    const long before = live;
    const bool goes_on = fails_at(GetParam(), n);
    const long now = live;
    EXPECT_LE(now, before) << now - before << " objects are left";
    if (!goes_on || HasFailure()) return;
  }
  FAIL() << "never succeeds";
}

TEST(TheCountOfFailures, SeesThatARequestFailed) {
  left_until_fail = 2;
  std::string* const first = new std::string;
  EXPECT_THROW(new std::string, std::bad_alloc);
  EXPECT_TRUE(has_failed);
  delete first;
}

}  // namespace
