// SPDX-License-Identifier: MIT OR Apache-2.0
#include "device/cuda_driver.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/text.h"
#include "device/cuda_streams.h"
#include "device/device_count.h"

namespace cachalot {

using namespace cuda;

namespace {

EventHandle to_event(uint64_t event) { return reinterpret_cast<EventHandle>(event); }

uint64_t to_number(const void* handle) { return reinterpret_cast<uint64_t>(handle); }

AllocationProperties properties(int device, HandleType type, bool rdma) {
  AllocationProperties properties{};
  properties.type = kAllocationTypePinned;
  properties.handle_types = static_cast<int>(type);
  properties.location = {kLocationTypeDevice, device};
  properties.flags.gpu_direct_rdma_capable = rdma ? 1 : 0;
  return properties;
}

// Throws where there is none.
int count_devices(const Library& library) {
  int count = 0;
  if (const Result code = library.cuDeviceGetCount(&count)) {
    throw Error(Status::kDriverUnavailable,
                format("the CUDA driver does not count its devices (error %d)", code));
  }
  if (count == 0) throw Error(Status::kDriverUnavailable, "the CUDA driver finds no device");
  return std::min(count, kMaxDevices);
}

// No stream comes behind the work of all others, or before it: the host waits on both sides.
Result fill_between_all(const Library& library, Address address, uint64_t size, uint8_t byte) {
  Result code = library.cuCtxSynchronize();
  const StreamHandle legacy = handle_of(kLegacyStream);
  if (code == 0) code = library.cuMemsetD8Async(address, byte, size, legacy);
  return code != 0 ? code : library.cuStreamSynchronize(legacy);
}

Result dependencies_of(const Library& library, GraphNode node, GraphNode* nodes, size_t* count) {
  if (!library.graph_edges) return library.cuGraphNodeGetDependencies(node, nodes, count);
  std::vector<GraphEdge> edges(nodes == nullptr ? 0 : *count);
  return library.graph_edges->cuGraphNodeGetDependencies(
      node, nodes, nodes == nullptr ? nullptr : edges.data(), count);
}

Result capture_of(const Library& library, Stream stream, CaptureInfo* info) {
  int status = 0;
  uint64_t id = 0;
  Graph graph = nullptr;
  const GraphNode* nodes = nullptr;
  const GraphEdge* edges = nullptr;
  size_t count = 0;
  const Result code =
      library.graph_edges
          ? library.graph_edges->cuStreamGetCaptureInfo(handle_of(stream), &status, &id, &graph,
                                                        &nodes, &edges, &count)
          : library.cuStreamGetCaptureInfo(handle_of(stream), &status, &id, &graph, &nodes, &count);
  if (code != 0) return code;
  info->capturing = status != 0;
  if (status != kCaptureStatusActive) return kSuccess;
  info->capture_id = id;
  info->graph = to_number(graph);
  for (size_t i = 0; i < count; i++) info->nodes.push_back(to_number(nodes[i]));
  return kSuccess;
}

}  // namespace

CudaDriver::CudaDriver(const CudaOptions& options)
    : library_(open_library(options.library)),
      contexts_(library_, count_devices(library_), options.context) {
  for (int i = 0; i < contexts_.device_count(); i++)
    devices_.push_back(
        std::make_unique<cuda::Device>(library_, i, options.capacity, options.cgroups));
  const auto all_have = [this](int attribute) {
    return std::all_of(devices_.begin(), devices_.end(),
                       [&](const auto& device) { return device->has(attribute); });
  };
  supports_virtual_memory_ = library_.virtual_memory && all_have(kVirtualMemorySupported);
  supports_memory_pools_ = library_.memory_pools && all_have(kMemoryPoolsSupported);
}

// ---- Memory

DriverCode CudaDriver::memory_info(int device, uint64_t* free_bytes, uint64_t* total_bytes) {
  size_t available = 0;
  size_t total = 0;
  const DriverCode code = on(device, [&] { return library_.cuMemGetInfo(&available, &total); });
  if (code != kSuccess) return code;
  *free_bytes = available;
  *total_bytes = total;
  at(device).limit(free_bytes, total_bytes);
  return kSuccess;
}

DriverCode CudaDriver::total_memory(int device, uint64_t* total_bytes) {
  if (contexts_.is_in_forked_child()) return kNotInitialized;
  *total_bytes = at(device).total_memory();
  return kSuccess;
}

// The driver refuses 0 bytes; the runtime, which the reference asks, gives a null pointer.
DriverCode CudaDriver::allocate(int device, uint64_t size, Address* address) {
  if (size == 0) {
    *address = 0;
    return kSuccess;
  }
  if (contexts_.is_in_forked_child()) return kNotInitialized;
  return at(device).obtain(size, address, [&](DeviceAddress* got) {
    return on(device, [&] { return library_.cuMemAlloc(got, size); });
  });
}

DriverCode CudaDriver::free(int device, Address address) {
  if (address == 0) return kSuccess;
  const DriverCode code = on(device, [&] { return library_.cuMemFree(address); });
  if (code == kSuccess) at(device).budget.give_back(MemoryBudget::Kind::kAddress, address);
  return code;
}

DriverCode CudaDriver::fill(int device, Address address, uint64_t size, uint8_t byte,
                            Stream stream) {
  return on(device, [&] {
    return stream == kAllStreams ? fill_between_all(library_, address, size, byte)
                                 : library_.cuMemsetD8Async(address, byte, size, handle_of(stream));
  });
}

DriverCode CudaDriver::read(int device, Address address, uint64_t size, void* out, Stream stream) {
  if (stream == kAllStreams) {
    const DriverCode code = device_synchronize(device);
    return code != kSuccess ? code : read(device, address, size, out, kLegacyStream);
  }
  return on(device, [&] {
    const StreamHandle handle = handle_of(stream);
    const Result code = library_.cuMemcpyDtoHAsync(out, address, size, handle);
    return code != 0 ? code : library_.cuStreamSynchronize(handle);
  });
}

// ---- Virtual memory

DriverCode CudaDriver::reserve(int device, uint64_t size, Address* address) {
  return on(device, [&] {
    DeviceAddress got = 0;
    const Result code = library_.virtual_memory->cuMemAddressReserve(&got, size, 0, 0, 0);
    if (code == 0) *address = got;
    return code;
  });
}

DriverCode CudaDriver::unreserve(int device, Address address, uint64_t size) {
  return on(device, [&] { return library_.virtual_memory->cuMemAddressFree(address, size); });
}

DriverCode CudaDriver::granularity(int device, uint64_t* bytes) {
  return on(device, [&] {
    const AllocationProperties of = properties(device, HandleType::kNone, false);
    size_t got = 0;
    const Result code =
        library_.virtual_memory->cuMemGetAllocationGranularity(&got, &of, kGranularityMinimum);
    if (code == 0) *bytes = got;
    return code;
  });
}

DriverCode CudaDriver::create(int device, uint64_t size, HandleType type, bool rdma,
                              uint64_t* handle) {
  if (contexts_.is_in_forked_child()) return kNotInitialized;
  MemoryBudget& budget = at(device).budget;
  const auto ticket = budget.take(size);
  if (!ticket) return kDriverOutOfMemory;
  AllocationHandle got = 0;
  const DriverCode code = on(device, [&] {
    const AllocationProperties of = properties(device, type, rdma && at(device).supports_rdma);
    return library_.virtual_memory->cuMemCreate(&got, size, &of, 0);
  });
  if (code != kSuccess) {
    budget.give_back(*ticket);
    return code;
  }
  budget.keep(*ticket, MemoryBudget::Kind::kHandle, got);
  *handle = got;
  return kSuccess;
}

DriverCode CudaDriver::export_handle(int device, uint64_t handle, HandleType type,
                                     ShareableHandle* out) {
  return on(device, [&] {
    ShareableHandle shareable;
    const Result code = library_.virtual_memory->cuMemExportToShareableHandle(
        shareable.bytes, handle, static_cast<int>(type), 0);
    if (code == 0) *out = shareable;
    return code;
  });
}

// A descriptor travels in place of the pointer, a fabric handle behind it.
DriverCode CudaDriver::import_handle(int device, const ShareableHandle& shareable, HandleType type,
                                     uint64_t* handle) {
  return on(device, [&] {
    ShareableHandle copy = shareable;
    void* os_handle = copy.bytes;
    if (type == HandleType::kPosixFd) {
      os_handle = reinterpret_cast<void*>(static_cast<intptr_t>(copy.descriptor()));
    }
    AllocationHandle got = 0;
    const Result code = library_.virtual_memory->cuMemImportFromShareableHandle(
        &got, os_handle, static_cast<int>(type));
    if (code == 0) *handle = got;
    return code;
  });
}

DriverCode CudaDriver::release(int device, uint64_t handle) {
  const DriverCode code = on(device, [&] { return library_.virtual_memory->cuMemRelease(handle); });
  if (code == kSuccess) at(device).budget.give_back(MemoryBudget::Kind::kHandle, handle);
  return code;
}

DriverCode CudaDriver::map(int device, Address address, uint64_t size, uint64_t handle) {
  return on(device, [&] { return library_.virtual_memory->cuMemMap(address, size, 0, handle, 0); });
}

DriverCode CudaDriver::unmap(int device, Address address, uint64_t size) {
  return on(device, [&] { return library_.virtual_memory->cuMemUnmap(address, size); });
}

DriverCode CudaDriver::set_access(int device, Address address, uint64_t size,
                                  int accessing_device) {
  return on(device, [&] {
    const AccessDescriptor access{{kLocationTypeDevice, accessing_device}, kAccessReadWrite};
    return library_.virtual_memory->cuMemSetAccess(address, size, &access, 1);
  });
}

DriverCode CudaDriver::fabric_state(int device, int32_t* state) {
  if (contexts_.is_in_forked_child()) return kNotInitialized;
  const auto answer = nvml_.is_part_of_fabric(at(device).identity.pci_bus_id);
  if (!answer) return kDriverNotSupported;
  *state = *answer ? 1 : 0;
  return kSuccess;
}

// ---- Events and waiting

DriverCode CudaDriver::event_create(int device, uint64_t* event) {
  return on(device, [&] {
    EventHandle got = nullptr;
    const Result code = library_.cuEventCreate(&got, kEventDisableTiming);
    if (code == 0) *event = to_number(got);
    return code;
  });
}

DriverCode CudaDriver::event_destroy(int device, uint64_t event) {
  return on(device, [&] { return library_.cuEventDestroy(to_event(event)); });
}

DriverCode CudaDriver::event_record(int device, uint64_t event, Stream stream) {
  // Before CUDA 12.5 there is no event of all streams, and the host waits for the work instead. The event is done then:
  // it was never recorded, or what it was recorded behind is done too.
  if (stream == kAllStreams)
    return library_.context_events ? event_record_all(device, event) : device_synchronize(device);
  return on(device, [&] { return library_.cuEventRecord(to_event(event), handle_of(stream)); });
}

DriverCode CudaDriver::event_record_all(int device, uint64_t event) {
  if (!library_.context_events) return kDriverNotSupported;
  return on(device, [&] {
    Context context = nullptr;
    const Result code = library_.cuCtxGetCurrent(&context);
    return code != 0 ? code : library_.context_events->cuCtxRecordEvent(context, to_event(event));
  });
}

DriverCode CudaDriver::event_query(int device, uint64_t event) {
  return on(device, [&] { return library_.cuEventQuery(to_event(event)); });
}

DriverCode CudaDriver::event_synchronize(int device, uint64_t event) {
  return on(device, [&] { return library_.cuEventSynchronize(to_event(event)); });
}

DriverCode CudaDriver::stream_synchronize(int device, Stream stream) {
  if (stream == kAllStreams) return device_synchronize(device);
  return on(device, [&] { return library_.cuStreamSynchronize(handle_of(stream)); });
}

DriverCode CudaDriver::device_synchronize(int device) {
  return on(device, [&] { return library_.cuCtxSynchronize(); });
}

// ---- Captures

DriverCode CudaDriver::capture_info(int device, Stream stream, CaptureInfo* info) {
  *info = {};
  if (stream == kAllStreams) return kSuccess;
  if (is_of_another_thread(stream)) return kSuccess;  // a capture of it is that thread's own affair
  return on(device, [&] { return capture_of(library_, stream, info); });
}

DriverCode CudaDriver::node_dependencies(int device, uint64_t node, std::vector<uint64_t>* nodes) {
  return on(device, [&] {
    const auto handle = reinterpret_cast<GraphNode>(node);
    size_t count = 0;
    Result code = dependencies_of(library_, handle, nullptr, &count);
    std::vector<GraphNode> found(count);
    if (code == 0 && count > 0) code = dependencies_of(library_, handle, found.data(), &count);
    if (code != 0) return code;
    nodes->clear();
    for (const GraphNode dependency : found) nodes->push_back(to_number(dependency));
    return code;
  });
}

DriverCode CudaDriver::exchange_capture_mode(int, int32_t* mode) {
  if (contexts_.is_in_forked_child()) return kNotInitialized;
  return library_.cuThreadExchangeStreamCaptureMode(mode);
}

// ---- The rest

Stream CudaDriver::resolve(Stream stream) { return number_of(stream); }

Stream CudaDriver::user_handle(Stream stream) { return handle_named(stream); }

DriverCode CudaDriver::enable_peer(int device, int peer) {
  if (!contexts_.are_held()) return kSuccess;  // who gave them decides that
  Context of_peer = nullptr;
  if (const Result code = contexts_.get(peer, &of_peer)) return code;
  const DriverCode code = on(device, [&] { return library_.cuCtxEnablePeerAccess(of_peer, 0); });
  return code == kPeerAccessAlreadyEnabled ? kSuccess : code;
}

std::vector<DeviceProcess> CudaDriver::processes(int device) {
  if (contexts_.is_in_forked_child()) return {};
  return nvml_.processes(at(device).identity.pci_bus_id);
}

std::string CudaDriver::error_text(DriverCode code) {
  if (contexts_.is_in_forked_child()) {
    return "CUDA does not work in a process that was forked after CUDA was started; "
           "start it by exec, or open the driver after the fork";
  }
  return driver_text(library_, code);
}

}  // namespace cachalot
