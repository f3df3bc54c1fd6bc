// SPDX-License-Identifier: MIT OR Apache-2.0
// Who holds what of each device, while programs run that are recorded.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "device_memory.h"
#include "follower.h"

namespace cachalot::cli {

struct Holder {
  std::string name;
  int64_t bytes = 0;
  uint64_t blocks = 0;  // 0: they are not counted
};

struct DeviceLedger {
  std::string bus;
  std::optional<DeviceBytes> device;  // none: the management library is not there
  // All of them together are what the device has in use, where that is known.
  std::vector<Holder> holders;
};

// Memory of one process that one kind of call has obtained.
struct ProcessHolding {
  int64_t process = 0;
  std::string bus;  // "" for memory of the host
  const char* call = "";
  Holding holding;
};

struct Ledger {
  std::vector<DeviceLedger> devices;
  std::vector<ProcessHolding> holdings;
  // Of all processes, also of those that have ended, by the name of the call.
  std::map<std::string, CallSum> calls;
  uint64_t refused = 0;
  uint64_t running = 0;       // processes
  uint64_t missed_files = 0;  // whose calls are not counted
};

using Followers = std::list<RecordingFollower>;

// alive: counts as running, whatever has become of its process meanwhile; null: none.
Ledger make_ledger(const Followers& followers, const DeviceMemory& memory,
                   const RecordingFollower* alive = nullptr);

// A table for people.
std::string ledger_text(const Ledger& ledger);
nlohmann::ordered_json ledger_json(const Ledger& ledger);
// The text format of Prometheus.
std::string ledger_metrics(const Ledger& ledger);

}  // namespace cachalot::cli
