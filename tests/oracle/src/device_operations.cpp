// SPDX-License-Identifier: MIT OR Apache-2.0
// The words that steer the simulated device: work, captures, failures, what it says of itself.
#include <c10/cuda/CUDACachingAllocator.h>

#include "fakecuda.h"
#include "operations.h"
#include "own_allocator.h"
#include "run.h"

namespace oracle {
namespace {

void begin_work(Arguments& arguments) { fakecuda::begin_work(arguments.hex()); }

void step_work(Arguments& arguments) { fakecuda::step_work(arguments.hex()); }

void finish_work(Arguments& arguments) { fakecuda::finish_work(arguments.hex()); }

void finish_all(Arguments&) { fakecuda::finish_all(); }

void give_addresses(Arguments& arguments) {
  for (const std::string& word : arguments.words()) {
    fakecuda::give_address(std::stoull(word, nullptr, 16));
  }
}

void begin_capture(Arguments& arguments) {
  const uint64_t stream = arguments.hex();
  fakecuda::begin_capture(stream, arguments.number<uint64_t>());
}

void end_capture(Arguments& arguments) { fakecuda::end_capture(arguments.number<uint64_t>()); }

void fork(Arguments& arguments) {
  const uint64_t from = arguments.hex();
  fakecuda::fork(from, arguments.hex());
}

void join(Arguments& arguments) {
  const uint64_t into = arguments.hex();
  fakecuda::join(into, arguments.hex());
}

void add_node(Arguments& arguments) { fakecuda::node(arguments.hex()); }

void fail(Arguments& arguments) {
  const int count = arguments.number<int>();
  fakecuda::fail_next_mallocs(count, arguments.number<int>());
}

void fail_with(Arguments& arguments) {
  const int error = arguments.number<int>();
  fakecuda::fail_next_with(error, arguments.number<int>());
}

void fail_event(Arguments& arguments) {
  const int error = arguments.number<int>();
  fakecuda::fail_next_event_with(error, arguments.next_number<int>().value_or(0));
}

void fail_host_free(Arguments& arguments) {
  const int error = arguments.number<int>();
  fakecuda::fail_next_host_free_with(error, arguments.next_number<int>().value_or(0));
}

void fail_own(Arguments& arguments) { fail_own_allocations(arguments.number<int>()); }

void leave_error(Arguments& arguments) { fakecuda::set_pending_error(arguments.number<int>()); }

void add_process(Arguments& arguments) {
  const auto pid = arguments.number<unsigned>();
  fakecuda::add_process(pid, arguments.number<uint64_t>());
}

void graph_memory(Arguments& arguments) {
  const auto used = arguments.number<uint64_t>();
  fakecuda::graph_memory(used, arguments.number<uint64_t>());
}

void enable_peer(Arguments& arguments) {
  const int device = arguments.number<int>();
  const int peer = arguments.number<int>();
  cca::enablePeerAccess(static_cast<c10::DeviceIndex>(device), static_cast<c10::DeviceIndex>(peer));
}

}  // namespace

void add_device_operations(Operations& operations) {
  operations.insert({{"work", begin_work},
                     {"step", step_work},
                     {"done", finish_work},
                     {"sync", finish_all},
                     {"addresses", give_addresses},
                     {"capture", begin_capture},
                     {"capture_end", end_capture},
                     {"fork", fork},
                     {"join", join},
                     {"node", add_node},
                     {"fail", fail},
                     {"error", fail_with},
                     {"event_error", fail_event},
                     {"free_error", fail_host_free},
                     {"own_fail", fail_own},
                     {"pending_error", leave_error},
                     {"process", add_process},
                     {"graph_memory", graph_memory},
                     {"peer", enable_peer}});
}

}  // namespace oracle
