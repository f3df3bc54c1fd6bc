// SPDX-License-Identifier: MIT OR Apache-2.0
// The state of the simulated device and its controls.
#include "device_state.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <thread>

namespace fakecuda {
namespace {

constexpr uint64_t kAlignment = uint64_t{2} << 20;
constexpr uint64_t kFirstAddress = 0x700000000000;
constexpr uint64_t kAddressSpace = uint64_t{12} << 40;

std::atomic<uint64_t> latency_ns{0};

size_t aligned(size_t size) { return (size + kAlignment - 1) & ~(kAlignment - 1); }

bool is_free(uint64_t address, size_t size) {
  auto next = state.ranges.upper_bound(address);
  if (next != state.ranges.end() && address + size > next->first) return false;
  if (next == state.ranges.begin()) return true;
  auto previous = std::prev(next);
  return previous->first + previous->second <= address;
}

}  // namespace

DeviceState state;

void Watermark::set(uint64_t value) {
  current = value;
  high = std::max(high, current);
}

std::string hex(uint64_t value) {
  char text[24];
  snprintf(text, sizeof text, "%llx", static_cast<unsigned long long>(value));
  return text;
}

void say(const std::string& line) {
  if (state.log) state.log(line);
}

void say_if_shown(const char* word, const std::string& line) {
  if (state.shown.count(word)) say(line);
}

cudaError_t result(cudaError_t error) {
  if (error != cudaSuccess) state.last_error = error;
  return error;
}

uint64_t place(size_t size) {
  const size_t need = aligned(size);
  uint64_t address;
  if (!state.given_addresses.empty()) {
    address = state.given_addresses.front();
    state.given_addresses.pop_front();
  } else {
    do {
      address = kFirstAddress + (state.random() % kAddressSpace & ~(kAlignment - 1));
    } while (!is_free(address, need));
  }
  state.ranges[address] = need;
  return address;
}

bool refused(size_t size) {
  if (state.fail_mallocs > 0) {
    if (state.fail_after > 0) {
      state.fail_after--;
    } else {
      state.fail_mallocs--;
      return true;
    }
  }
  return size > state.total - state.used;
}

int OrderedError::due() {
  if (!error) return 0;
  if (after > 0) {
    after--;
    return 0;
  }
  return std::exchange(error, 0);
}

int due_error() { return state.allocation_error.due(); }

cudaError_t failed(OrderedError& ordered, const std::string& call) {
  const int error = ordered.due();
  if (error) say(call + " error " + std::to_string(error));
  return result(static_cast<cudaError_t>(error));
}

int fabric_device() { return state.fabric_device; }

const std::vector<std::pair<unsigned, uint64_t>>& processes() { return state.processes; }

void set_log(Log log) { state.log = log; }

void show(const std::string& what) { state.shown.insert(what); }

void configure(size_t total_bytes, uint64_t address_seed) {
  state.total = total_bytes;
  state.random.seed(address_seed);
}

void set_devices(int count) { state.devices = count; }

void give_address(uint64_t address) { state.given_addresses.push_back(address); }

void begin_work(uint64_t stream) { state.streams[stream].submitted++; }

void finish_work(uint64_t stream) {
  Stream& s = state.streams[stream];
  s.completed = s.submitted;
}

void step_work(uint64_t stream) {
  Stream& s = state.streams[stream];
  if (s.completed < s.submitted) s.completed++;
}

void finish_all() {
  for (auto& [handle, stream] : state.streams) stream.completed = stream.submitted;
}

void fail_next_mallocs(int count, int after) {
  state.fail_mallocs = count;
  state.fail_after = after;
}

void fail_next_with(int error, int after) { state.allocation_error = {error, after}; }

void fail_next_event_with(int error, int after) { state.event_error = {error, after}; }

void fail_next_host_free_with(int error, int after) { state.host_free_error = {error, after}; }

void set_latency(uint64_t nanoseconds) { latency_ns = nanoseconds; }

// Before the state is locked. Sleeps are too coarse for less.
void take_time() {
  constexpr uint64_t kShortestSleep = 100'000;
  const uint64_t ns = latency_ns;
  if (ns == 0) return;
  const auto end = std::chrono::steady_clock::now() + std::chrono::nanoseconds(ns);
  if (ns >= kShortestSleep) std::this_thread::sleep_until(end);
  while (std::chrono::steady_clock::now() < end) continue;
}

void set_pending_error(int error) { state.last_error = static_cast<cudaError_t>(error); }

void begin_capture(uint64_t stream, uint64_t id) {
  state.streams[stream].capture = id;
  state.streams[stream].ends.clear();
}

void end_capture(uint64_t id) {
  for (auto& [handle, stream] : state.streams) {
    if (stream.capture != id) continue;
    stream.capture = 0;
    stream.ends.clear();
  }
}

void fork(uint64_t from, uint64_t to) {
  Stream& joining = state.streams[to];
  joining.capture = state.streams[from].capture;
  joining.ends = state.streams[from].ends;
}

void join(uint64_t into, uint64_t other) {
  auto& ends = state.streams[into].ends;
  for (cudaGraphNode_t node : state.streams[other].ends) {
    if (std::find(ends.begin(), ends.end(), node) == ends.end()) ends.push_back(node);
  }
}

void node(uint64_t stream) {
  auto node = reinterpret_cast<cudaGraphNode_t>(0x9000 + 16 * (state.nodes.size() + 1));
  auto& ends = state.streams[stream].ends;
  state.nodes[reinterpret_cast<uint64_t>(node)] = ends;
  ends = {node};
}

void fabric(int result) { state.fabric = result; }

void set_fabric_device(int device_state) { state.fabric_device = device_state; }

void set_sharing(bool works) { state.can_open_shared = works; }

uint64_t shown_address(uint64_t address) {
  auto range = state.registered.upper_bound(address);
  if (range == state.registered.begin()) return address;
  const auto& [begin, registered] = *--range;
  const uint64_t offset = address - begin;
  return offset < registered.size ? registered.shown + offset : address;
}

void add_process(unsigned pid, uint64_t bytes) {
  state.processes.push_back({pid ? pid : static_cast<unsigned>(getpid()), bytes});
}

void graph_memory(uint64_t used, uint64_t reserved) {
  state.graph_used.set(used);
  state.graph_reserved.set(reserved);
}

}  // namespace fakecuda
