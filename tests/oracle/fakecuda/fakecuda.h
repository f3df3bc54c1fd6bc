// SPDX-License-Identifier: MIT OR Apache-2.0
// The controls of the simulated CUDA runtime that stands under PyTorch's own allocator binary.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

namespace fakecuda {

// Gets one line per device call that an allocator's behaviour consists of.
using Log = void (*)(const std::string& line);
void set_log(Log log);
// Further device lines: "handles", "capture_mode", "query".
void show(const std::string& what);

void configure(size_t total_bytes, uint64_t address_seed);
void set_devices(int count);
// The next segment or reservation lies at the oldest address given and not yet used.
void give_address(uint64_t address);

// So long cudaMalloc and cudaFree take from now on.
void set_latency(uint64_t nanoseconds);

// Events that are recorded on the stream from now on stay pending.
void begin_work(uint64_t stream);
void finish_work(uint64_t stream);
// The oldest unfinished work of the stream finishes.
void step_work(uint64_t stream);
void finish_all();

// Out of memory `count` times, after so many successes.
void fail_next_mallocs(int count, int after);
// Another error, once, after so many calls.
void fail_next_with(int error, int after);
// The same of the creation, recording or query of an event, and of giving pinned memory back.
void fail_next_event_with(int error, int after);
void fail_next_host_free_with(int error, int after);
void set_pending_error(int error);

// The stream captures from now on; `id` names the graph.
void begin_capture(uint64_t stream, uint64_t id);
// Every stream of that capture stops.
void end_capture(uint64_t id);
// `to` joins the capture of `from` behind its present end nodes.
void fork(uint64_t from, uint64_t to);
// `into` waits for `other`: it has both sets of end nodes.
void join(uint64_t into, uint64_t other);
// A new node behind the stream's end nodes.
void node(uint64_t stream);

// What creating a page with a fabric handle gives (0: success).
void fabric(int result);
// What the management library says of the device's fabric: -1 the call fails, 0 none, 1 one.
void set_fabric_device(int state);
// Whether shared memory can be opened: exported descriptors exist, and handles of segments open.
void set_sharing(bool works);
// The address that stands in the lines for an address of pinned memory.
uint64_t shown_address(uint64_t address);

// A process as the management library reports it; pid 0 is this process.
void add_process(unsigned pid, uint64_t bytes);
// What the attributes of the device's graph memory say.
void graph_memory(uint64_t used, uint64_t reserved);

}  // namespace fakecuda
