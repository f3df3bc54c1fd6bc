// SPDX-License-Identifier: MIT OR Apache-2.0
#include "recording.h"

#include <stdexcept>
#include <utility>

#include "base/text.h"
#include "base/units.h"
#include "replay/program.h"

namespace cachalot::policy_model {
namespace {

constexpr uint64_t kPage = 2 * MiB;
// Thousands of blocks are live in some recordings.
constexpr uint64_t kLooksInsideEvery = 2'000;

unsigned long long wide(uint64_t n) { return n; }

void require_supported(const Trace& trace) {
  if (!trace.flaw.empty()) throw std::runtime_error(trace.flaw);
  if (trace.device_count != 1 || trace.pools.size() != 1)
    throw std::runtime_error("the recording has several devices, or private pools");
}

}  // namespace

Recording::Recording(const Trace& trace, uint64_t capacity, bool thrift, Fault fault)
    : BothSides({.name = trace.header.workload,
                 .capacity = capacity,
                 .library = {.serving = {.is_on = true, .thrift = thrift, .page_bytes = kPage}},
                 .model = {.page_size = kPage, .thrift = thrift, .fault = fault},
                 .looks_inside_every = kLooksInsideEvery,
                 .tells = false}),
      trace_(trace),
      addresses_(trace.block_slots) {
  require_supported(trace);
}

std::string Recording::run() {
  if (trace_.header.warm_up != 0) {
    give_back(request(trace_.header.warm_up, 0));
    empty_cache(0, {});
  }
  Program<Recording> program(trace_, can_give_up_itself(trace_.header, 0), this);
  for (size_t i = 0; i < trace_.events.size() && found().empty(); i++) program.run(i, i + 1);
  if (found().empty()) compare_state();
  library_.allocator().free_all();
  return found();
}

void Recording::allocate(const TraceEvent& event) {
  addresses_[event.block] = request(event.size, event.stream);
}

void Recording::free(const TraceEvent& event) {
  give_back(std::exchange(addresses_[event.block], 0));
}

void Recording::free_late(const TraceEvent& event, Stream stream) {
  on_machines("work", [&](SimMachine& machine) { machine.queue_work(0, stream); });
  const Address address = std::exchange(addresses_[event.block], 0);
  if (address == 0) return;
  on_both(
      "record a use", [&] { return model_.record_stream(address, stream), 0; },
      [&] { return library_.allocator().record_stream(address, stream), 0; });
  give_back(address);
}

void Recording::finish(const TraceEvent&, Stream stream) {
  on_machines("finish", [&](SimMachine& machine) { machine.finish_oldest(0, stream); });
}

void Recording::empty_cache(int, PoolId pool) {
  on_both(
      "empty", [&] { return model_.empty_cache(pool), 0; },
      [&] { return library_.allocator().empty_cache(0, pool), 0; });
}

Address Recording::request(uint64_t size, Stream stream) {
  return on_both(
             format("allocate %llu for %llx", wide(size), wide(stream)),
             [&] { return model_.allocate(size, stream); },
             [&] { return library_.allocate(size, stream); })
      .address;
}

void Recording::give_back(Address address) {
  if (address == 0) return;
  on_both(
      format("free %llx", wide(address)), [&] { return model_.free(address), 0; },
      [&] { return library_.free(address), 0; });
}

}  // namespace cachalot::policy_model
