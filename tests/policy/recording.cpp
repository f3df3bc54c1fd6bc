// SPDX-License-Identifier: MIT OR Apache-2.0
#include "recording.h"

#include <stdexcept>
#include <utility>

#include "base/units.h"
#include "replay/program.h"

namespace cachalot::policy_model {
namespace {

constexpr uint64_t kPage = 2 * MiB;
// Thousands of blocks are live in some recordings.
constexpr uint64_t kLooksInsideEvery = 2'000;

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
    if (const Address address = allocate_on_both(trace_.header.warm_up, 0).address)
      free_on_both(address);
    empty_on_both({});
  }
  Program<Recording> program(trace_, can_give_up_itself(trace_.header, 0), this);
  for (size_t i = 0; i < trace_.events.size() && found().empty(); i++) program.run(i, i + 1);
  if (found().empty()) compare_state();
  library_.allocator().free_all();
  return found();
}

void Recording::allocate(const TraceEvent& event) {
  addresses_[event.block] = allocate_on_both(event.size, event.stream).address;
}

void Recording::free(const TraceEvent& event) {
  if (const Address address = std::exchange(addresses_[event.block], 0)) free_on_both(address);
}

void Recording::free_late(const TraceEvent& event, Stream stream) {
  on_machines("work", [&](SimMachine& machine) { machine.queue_work(0, stream); });
  free_on(event, stream);
}

void Recording::free_on(const TraceEvent& event, Stream stream) {
  if (const Address address = addresses_[event.block]) record_on_both(address, stream);
  free(event);
}

void Recording::finish(const TraceEvent&, Stream stream) {
  on_machines("finish", [&](SimMachine& machine) { machine.finish_oldest(0, stream); });
}

}  // namespace cachalot::policy_model
