// SPDX-License-Identifier: MIT OR Apache-2.0
// The statistics as they are read; how they are kept is counters.h. Layouts are those of
// cachalot/stats.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "alloc/config/wording.h"
#include "base/assert.h"
#include "base/sums.h"

namespace cachalot {

// The sums, allocated and freed, count modulo 2^63 (base/sums.h).
struct Stat {
  int64_t current = 0;
  int64_t peak = 0;
  int64_t allocated = 0;
  int64_t freed = 0;

  void increase(int64_t n) {
    CACHALOT_ASSERT(1, n >= 0);
    current += n;
    if (current > peak) peak = current;
    allocated = add_to_sum(allocated, n);
  }
  void decrease(int64_t n) {
    CACHALOT_ASSERT(1, n >= 0);
    current -= n;
    freed = add_to_sum(freed, n);
  }
  void reset_peak() { peak = current; }
  void reset_accumulated() { allocated = freed = 0; }
};

// One statistic by size class. Invariant: all.current = small_pool.current + large_pool.current;
// peaks are not additive, since each was reached at its own moment.
struct StatArray {
  Stat all;
  Stat small_pool;
  Stat large_pool;

  Stat& of_kind(bool is_small) { return is_small ? small_pool : large_pool; }
  void increase(bool is_small, int64_t n) {
    all.increase(n);
    of_kind(is_small).increase(n);
  }
  // pre: it was increased by as much.
  void decrease(bool is_small, int64_t n) {
    CACHALOT_ASSERT(1, n <= of_kind(is_small).current && n <= all.current);
    all.decrease(n);
    of_kind(is_small).decrease(n);
  }
  template <typename Function>
  void for_each(Function function) {
    function(all);
    function(small_pool);
    function(large_pool);
  }
};

// All statistics of a device at one moment, in the order of cachalot_stats. A field is added at the
// end only, because callers of the C interface compiled an older layout.
struct Stats {
  StatArray allocation;
  StatArray segment;
  StatArray active;
  StatArray inactive_split;
  StatArray allocated_bytes;
  StatArray reserved_bytes;
  StatArray active_bytes;
  StatArray inactive_split_bytes;
  StatArray requested_bytes;
  Stat oversize_allocations;
  Stat oversize_segments;
  int64_t num_alloc_retries = 0;
  int64_t num_ooms = 0;
  int64_t num_sync_all_streams = 0;
  int64_t num_device_alloc = 0;
  int64_t num_device_free = 0;
  // An option, shown here because the reference does [opt 4.2].
  int64_t max_split_size = -1;
  int64_t num_oom_rejections = 0;
};

// One row of torch.cuda.memory_stats: its name, and where its value lies in a Stats.
struct StatName {
  const char* name;  // "active.all.allocated"
  size_t offset;     // of an int64_t
};

// The rows in the reference's order; with_rejections: since 2.12.
std::span<const StatName> stat_names(bool with_rejections);
int64_t stat_value(const Stats& stats, const StatName& row);

// The table of torch.cuda.memory_summary, byte for byte [stats 6]; by other texts its title is another.
std::string memory_summary(const Stats& stats, int device, bool abbreviated,
                           Texts texts = Texts::kPyTorch);

}  // namespace cachalot
