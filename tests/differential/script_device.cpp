// SPDX-License-Identifier: MIT OR Apache-2.0
#include "script_device.h"

#include <unistd.h>

#include <algorithm>

#include "arguments.h"
#include "input_error.h"

namespace cachalot::differential {
namespace {

constexpr uint64_t kPage = uint64_t{2} << 20;
constexpr uint64_t kFirstNode = 0x9000;
constexpr uint64_t kNodeStep = 0x10;
constexpr int32_t kQuestionFailed = 3;
constexpr int32_t kNotPermitted = 800;

uint64_t whole_pages(uint64_t size) { return (size + kPage - 1) & ~(kPage - 1); }

// The address at the end of a line such as "D malloc 512 7f0000000000"; none behind a failed call.
void add_recorded_address(std::string_view line, std::deque<cachalot_address>& addresses) {
  try {
    addresses.push_back(parse_hex(line.substr(line.rfind(' ') + 1)));
  } catch (const InputError&) {
    // The call failed: its line ends in a word.
  }
}

}  // namespace

// ---- What a script controls ---------------------------------------------------------------------

void ScriptDevice::set_memory(uint64_t bytes, int32_t devices) {
  total_ = bytes;
  devices_ = devices;
}

void ScriptDevice::expect_addresses(std::span<const std::string_view> expected) {
  constexpr std::string_view kStarts[kSourceCount] = {
      "D malloc ",     "D reserve ",       "D own_malloc ", "D malloc_async ",
      "D host_alloc ", "D host_register ", "D ipc_open "};
  for (auto& addresses : recorded_) addresses.clear();
  for (const std::string_view line : expected) {
    for (size_t source = 0; source < kSourceCount; source++) {
      const bool names_error = line.find(" error ") != line.npos;
      if (line.starts_with(kStarts[source]) && !names_error)
        add_recorded_address(line, recorded_[source]);
    }
  }
}

void ScriptDevice::finish_oldest(cachalot_stream stream) {
  Stream& state = streams_[stream];
  if (state.completed < state.submitted) state.completed++;
}

void ScriptDevice::finish_stream(cachalot_stream stream) {
  Stream& state = streams_[stream];
  state.completed = state.submitted;
}

void ScriptDevice::finish_all() {
  for (auto& [stream, state] : streams_) state.completed = state.submitted;
}

void ScriptDevice::fail_allocations(uint64_t count, uint64_t after) {
  failing_allocations_ = count;
  failing_after_ = after;
}

void ScriptDevice::set_pending_error(int32_t code) {
  pending_error_ = code;
  last_failure_was_of_runtime_ = true;
}

void ScriptDevice::set_graph_memory(uint64_t used, uint64_t reserved) {
  graph_used_.set(used);
  graph_reserved_.set(reserved);
}

void ScriptDevice::add_process(uint64_t pid, uint64_t used) {
  processes_.push_back({pid != 0 ? pid : static_cast<uint64_t>(getpid()), used});
}

void ScriptDevice::begin_capture(cachalot_stream stream, uint64_t capture) {
  streams_[stream].capture = capture;
  streams_[stream].end_nodes.clear();
}

void ScriptDevice::end_capture(uint64_t capture) {
  for (auto& [stream, state] : streams_) {
    if (state.capture != capture) continue;
    state.capture = 0;
    state.end_nodes.clear();
  }
}

void ScriptDevice::end_all_captures() {
  for (auto& [stream, state] : streams_) state.capture = 0;
}

void ScriptDevice::add_node(cachalot_stream stream) {
  const uint64_t node = kFirstNode + kNodeStep * (dependencies_.size() + 1);
  Stream& state = streams_[stream];
  dependencies_[node] = state.end_nodes;
  state.end_nodes = {node};
}

void ScriptDevice::fork(cachalot_stream from, cachalot_stream to) {
  const Stream source = streams_[from];
  Stream& target = streams_[to];
  target.capture = source.capture;
  target.end_nodes = source.end_nodes;
}

void ScriptDevice::join(cachalot_stream into, cachalot_stream other) {
  const std::vector<uint64_t> joining = streams_[other].end_nodes;
  std::vector<uint64_t>& nodes = streams_[into].end_nodes;
  for (const uint64_t node : joining) {
    if (std::find(nodes.begin(), nodes.end(), node) == nodes.end()) nodes.push_back(node);
  }
}

std::string ScriptDevice::leftovers() const {
  std::string text;
  const auto add = [&](size_t count, const char* what) {
    if (count > 0) text += (text.empty() ? "" : ", ") + decimal(count) + " " + what;
  };
  add(mallocs_.size(), "segments");
  add(own_mallocs_.size(), "segments of a pool's own allocator");
  add(host_blocks_.size(), "pinned blocks");
  add(opened_.size(), "opened segments");
  const size_t others =
      mallocs_.size() + own_mallocs_.size() + host_blocks_.size() + opened_.size();
  add(ranges_.size() - std::min(ranges_.size(), others), "reservations");
  add(handles_.size(), "pages");
  add(maps_.size(), "mappings");
  add(events_.size(), "events");
  return text;
}

// ---- Printing, failing, placing -----------------------------------------------------------------

void ScriptDevice::print(std::string line) {
  if (printing_) transcript_.add("D " + std::move(line));
}

void ScriptDevice::print_if_shown(const char* word, std::string line) {
  if (shown_.count(word) > 0) print(std::move(line));
}

// The reference clears the runtime's error state after each failed call, and with it what was
// pending.
int32_t ScriptDevice::runtime_failure(int32_t code) {
  pending_error_ = 0;
  last_failure_was_of_runtime_ = true;
  return code;
}

int32_t ScriptDevice::driver_failure(int32_t code) {
  last_failure_was_of_runtime_ = false;
  return code;
}

bool ScriptDevice::refuses(uint64_t size) {
  if (failing_allocations_ > 0) {
    if (failing_after_ == 0) {
      failing_allocations_--;
      return true;
    }
    failing_after_--;
  }
  return size > total_ - used_;
}

int32_t ScriptDevice::OrderedError::take() {
  if (code == 0) return 0;
  if (after > 0) {
    after--;
    return 0;
  }
  return std::exchange(code, 0);
}

bool ScriptDevice::overlaps(cachalot_address address, uint64_t size) const {
  const auto next = ranges_.lower_bound(address);
  if (next != ranges_.end() && next->first - address < size) return true;
  if (next == ranges_.begin()) return false;
  const auto previous = std::prev(next);
  return address - previous->first < previous->second;
}

// A call that the reference did not make gets an address too: the comparison will name the call,
// and the library must get to the end of the operation.
cachalot_address ScriptDevice::place(Source source, uint64_t size) {
  const uint64_t room = std::max<uint64_t>(size, 1);
  auto& recorded = recorded_[source];
  cachalot_address address = 0;
  if (!recorded.empty()) {
    address = recorded.front();
    recorded.pop_front();
  }
  if (address == 0 || overlaps(address, room)) {
    address = next_made_up_;
    next_made_up_ += whole_pages(room);
  }
  ranges_[address] = room;
  return address;
}

// ---- Calls --------------------------------------------------------------------------------------

int32_t ScriptDevice::memory_info(uint64_t* out_free, uint64_t* out_total) const {
  *out_free = total_ - used_;
  *out_total = total_;
  return CACHALOT_DRIVER_SUCCESS;
}

int32_t ScriptDevice::allocate(uint64_t size, cachalot_address* out_address) {
  return hand_out(kMalloc, "malloc " + decimal(size), size, out_address);
}

int32_t ScriptDevice::hand_out(Source source, const std::string& call, uint64_t size,
                               cachalot_address* out_address) {
  if (const int32_t code = allocation_error_.take()) {
    print(call + " error " + decimal(code));
    return runtime_failure(code);
  }
  if (refuses(size)) {
    print(call + " oom");
    return runtime_failure(CACHALOT_DRIVER_OUT_OF_MEMORY);
  }
  *out_address = place(source, size);
  mallocs_[*out_address] = size;
  used_ += size;
  print(call + " " + hex(*out_address));
  return CACHALOT_DRIVER_SUCCESS;
}

int32_t ScriptDevice::free(cachalot_address address) {
  const auto found = mallocs_.find(address);
  if (found == mallocs_.end()) return runtime_failure(CACHALOT_DRIVER_INVALID_VALUE);
  used_ -= found->second;
  mallocs_.erase(found);
  ranges_.erase(address);
  print("free " + hex(address));
  return CACHALOT_DRIVER_SUCCESS;
}

int32_t ScriptDevice::reserve(uint64_t size, cachalot_address* out_address) {
  const std::string call = "reserve " + decimal(size);
  if (const int32_t code = allocation_error_.take()) {
    print(call + " error " + decimal(code));
    return driver_failure(code);
  }
  *out_address = place(kReserve, size);
  print(call + " " + hex(*out_address));
  return CACHALOT_DRIVER_SUCCESS;
}

int32_t ScriptDevice::unreserve(cachalot_address address, uint64_t size) {
  ranges_.erase(address);
  print("unreserve " + hex(address) + " " + decimal(size));
  return CACHALOT_DRIVER_SUCCESS;
}

int32_t ScriptDevice::create_failure(uint64_t size, int32_t handle_type) {
  if (size % kPage != 0) return CACHALOT_DRIVER_INVALID_VALUE;
  if (fabric_result_ != 0 && handle_type == CACHALOT_HANDLE_FABRIC) return fabric_result_;
  return allocation_error_.take();
}

int32_t ScriptDevice::create(int32_t device, uint64_t size, int32_t handle_type, int32_t rdma,
                             uint64_t* out_handle) {
  print_if_shown("handles", "handle type " + decimal(handle_type) + " rdma " + decimal(rdma) +
                                " device " + decimal(device));
  const std::string call = "create " + decimal(size);
  if (const int32_t code = create_failure(size, handle_type)) {
    print(call + " error " + decimal(code));
    return driver_failure(code);
  }
  if (refuses(size)) {
    print(call + " oom");
    return driver_failure(CACHALOT_DRIVER_OUT_OF_MEMORY);
  }
  *out_handle = next_handle_++;
  handles_[*out_handle] = size;
  used_ += size;
  print(call);
  return CACHALOT_DRIVER_SUCCESS;
}

int32_t ScriptDevice::import_handle(int32_t handle_type, uint64_t* out_handle) {
  print("import type " + decimal(handle_type));
  *out_handle = next_handle_++;
  handles_[*out_handle] = 0;
  return CACHALOT_DRIVER_SUCCESS;
}

int32_t ScriptDevice::release(uint64_t handle) {
  const auto found = handles_.find(handle);
  if (found != handles_.end()) {
    used_ -= found->second;
    handles_.erase(found);
  }
  print("release");
  return CACHALOT_DRIVER_SUCCESS;
}

int32_t ScriptDevice::map(cachalot_address address, uint64_t size) {
  maps_[address] = size;
  print("map " + hex(address) + " " + decimal(size));
  return CACHALOT_DRIVER_SUCCESS;
}

int32_t ScriptDevice::unmap(cachalot_address address, uint64_t size) {
  maps_.erase(address);
  print("unmap " + hex(address) + " " + decimal(size));
  return CACHALOT_DRIVER_SUCCESS;
}

int32_t ScriptDevice::set_access(cachalot_address address, uint64_t size,
                                 int32_t accessing_device) {
  const std::string suffix = devices_ > 1 ? " device " + decimal(accessing_device) : "";
  print("access " + hex(address) + " " + decimal(size) + suffix);
  return CACHALOT_DRIVER_SUCCESS;
}

int32_t ScriptDevice::fabric_state(int32_t* out_state) const {
  if (fabric_state_ < 0) return kQuestionFailed;
  *out_state = fabric_state_ > 0 ? 1 : 0;
  return CACHALOT_DRIVER_SUCCESS;
}

// Whether the call fails, as the script says.
int32_t ScriptDevice::event_failure(const std::string& call) {
  const int32_t code = event_error_.take();
  if (code == 0) return 0;
  print(call + " error " + decimal(code));
  return runtime_failure(code);
}

int32_t ScriptDevice::event_create(uint64_t* out_event) {
  if (const int32_t code = event_failure("event_create")) return code;
  *out_event = next_event_++ << 8;
  events_[*out_event] = {};
  print("event_create");
  return CACHALOT_DRIVER_SUCCESS;
}

int32_t ScriptDevice::event_destroy(uint64_t event) {
  events_.erase(event);
  print("event_destroy");
  return CACHALOT_DRIVER_SUCCESS;
}

int32_t ScriptDevice::event_record(uint64_t event, cachalot_stream stream) {
  const std::string call = "event_record " + hex(stream);
  if (const int32_t code = event_failure(call)) return code;
  events_[event] = {stream, streams_[stream].submitted};
  print(call);
  return CACHALOT_DRIVER_SUCCESS;
}

int32_t ScriptDevice::event_query(uint64_t event) {
  const Event& state = events_[event];
  const std::string call = "event_query " + hex(state.stream);
  if (const int32_t code = event_failure(call)) return code;
  print_if_shown("query", call);
  if (streams_[state.stream].completed >= state.mark) return CACHALOT_DRIVER_SUCCESS;
  return runtime_failure(CACHALOT_DRIVER_NOT_READY);
}

int32_t ScriptDevice::event_synchronize(uint64_t event) {
  const Event& state = events_[event];
  Stream& stream = streams_[state.stream];
  stream.completed = std::max(stream.completed, state.mark);
  print("event_sync " + hex(state.stream));
  return CACHALOT_DRIVER_SUCCESS;
}

int32_t ScriptDevice::stream_synchronize(cachalot_stream stream) {
  print("stream_sync " + hex(stream));
  finish_stream(stream);
  return CACHALOT_DRIVER_SUCCESS;
}

int32_t ScriptDevice::device_synchronize() {
  print("device_sync");
  finish_all();
  return CACHALOT_DRIVER_SUCCESS;
}

int32_t ScriptDevice::capture_info(cachalot_stream stream, cachalot_capture_info* out_info) {
  const Stream& state = streams_[stream];
  *out_info = {};
  out_info->struct_size = sizeof *out_info;
  if (state.capture == 0) return CACHALOT_DRIVER_SUCCESS;
  out_info->capturing = 1;
  out_info->capture_id = state.capture;
  out_info->graph = state.capture << 4;
  out_info->nodes = state.end_nodes.data();
  out_info->node_count = state.end_nodes.size();
  return CACHALOT_DRIVER_SUCCESS;
}

int32_t ScriptDevice::node_dependencies(uint64_t node, const uint64_t** out_nodes,
                                        size_t* out_count) {
  const std::vector<uint64_t>& nodes = dependencies_[node];
  *out_nodes = nodes.data();
  *out_count = nodes.size();
  return CACHALOT_DRIVER_SUCCESS;
}

int32_t ScriptDevice::exchange_capture_mode(int32_t* inout_mode) {
  std::swap(capture_mode_, *inout_mode);
  print_if_shown("capture_mode", "capture_mode " + decimal(capture_mode_));
  return CACHALOT_DRIVER_SUCCESS;
}

int32_t ScriptDevice::enable_peer(int32_t device, int32_t peer) {
  print("peer_access " + decimal(device) + " " + decimal(peer));
  return CACHALOT_DRIVER_SUCCESS;
}

int32_t ScriptDevice::processes(cachalot_device_process* rows, size_t capacity,
                                size_t* out_count) const {
  std::copy_n(processes_.begin(), std::min(capacity, processes_.size()), rows);
  *out_count = processes_.size();
  return CACHALOT_DRIVER_SUCCESS;
}

int32_t ScriptDevice::take_pending_error() { return std::exchange(pending_error_, 0); }

// The runtime and the driver have texts of their own; the code alone does not tell whose it is.
const char* ScriptDevice::error_text(int32_t code) const {
  if (code == CACHALOT_DRIVER_OUT_OF_MEMORY) return "out of memory";
  if (code == CACHALOT_DRIVER_INVALID_VALUE) return "invalid argument";
  if (last_failure_was_of_runtime_) return "error";
  if (code == kNotPermitted) return "operation not permitted";
  if (code == CACHALOT_DRIVER_NOT_SUPPORTED) return "operation not supported";
  return "error";
}

cachalot_address ScriptDevice::own_allocate(uint64_t size, cachalot_stream stream) {
  const std::string call = "own_malloc " + decimal(size) + " " + hex(stream) + " ";
  if (failing_sources_ > 0) {
    failing_sources_--;
    print(call + "null");
    return 0;
  }
  const cachalot_address address = place(kOwnMalloc, size);
  own_mallocs_[address] = size;
  print(call + hex(address));
  return address;
}

void ScriptDevice::own_free(cachalot_address address) {
  own_mallocs_.erase(address);
  ranges_.erase(address);
  print("own_free " + hex(address));
}

// ---- Tables of functions ------------------------------------------------------------------------

cachalot_device_ops ScriptDevice::driver_functions() {
  cachalot_device_ops ops{};
  ops.struct_size = sizeof ops;
  ops.memory_info = [](void* user, int32_t, uint64_t* free_bytes, uint64_t* total) {
    return of(user)->memory_info(free_bytes, total);
  };
  ops.allocate = [](void* user, int32_t, uint64_t size, cachalot_address* out) {
    return of(user)->allocate(size, out);
  };
  ops.free = [](void* user, int32_t, cachalot_address address) { return of(user)->free(address); };
  ops.reserve = [](void* user, int32_t, uint64_t size, cachalot_address* out) {
    return of(user)->reserve(size, out);
  };
  ops.unreserve = [](void* user, int32_t, cachalot_address address, uint64_t size) {
    return of(user)->unreserve(address, size);
  };
  ops.granularity = [](void*, int32_t, uint64_t* out) {
    *out = kPage;
    return int32_t{CACHALOT_DRIVER_SUCCESS};
  };
  ops.create = [](void* user, int32_t device, uint64_t size, int32_t type, int32_t rdma,
                  uint64_t* out) { return of(user)->create(device, size, type, rdma, out); };
  ops.export_handle = [](void* user, int32_t, uint64_t handle, int32_t type,
                         cachalot_shareable_handle* out) {
    return of(user)->export_handle(handle, type, out);
  };
  ops.import_handle = [](void* user, int32_t, const cachalot_shareable_handle*, int32_t type,
                         uint64_t* out) { return of(user)->import_handle(type, out); };
  ops.release = [](void* user, int32_t, uint64_t handle) { return of(user)->release(handle); };
  ops.map = [](void* user, int32_t, cachalot_address address, uint64_t size, uint64_t) {
    return of(user)->map(address, size);
  };
  ops.unmap = [](void* user, int32_t, cachalot_address address, uint64_t size) {
    return of(user)->unmap(address, size);
  };
  ops.set_access = [](void* user, int32_t, cachalot_address address, uint64_t size,
                      int32_t accessing) { return of(user)->set_access(address, size, accessing); };
  ops.fabric_state = [](void* user, int32_t, int32_t* out) { return of(user)->fabric_state(out); };
  ops.event_create = [](void* user, int32_t, uint64_t* out) { return of(user)->event_create(out); };
  ops.event_destroy = [](void* user, int32_t, uint64_t event) {
    return of(user)->event_destroy(event);
  };
  ops.event_record = [](void* user, int32_t, uint64_t event, cachalot_stream stream) {
    return of(user)->event_record(event, stream);
  };
  ops.event_query = [](void* user, int32_t, uint64_t event) {
    return of(user)->event_query(event);
  };
  ops.event_synchronize = [](void* user, int32_t, uint64_t event) {
    return of(user)->event_synchronize(event);
  };
  ops.stream_synchronize = [](void* user, int32_t, cachalot_stream stream) {
    return of(user)->stream_synchronize(stream);
  };
  ops.device_synchronize = [](void* user, int32_t) { return of(user)->device_synchronize(); };
  ops.capture_info = [](void* user, int32_t, cachalot_stream stream, cachalot_capture_info* out) {
    return of(user)->capture_info(stream, out);
  };
  ops.node_dependencies = [](void* user, int32_t, uint64_t node, const uint64_t** nodes,
                             size_t* count) {
    return of(user)->node_dependencies(node, nodes, count);
  };
  ops.exchange_capture_mode = [](void* user, int32_t, int32_t* mode) {
    return of(user)->exchange_capture_mode(mode);
  };
  add_pool_functions(ops);
  add_host_functions(ops);
  add_sharing_functions(ops);
  ops.enable_peer = [](void* user, int32_t device, int32_t peer) {
    return of(user)->enable_peer(device, peer);
  };
  ops.processes = [](void* user, int32_t, cachalot_device_process* rows, size_t capacity,
                     size_t* count) { return of(user)->processes(rows, capacity, count); };
  ops.take_pending_error = [](void* user, int32_t) { return of(user)->take_pending_error(); };
  ops.error_text = [](void* user, int32_t code) { return of(user)->error_text(code); };
  return ops;
}

cachalot_status ScriptDevice::create_driver(cachalot_driver** out_driver, cachalot_error* error) {
  const cachalot_device_ops ops = driver_functions();
  return cachalot_driver_create_custom(&ops, devices_, this, nullptr, out_driver, error);
}

cachalot_pool_source ScriptDevice::pool_source() {
  cachalot_pool_source source{};
  source.struct_size = sizeof source;
  source.allocate = [](void* user, uint64_t size, int32_t, cachalot_stream stream) {
    return of(user)->own_allocate(size, stream);
  };
  source.free = [](void* user, cachalot_address address, uint64_t, int32_t, cachalot_stream) {
    of(user)->own_free(address);
  };
  source.user_data = this;
  return source;
}

}  // namespace cachalot::differential
