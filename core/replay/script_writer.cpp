// SPDX-License-Identifier: MIT OR Apache-2.0
#include "replay/script_writer.h"

#include <iterator>
#include <memory>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "replay/program.h"
#include "replay/replay_device.h"

namespace cachalot {
namespace {

unsigned long long number(uint64_t n) { return n; }

std::string pool_name(PoolId pool) {
  return pool.first == 0 ? format("%llu", number(pool.second))
                         : format("g%llu", number(pool.first));
}

// Writes each act of the recorded program as lines.
class Scribe {
 public:
  Scribe(const Trace& trace, bool expect, const WriteBytes& write)
      : trace_(trace),
        expect_(expect),
        write_(write),
        ids_(trace.block_slots),
        held_pools_(trace.pools.size()) {}

  void add(const std::string& line) {
    text_ += line;
    text_ += '\n';
    if (text_.size() >= kPiece) flush();
  }
  void flush() {
    write_(text_);
    text_.clear();
  }

  void obtained(const TraceEvent&) {}
  void allocate(const TraceEvent& event) { ids_[event.block] = request(event); }
  void fail_to_allocate(const TraceEvent& event) {
    if (expect_) add(format("f %llu", number(request(event))));
  }
  void free(const TraceEvent& event) { add(format("f %llu", number(ids_[event.block]))); }
  void free_late(const TraceEvent& event, Stream stream) {
    add("work " + hex_address(stream));
    add(format("r %llu ", number(ids_[event.block])) + hex_address(stream));
    free(event);
  }
  void free_on(const TraceEvent& event, Stream stream) {
    add(format("r %llu ", number(ids_[event.block])) + hex_address(stream));
    free(event);
  }
  void finish(const TraceEvent&, Stream stream) { add("step " + hex_address(stream)); }
  void release_pool(const TraceEvent& event) {
    if (held_pools_[event.pool]) add("pool_release " + pool_name(trace_.pool_of(event)));
    held_pools_[event.pool] = false;
  }
  void end_context(int device) {
    for (size_t i = 0; i < held_pools_.size(); i++) {
      if (held_pools_[i]) add("pool_release " + pool_name(trace_.pools[i]));
      held_pools_[i] = false;
    }
    empty_cache(device, {});
  }
  void empty_cache(int, PoolId pool) {
    add(pool.is_default() ? "empty" : "pool_empty " + pool_name(pool));
  }

 private:
  static constexpr size_t kPiece = 1 << 16;

  uint64_t request(const TraceEvent& event) {
    const std::string line =
        format("a %llu %llu ", number(++last_id_), number(event.size)) + hex_address(event.stream);
    if (event.pool == 0) {
      add(line);
      return last_id_;
    }
    const std::string pool = pool_name(trace_.pool_of(event));
    if (!held_pools_[event.pool]) add("pool_create " + pool);
    held_pools_[event.pool] = true;
    add("pool_begin " + pool);
    add(line);
    add("pool_end " + pool);
    add("pool_release " + pool);
    return last_id_;
  }

  const Trace& trace_;
  const bool expect_;
  const WriteBytes& write_;
  std::string text_;
  std::vector<uint64_t> ids_;  // by slot
  std::vector<bool> held_pools_;
  uint64_t last_id_ = 0;
};

std::string address_line(const std::vector<Address>& addresses) {
  std::string line = "addresses";
  for (const Address address : addresses) line += format(" %llx", number(address));
  return line;
}

// Where the recorded segments lay, and the recorded reservations, each of 9/8 of the device's
// memory.
std::vector<Address> recorded_addresses(const Trace& trace, uint64_t device_total) {
  const uint64_t span = device_total / 8 * 9;
  std::set<Address> reservations;
  std::vector<Address> addresses;
  for (const TraceEvent& event : trace.events) {
    const Address address = event.address;
    if (event.action() == Action::kSegmentMap) {
      const auto above = reservations.upper_bound(address);
      if (above != reservations.begin() && address - *std::prev(above) < span) continue;
      reservations.insert(address);
    } else if (event.action() != Action::kSegmentAlloc) {
      continue;
    }
    addresses.push_back(address);
  }
  return addresses;
}

// Where the device of a replay places them. The script goes on behind a failure.
std::vector<Address> addresses_of_replay(const Trace& trace, ReplayOptions options) {
  options.stop_at_out_of_memory = false;
  const auto device = std::make_shared<ReplayDevice>(replay_device_options(trace, options));
  Allocator allocator(replay_allocator_options(options, device));
  replay(trace, options, &allocator, device.get());
  allocator.free_all();
  return device->places();
}

}  // namespace

void write_script(const Trace& trace, const ReplayOptions& options, const WriteBytes& write) {
  if (trace.device_count > 1)
    throw_invalid_argument(format("a script has one device, the trace has %d", trace.device_count));
  Scribe scribe(trace, options.expect, write);
  scribe.add("config " + *options.config);
  scribe.add(format("device %llu 1", number(options.capacity)));
  if (options.fraction != 0) scribe.add(format("fraction %.17g", options.fraction));
  if (!options.expect) scribe.add(address_line(addresses_of_replay(trace, options)));
  if (trace.header.warm_up != 0) {
    scribe.add(format("a 0 %llu 0x0", number(trace.header.warm_up)));
    scribe.add("f 0");
    scribe.add("empty");
  }
  if (options.expect) scribe.add(address_line(recorded_addresses(trace, options.capacity)));
  const bool gives_up_itself = can_give_up_itself(trace.header, options.fraction);
  Program<Scribe>(trace, gives_up_itself, &scribe).run(0, replayed_events(trace, options));
  scribe.add("stats");
  scribe.flush();
}

}  // namespace cachalot
