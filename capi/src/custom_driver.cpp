// SPDX-License-Identifier: MIT OR Apache-2.0
#include "custom_driver.h"

#include <cstring>
#include <initializer_list>

#include "base/text.h"
#include "device/device_count.h"
#include "device/error_text.h"

namespace cachalot::capi {
namespace {

struct Function {
  const char* name;
  bool is_set;
};

void require_functions(std::initializer_list<Function> functions) {
  for (const Function& function : functions) {
    if (!function.is_set) throw_invalid_argument(format("ops->%s is NULL", function.name));
  }
}

void require_all_or_none(const char* what, std::initializer_list<Function> functions) {
  const Function& first = *functions.begin();
  for (const Function& function : functions) {
    if (function.is_set == first.is_set) continue;
    throw_invalid_argument(format("ops->%s is NULL and ops->%s is not: %s need all or none",
                                  first.is_set ? function.name : first.name,
                                  first.is_set ? first.name : function.name, what));
  }
}

// clang-format off
#define CACHALOT_FUNCTION(name) Function{#name, ops.name != nullptr}
// clang-format on

const cachalot_device_ops& checked(const cachalot_device_ops& ops) {
  require_functions(
      {CACHALOT_FUNCTION(memory_info), CACHALOT_FUNCTION(allocate), CACHALOT_FUNCTION(free)});
  require_all_or_none(
      "calls of virtual memory",
      {CACHALOT_FUNCTION(reserve), CACHALOT_FUNCTION(unreserve), CACHALOT_FUNCTION(granularity),
       CACHALOT_FUNCTION(create), CACHALOT_FUNCTION(export_handle),
       CACHALOT_FUNCTION(import_handle), CACHALOT_FUNCTION(release), CACHALOT_FUNCTION(map),
       CACHALOT_FUNCTION(unmap), CACHALOT_FUNCTION(set_access)});
  require_all_or_none("events", {CACHALOT_FUNCTION(event_create), CACHALOT_FUNCTION(event_destroy),
                                 CACHALOT_FUNCTION(event_record), CACHALOT_FUNCTION(event_query),
                                 CACHALOT_FUNCTION(event_synchronize)});
  require_all_or_none(
      "calls of stream-ordered memory",
      {CACHALOT_FUNCTION(pool_allocate), CACHALOT_FUNCTION(pool_free), CACHALOT_FUNCTION(pool_trim),
       CACHALOT_FUNCTION(pool_get_attribute), CACHALOT_FUNCTION(pool_set_attribute),
       CACHALOT_FUNCTION(stream_create), CACHALOT_FUNCTION(stream_wait_event)});
  require_all_or_none("calls of pinned memory",
                      {CACHALOT_FUNCTION(host_allocate), CACHALOT_FUNCTION(host_free)});
  require_all_or_none("copies", {CACHALOT_FUNCTION(copy), CACHALOT_FUNCTION(copy_peer)});
  require_all_or_none(
      "calls of memory between processes",
      {CACHALOT_FUNCTION(ipc_get), CACHALOT_FUNCTION(ipc_open), CACHALOT_FUNCTION(ipc_close)});
  return ops;
}

#undef CACHALOT_FUNCTION

cachalot_shareable_handle to_c(const ShareableHandle& handle) {
  cachalot_shareable_handle out;
  static_assert(sizeof out.bytes == sizeof handle.bytes);
  std::memcpy(out.bytes, handle.bytes, sizeof out.bytes);
  return out;
}

}  // namespace

CustomDriver::CustomDriver(const cachalot_device_ops& ops, int device_count, UserData user_data)
    : user_data_(std::move(user_data)),
      ops_(checked(ops)),
      device_count_(checked_device_count(device_count)) {}

// ---- Memory

DriverCode CustomDriver::memory_info(int device, uint64_t* free_bytes, uint64_t* total_bytes) {
  return call(ops_.memory_info, kDriverNotSupported, device, free_bytes, total_bytes);
}

DriverCode CustomDriver::allocate(int device, uint64_t size, Address* address) {
  return call(ops_.allocate, kDriverNotSupported, device, size, address);
}

DriverCode CustomDriver::free(int device, Address address) {
  return call(ops_.free, kDriverNotSupported, device, address);
}

// ---- Virtual memory

DriverCode CustomDriver::reserve(int device, uint64_t size, Address* address) {
  return call(ops_.reserve, kDriverNotSupported, device, size, address);
}

DriverCode CustomDriver::unreserve(int device, Address address, uint64_t size) {
  return call(ops_.unreserve, kDriverNotSupported, device, address, size);
}

DriverCode CustomDriver::granularity(int device, uint64_t* bytes) {
  return call(ops_.granularity, kDriverNotSupported, device, bytes);
}

DriverCode CustomDriver::create(int device, uint64_t size, HandleType type, bool rdma,
                                uint64_t* handle) {
  return call(ops_.create, kDriverNotSupported, device, size, static_cast<int32_t>(type),
              rdma ? 1 : 0, handle);
}

DriverCode CustomDriver::export_handle(int device, uint64_t handle, HandleType type,
                                       ShareableHandle* out) {
  cachalot_shareable_handle shareable{};
  const DriverCode code = call(ops_.export_handle, kDriverNotSupported, device, handle,
                               static_cast<int32_t>(type), &shareable);
  if (code == kSuccess) std::memcpy(out->bytes, shareable.bytes, sizeof out->bytes);
  return code;
}

DriverCode CustomDriver::import_handle(int device, const ShareableHandle& shareable,
                                       HandleType type, uint64_t* handle) {
  const cachalot_shareable_handle in = to_c(shareable);
  return call(ops_.import_handle, kDriverNotSupported, device, &in, static_cast<int32_t>(type),
              handle);
}

DriverCode CustomDriver::release(int device, uint64_t handle) {
  return call(ops_.release, kDriverNotSupported, device, handle);
}

DriverCode CustomDriver::map(int device, Address address, uint64_t size, uint64_t handle) {
  return call(ops_.map, kDriverNotSupported, device, address, size, handle);
}

DriverCode CustomDriver::unmap(int device, Address address, uint64_t size) {
  return call(ops_.unmap, kDriverNotSupported, device, address, size);
}

DriverCode CustomDriver::set_access(int device, Address address, uint64_t size,
                                    int accessing_device) {
  return call(ops_.set_access, kDriverNotSupported, device, address, size, accessing_device);
}

DriverCode CustomDriver::fabric_state(int device, int32_t* state) {
  return call(ops_.fabric_state, kDriverNotSupported, device, state);
}

// ---- Events and waiting: without the functions all work is done already

DriverCode CustomDriver::event_create(int device, uint64_t* event) {
  *event = 1;
  return call(ops_.event_create, kSuccess, device, event);
}

DriverCode CustomDriver::event_destroy(int device, uint64_t event) {
  return call(ops_.event_destroy, kSuccess, device, event);
}

DriverCode CustomDriver::event_record(int device, uint64_t event, Stream stream) {
  return call(ops_.event_record, kSuccess, device, event, stream);
}

DriverCode CustomDriver::event_query(int device, uint64_t event) {
  return call(ops_.event_query, kSuccess, device, event);
}

DriverCode CustomDriver::event_synchronize(int device, uint64_t event) {
  return call(ops_.event_synchronize, kSuccess, device, event);
}

DriverCode CustomDriver::stream_synchronize(int device, Stream stream) {
  return call(ops_.stream_synchronize, kSuccess, device, stream);
}

DriverCode CustomDriver::device_synchronize(int device) {
  return call(ops_.device_synchronize, kSuccess, device);
}

// ---- Captures: without the functions there are none

DriverCode CustomDriver::capture_info(int device, Stream stream, CaptureInfo* info) {
  cachalot_capture_info out{};
  out.struct_size = sizeof out;
  const DriverCode code = call(ops_.capture_info, kSuccess, device, stream, &out);
  if (code != kSuccess) return code;
  info->capturing = out.capturing != 0;
  info->capture_id = out.capture_id;
  info->graph = out.graph;
  info->nodes.assign(out.nodes, out.nodes == nullptr ? out.nodes : out.nodes + out.node_count);
  return kSuccess;
}

DriverCode CustomDriver::node_dependencies(int device, uint64_t node,
                                           std::vector<uint64_t>* nodes) {
  const uint64_t* rows = nullptr;
  size_t count = 0;
  const DriverCode code = call(ops_.node_dependencies, kSuccess, device, node, &rows, &count);
  if (code == kSuccess) nodes->assign(rows, rows == nullptr ? rows : rows + count);
  return code;
}

DriverCode CustomDriver::exchange_capture_mode(int device, int32_t* mode) {
  return call(ops_.exchange_capture_mode, kSuccess, device, mode);
}

// ---- Stream-ordered memory

DriverCode CustomDriver::pool_allocate(int device, uint64_t size, Stream stream, Address* address) {
  return call(ops_.pool_allocate, kDriverNotSupported, device, size, stream, address);
}

DriverCode CustomDriver::pool_free(int device, Address address, Stream stream) {
  return call(ops_.pool_free, kDriverNotSupported, device, address, stream);
}

DriverCode CustomDriver::pool_trim(int device, uint64_t keep_bytes) {
  return call(ops_.pool_trim, kDriverNotSupported, device, keep_bytes);
}

DriverCode CustomDriver::pool_get_attribute(int device, int32_t attribute, uint64_t* value) {
  return call(ops_.pool_get_attribute, kDriverNotSupported, device, attribute, value);
}

DriverCode CustomDriver::pool_set_attribute(int device, int32_t attribute, uint64_t value) {
  return call(ops_.pool_set_attribute, kDriverNotSupported, device, attribute, value);
}

DriverCode CustomDriver::pool_set_access(int device, int accessing_device) {
  return call(ops_.pool_set_access, kDriverNotSupported, device, accessing_device);
}

// Without the functions graphs have no memory of their own.
DriverCode CustomDriver::graph_get_attribute(int device, int32_t attribute, uint64_t* value) {
  *value = 0;
  return call(ops_.graph_get_attribute, kSuccess, device, attribute, value);
}

DriverCode CustomDriver::graph_set_attribute(int device, int32_t attribute, uint64_t value) {
  return call(ops_.graph_set_attribute, kSuccess, device, attribute, value);
}

DriverCode CustomDriver::stream_create(int device, Stream* stream) {
  return call(ops_.stream_create, kDriverNotSupported, device, stream);
}

DriverCode CustomDriver::stream_wait_event(int device, Stream stream, uint64_t event) {
  return call(ops_.stream_wait_event, kDriverNotSupported, device, stream, event);
}

DriverCode CustomDriver::event_record_all(int device, uint64_t event) {
  return call(ops_.event_record_all, kDriverNotSupported, device, event);
}

// ---- The rest

DriverCode CustomDriver::host_allocate(uint64_t size, HostMemoryOrigin origin, int register_threads,
                                       Address* address) {
  const int32_t threads = origin == HostMemoryOrigin::kRegistered ? register_threads : 0;
  return call(ops_.host_allocate, kDriverNotSupported, 0, size, threads, address);
}

DriverCode CustomDriver::host_free(Address address, HostMemoryOrigin origin) {
  const int32_t registered = origin == HostMemoryOrigin::kRegistered ? 1 : 0;
  return call(ops_.host_free, kDriverNotSupported, 0, address, registered);
}

DriverCode CustomDriver::copy(int device, Address to, Address from, uint64_t size, Stream stream) {
  return call(ops_.copy, kDriverNotSupported, device, to, from, size, stream);
}

DriverCode CustomDriver::copy_peer(int to_device, Address to, int from_device, Address from,
                                   uint64_t size, Stream stream) {
  return call(ops_.copy_peer, kDriverNotSupported, to_device, to, from_device, from, size, stream);
}

DriverCode CustomDriver::Handles::get(int device, Address address, ShareableHandle* handle) {
  cachalot_shareable_handle out{};
  const DriverCode code =
      driver_.call(driver_.ops_.ipc_get, kDriverNotSupported, device, address, &out);
  if (code == kSuccess) std::memcpy(handle->bytes, out.bytes, sizeof handle->bytes);
  return code;
}

DriverCode CustomDriver::Handles::open(int device, const ShareableHandle& handle,
                                       Address* address) {
  const cachalot_shareable_handle in = to_c(handle);
  return driver_.call(driver_.ops_.ipc_open, kDriverNotSupported, device, &in, address);
}

DriverCode CustomDriver::Handles::close(int device, Address address) {
  return driver_.call(driver_.ops_.ipc_close, kDriverNotSupported, device, address);
}

DriverCode CustomDriver::enable_peer(int device, int peer) {
  return call(ops_.enable_peer, kDriverNotSupported, device, peer);
}

std::vector<DeviceProcess> CustomDriver::processes(int device) {
  std::vector<cachalot_device_process> rows(16);
  size_t count = 0;
  const auto ask = [&] {
    return call(ops_.processes, kDriverNotSupported, device, rows.data(), rows.size(), &count);
  };
  if (ask() != kSuccess) return {};
  if (count > rows.size()) {
    rows.resize(count);
    if (ask() != kSuccess) return {};
  }
  std::vector<DeviceProcess> out;
  for (size_t i = 0; i < std::min(count, rows.size()); i++) {
    out.push_back({rows[i].pid, rows[i].used});
  }
  return out;
}

DriverCode CustomDriver::take_pending_error(int device) {
  return call(ops_.take_pending_error, kSuccess, device);
}

std::string CustomDriver::error_text(DriverCode code) {
  const char* text = ops_.error_text == nullptr ? nullptr : ops_.error_text(user_data_.get(), code);
  return text == nullptr ? common_error_text(code) : text;
}

}  // namespace cachalot::capi
