// SPDX-License-Identifier: MIT OR Apache-2.0
// The simulated device: its memory, streams, events, captures and ordered failures.
#pragma once
#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "fakecuda.h"

#define FAKECUDA_API extern "C" __attribute__((visibility("default")))

namespace fakecuda {

struct Stream {
  uint64_t submitted = 0, completed = 0;
  // The capture's id, or 0, and the nodes that the next one would depend on.
  uint64_t capture = 0;
  std::vector<cudaGraphNode_t> ends;
};

// An event is done when its stream has completed as much as had been submitted when it was
// recorded.
struct Event {
  uint64_t stream = 0, mark = 0;
};

// Registered memory stands in the lines at an address of the simulated device.
struct Registered {
  size_t size = 0;
  uint64_t shown = 0;
};

// A failure that a script has ordered: once, after so many calls.
struct OrderedError {
  int error = 0, after = 0;
  // The error if it is due, 0 otherwise.
  int due();
};

// A number that the runtime reports with its highest value.
struct Watermark {
  uint64_t current = 0, high = 0;
  void set(uint64_t value);
};

struct DeviceState {
  std::recursive_mutex mutex;

  Log log = nullptr;
  std::set<std::string> shown;

  size_t total = size_t{80} << 30, used = 0;
  std::mt19937_64 random{1};
  std::deque<uint64_t> given_addresses;
  // Every range in use, so that none overlap.
  std::map<uint64_t, size_t> ranges;
  std::unordered_map<uint64_t, size_t> mallocs;
  std::map<uint64_t, size_t> host_blocks;
  // By the real address: what PyTorch has allocated itself and registered.
  std::map<uint64_t, Registered> registered;
  std::unordered_map<uint64_t, size_t> handles;
  uint64_t next_handle = 1, next_event = 1;

  std::unordered_map<uint64_t, Stream> streams;
  std::unordered_map<uint64_t, Event> events;
  // A node's dependencies.
  std::map<uint64_t, std::vector<cudaGraphNode_t>> nodes;

  int device = 0, devices = 1;
  int fail_mallocs = 0, fail_after = 0;
  OrderedError allocation_error, event_error, host_free_error;
  int fabric = 0, fabric_device = 0;
  bool can_open_shared = false;
  cudaError_t last_error = cudaSuccess;

  std::vector<std::pair<unsigned, uint64_t>> processes;
  Watermark graph_used, graph_reserved, pool_used, pool_reserved;
};

extern DeviceState state;

// Held in every call that looks at or changes the state.
class Lock {
 public:
  Lock() : guard_(state.mutex) {}

 private:
  std::lock_guard<std::recursive_mutex> guard_;
};

std::string hex(uint64_t value);
inline uint64_t number(const void* handle) { return reinterpret_cast<uint64_t>(handle); }
void say(const std::string& line);
// Says a line that is only wanted with a word of `log`.
void say_if_shown(const char* word, const std::string& line);

// Leaves a call's error pending as the runtime does, and passes it on.
cudaError_t result(cudaError_t error);
// The address of a new range: the next given one, else a free place, chosen by the seed.
uint64_t place(size_t size);
// Out of memory, by order or really.
bool refused(size_t size);
// The ordered error of an allocation, if it is due; 0 otherwise.
int due_error();
// The ordered error of a call, if it is due: said behind the text of the call, and left pending.
cudaError_t failed(OrderedError& ordered, const std::string& call);
void take_time();

// For the simulated management library.
int fabric_device();
const std::vector<std::pair<unsigned, uint64_t>>& processes();

}  // namespace fakecuda
