// SPDX-License-Identifier: MIT OR Apache-2.0
#include "logged_driver.h"

#include "transcript.h"

namespace cachalot::gpu {

using differential::decimal;
using differential::hex;

void LoggedDriver::print(const std::string& call, DriverCode code) {
  if (code == kSuccess) {
    print_(nullptr, call);
  } else if (code == kDriverOutOfMemory) {
    print_(nullptr, call + " oom");
  } else {
    print_(nullptr, call + " error " + decimal(code));
  }
}

// The device waits for all its work before it gives memory back, and the script's work ends only
// when it is told to.
void LoggedDriver::finish_all() {
  finished_all_ |= streams_.has_pending_work();
  streams_.finish_all();
}

// ---- Memory

DriverCode LoggedDriver::memory_info(int device, uint64_t* free_bytes, uint64_t* total_bytes) {
  return cuda_.memory_info(device, free_bytes, total_bytes);
}

DriverCode LoggedDriver::total_memory(int device, uint64_t* total_bytes) {
  return cuda_.total_memory(device, total_bytes);
}

DriverCode LoggedDriver::allocate(int device, uint64_t size, Address* address) {
  const DriverCode code = cuda_.allocate(device, size, address);
  if (code == kSuccess) addresses_.push_back(*address);
  print("malloc " + decimal(size) + (code == kSuccess ? " " + hex(*address) : ""), code);
  return code;
}

DriverCode LoggedDriver::free(int device, Address address) {
  finish_all();
  const DriverCode code = cuda_.free(device, address);
  print("free " + hex(address), code);
  return code;
}

// ---- Virtual memory

DriverCode LoggedDriver::reserve(int device, uint64_t size, Address* address) {
  const DriverCode code = cuda_.reserve(device, size, address);
  if (code == kSuccess) addresses_.push_back(*address);
  print("reserve " + decimal(size) + (code == kSuccess ? " " + hex(*address) : ""), code);
  return code;
}

DriverCode LoggedDriver::unreserve(int device, Address address, uint64_t size) {
  finish_all();
  const DriverCode code = cuda_.unreserve(device, address, size);
  print("unreserve " + hex(address) + " " + decimal(size), code);
  return code;
}

DriverCode LoggedDriver::granularity(int device, uint64_t* bytes) {
  return cuda_.granularity(device, bytes);
}

DriverCode LoggedDriver::create(int device, uint64_t size, HandleType type, bool rdma,
                                uint64_t* handle) {
  print_("handles", "handle type " + decimal(static_cast<int32_t>(type)) + " rdma " +
                        decimal(int32_t{rdma}) + " device " + decimal(device));
  const DriverCode code = cuda_.create(device, size, type, rdma, handle);
  if (type == HandleType::kFabric && code != kDriverOutOfMemory) fabric_create_code_ = code;
  print("create " + decimal(size), code);
  return code;
}

DriverCode LoggedDriver::export_handle(int device, uint64_t handle, HandleType type,
                                       ShareableHandle* out) {
  const DriverCode code = cuda_.export_handle(device, handle, type, out);
  print("export type " + decimal(static_cast<int32_t>(type)), code);
  return code;
}

DriverCode LoggedDriver::import_handle(int device, const ShareableHandle& shareable,
                                       HandleType type, uint64_t* handle) {
  const DriverCode code = cuda_.import_handle(device, shareable, type, handle);
  print("import type " + decimal(static_cast<int32_t>(type)), code);
  return code;
}

DriverCode LoggedDriver::release(int device, uint64_t handle) {
  finish_all();
  const DriverCode code = cuda_.release(device, handle);
  print("release", code);
  return code;
}

DriverCode LoggedDriver::map(int device, Address address, uint64_t size, uint64_t handle) {
  const DriverCode code = cuda_.map(device, address, size, handle);
  print("map " + hex(address) + " " + decimal(size), code);
  return code;
}

DriverCode LoggedDriver::unmap(int device, Address address, uint64_t size) {
  finish_all();
  const DriverCode code = cuda_.unmap(device, address, size);
  print("unmap " + hex(address) + " " + decimal(size), code);
  return code;
}

DriverCode LoggedDriver::set_access(int device, Address address, uint64_t size,
                                    int accessing_device) {
  const DriverCode code = cuda_.set_access(device, address, size, accessing_device);
  print("access " + hex(address) + " " + decimal(size), code);
  return code;
}

DriverCode LoggedDriver::fabric_state(int device, int32_t* state) {
  const DriverCode code = cuda_.fabric_state(device, state);
  fabric_state_ = code == kSuccess ? *state : -1;
  return code;
}

// ---- Events and waiting

DriverCode LoggedDriver::event_create(int device, uint64_t* event) {
  const DriverCode code = cuda_.event_create(device, event);
  print("event_create", code);
  return code;
}

DriverCode LoggedDriver::event_destroy(int device, uint64_t event) {
  const DriverCode code = cuda_.event_destroy(device, event);
  marks_.erase(event);
  print("event_destroy", code);
  return code;
}

// Behind no work an event is done at once on the oracle's device, so its few microseconds are
// waited for.
DriverCode LoggedDriver::event_record(int device, uint64_t event, Stream stream) {
  const DriverCode code = cuda_.event_record(device, event, real(stream));
  marks_[event] = {stream, streams_.pieces(stream)};
  if (streams_.is_idle(stream) && !streams_.is_captured(stream))
    cuda_.stream_synchronize(device, real(stream));
  print("event_record " + hex(stream), code);
  return code;
}

DriverCode LoggedDriver::event_query(int device, uint64_t event) {
  print_("query", "event_query " + hex(marks_[event].stream));
  return note_captured_event(cuda_.event_query(device, event));
}

DriverCode LoggedDriver::event_synchronize(int device, uint64_t event) {
  const Mark mark = marks_[event];
  streams_.finish_up_to(mark.stream, mark.piece);
  const DriverCode code = note_captured_event(cuda_.event_synchronize(device, event));
  print("event_sync " + hex(mark.stream), code);
  return code;
}

DriverCode LoggedDriver::note_captured_event(DriverCode code) {
  captured_event_ |= code == CUDA_ERROR_CAPTURED_EVENT;
  return code;
}

DriverCode LoggedDriver::stream_synchronize(int device, Stream stream) {
  streams_.finish_stream(stream);
  const DriverCode code = cuda_.stream_synchronize(device, real(stream));
  print("stream_sync " + hex(stream), code);
  return code;
}

DriverCode LoggedDriver::device_synchronize(int device) {
  streams_.finish_all();
  const DriverCode code = cuda_.device_synchronize(device);
  print("device_sync", code);
  return code;
}

// ---- Captures and peers

DriverCode LoggedDriver::capture_info(int device, Stream stream, CaptureInfo* info) {
  return cuda_.capture_info(device, real(stream), info);
}

DriverCode LoggedDriver::node_dependencies(int device, uint64_t node,
                                           std::vector<uint64_t>* nodes) {
  return cuda_.node_dependencies(device, node, nodes);
}

DriverCode LoggedDriver::exchange_capture_mode(int device, int32_t* mode) {
  print_("capture_mode", "capture_mode " + decimal(*mode));
  return cuda_.exchange_capture_mode(device, mode);
}

DriverCode LoggedDriver::enable_peer(int device, int peer) {
  const DriverCode code = cuda_.enable_peer(device, peer);
  print("peer_access " + decimal(device) + " " + decimal(peer), code);
  return code;
}

}  // namespace cachalot::gpu
