// SPDX-License-Identifier: MIT OR Apache-2.0
#include "ledger.h"

#include <algorithm>
#include <string_view>

#include "entries.h"

namespace cachalot::cli {
namespace {

bool is_of_host(char letter) { return letter == 'l' || letter == 'r'; }
// Memory that is not the process's own, or not on the device for certain, or that the driver tells of as a whole.
bool is_counted(char letter) {
  return !is_of_host(letter) && std::string_view("imn").find(letter) == std::string_view::npos;
}
bool is_of_pool(char letter) { return letter == 't' || letter == 'p'; }

// What all processes have of one device.
struct DeviceSum {
  std::map<char, Holding> held;
  uint64_t pools_reserved = 0;
  uint64_t graphs_reserved = 0;
  uint64_t used_at_begin = 0;  // of the process that came first
};

using DeviceSums = std::map<std::string, DeviceSum>;  // by place on the bus

std::string bus_of(const RecordingFollower& follower, int32_t device) {
  const auto found = follower.devices().find(device);
  return found == follower.devices().end() ? std::to_string(device) : found->second.bus;
}

void add_to(Holding* sum, const Holding& part) {
  sum->blocks += part.blocks;
  sum->bytes += part.bytes;
  sum->pages += part.pages;
}

void add_process(const RecordingFollower& follower, DeviceSums* sums, Ledger* ledger) {
  for (const auto& [device, met] : follower.devices()) {
    DeviceSum& sum = (*sums)[met.bus];
    if (sum.used_at_begin == 0) sum.used_at_begin = met.used_at_begin;
  }
  for (const auto& [key, holding] : follower.reader().held()) {
    const auto [device, letter] = key;
    const std::string bus = bus_of(follower, device);
    ledger->holdings.push_back(
        {follower.process(), is_of_host(letter) ? "" : bus, entry_of(letter).requests, holding});
    add_to(&(*sums)[bus].held[letter], holding);
  }
  for (const auto& [key, pool] : follower.pools()) {
    DeviceSum& sum = (*sums)[bus_of(follower, key.first)];
    (key.second == 0 ? sum.graphs_reserved : sum.pools_reserved) += pool.reserved;
  }
}

void add_calls(const RecordingSummary& summary, Ledger* ledger) {
  for (const auto& [letter, sum] : summary.requests)
    ledger->calls[entry_of(letter).requests].add(sum);
  for (const auto& [letter, sum] : summary.returns)
    ledger->calls[entry_of(letter).returns].add(sum);
  ledger->refused += summary.refused;
}

std::vector<Holder> holders_of(const DeviceSum& sum, const std::optional<DeviceBytes>& device) {
  std::vector<Holder> holders;
  int64_t known = 0;
  const auto add = [&](const std::string& name, int64_t bytes, uint64_t blocks) {
    if (bytes == 0 && blocks == 0) return;
    holders.push_back({name, bytes, blocks});
    known += bytes;
  };
  uint64_t pages = 0;
  uint64_t in_pools = 0;
  for (const auto& [letter, held] : sum.held) {
    if (!is_counted(letter)) continue;
    add(entry_of(letter).requests, static_cast<int64_t>(held.bytes), held.blocks);
    if (is_of_pool(letter))
      in_pools += held.bytes;
    else
      pages += held.pages - held.bytes;
  }
  add("rest of their pages", static_cast<int64_t>(pages), 0);
  add("pools of the driver, not in use",
      static_cast<int64_t>(sum.pools_reserved - std::min(sum.pools_reserved, in_pools)), 0);
  add("graphs", static_cast<int64_t>(sum.graphs_reserved), 0);
  if (!device) return holders;
  add("other programs, before", static_cast<int64_t>(device->used_before), 0);
  if (sum.used_at_begin > device->used_before)
    add("context of the first process",
        static_cast<int64_t>(sum.used_at_begin - device->used_before), 0);
  add("rest: modules, libraries, further contexts, other programs since",
      static_cast<int64_t>(device->used) - known, 0);
  return holders;
}

}  // namespace

Ledger make_ledger(const Followers& followers, const DeviceMemory& memory,
                   const RecordingFollower* alive) {
  Ledger ledger;
  DeviceSums sums;
  for (const RecordingFollower& follower : followers) {
    add_calls(follower.reader().summary(), &ledger);
    ledger.missed_files += follower.missed_files();
    if (&follower != alive && !follower.is_running()) continue;
    ledger.running++;
    add_process(follower, &sums, &ledger);
  }
  for (const auto& [bus, sum] : sums) {
    DeviceLedger row{bus, memory.at(bus), {}};
    row.holders = holders_of(sum, row.device);
    ledger.devices.push_back(std::move(row));
  }
  return ledger;
}

}  // namespace cachalot::cli
