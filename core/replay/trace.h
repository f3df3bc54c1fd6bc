// SPDX-License-Identifier: MIT OR Apache-2.0
// A recorded run in memory: what its header says, its events, and which free belongs to which
// hand-out.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "alloc/config/pool_id.h"
#include "alloc/config/rules.h"
#include "alloc/trace/history.h"
#include "base/assert.h"
#include "device/device.h"

namespace cachalot {

struct RecordedStat {
  std::string name;
  int64_t value;
};

struct TraceHeader {
  std::string workload;
  std::string recorder;  // the program that wrote the file
  std::string torch;     // the version that recorded it, or whose rules were followed
  std::string config;
  uint64_t device_total = 0;  // 0: not said
  // Bytes of the one block that was handed out, freed and given back to the driver before the
  // recording began, 0 for none. Recordings of PyTorch have it: the first use of a device
  // allocates.
  uint64_t warm_up = 4;
  std::vector<RecordedStat> stats;

  // The reference release of the same two numbers; none for other versions.
  std::optional<Release> release() const;
  // 0 for a statistic that was not recorded.
  int64_t stat(std::string_view name) const;
};

inline constexpr uint32_t kNoBlock = std::numeric_limits<uint32_t>::max();
inline constexpr uint32_t kNoIndex = std::numeric_limits<uint32_t>::max();

// One event. Small, since there are millions.
struct TraceEvent {
  Address address;
  uint64_t size;
  Stream stream;
  int64_t time_us;  // -1: not said
  ContextId context;
  uint8_t action_number;
  uint8_t device;
  uint16_t pool;   // index in Trace::pools
  uint32_t block;  // slot of the block that is handed out or freed: no two live blocks share one

  Action action() const { return static_cast<Action>(action_number); }
};
static_assert(sizeof(TraceEvent) == 48);

// A free that was completed later than it was requested: the block was in use on another stream.
struct LateFree {
  uint32_t requested;             // index of the event
  uint32_t completed = kNoIndex;  // likewise
  uint8_t device = 0;
  bool is_with_previous = false;  // completed by the same look at the streams as the one before it
  Stream stream = 0;              // made up (stream_choice.h)
};

inline constexpr int kMaxTraceDevices = 64;
inline constexpr size_t kMaxTracePools = 65535;
inline constexpr size_t kMaxTraceEvents = kNoIndex - 1;

struct Trace {
  TraceHeader header;
  std::vector<TraceEvent> events;
  std::vector<PoolId> pools{PoolId{}};  // the first: the default pools
  int device_count = 1;

  uint32_t block_slots = 0;
  std::vector<LateFree> late_frees;  // in the order of their requests
  // The first event that cannot have happened, as text; "" if all can.
  std::string flaw;

  PoolId pool_of(const TraceEvent& event) const {
    CACHALOT_ASSERT(1, event.pool < pools.size());
    return pools[event.pool];
  }
};

// The line of the file that holds an event: the header is the first.
constexpr size_t line_of(size_t event_index) { return event_index + 2; }

// "line 1,204".
std::string line_name(size_t line);

}  // namespace cachalot
