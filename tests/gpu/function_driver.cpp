// SPDX-License-Identifier: MIT OR Apache-2.0
#include "function_driver.h"

#include <memory>

#include "driver_functions.h"

namespace gpu {
namespace {

struct State {
  LeftOut left_out;
  Driver driver;
  CUmemAllocationProp property = page_property();
};

const State& state_of(void* user_data) { return *static_cast<const State*>(user_data); }

cudaStream_t stream_of(cachalot_stream stream) { return reinterpret_cast<cudaStream_t>(stream); }
cudaEvent_t event_of(uint64_t event) { return reinterpret_cast<cudaEvent_t>(event); }

// The driver's functions need the device's context on the thread that calls.
int32_t enter(int32_t device) { return cudaSetDevice(device); }

// ---- Memory

int32_t memory_info(void*, int32_t device, uint64_t* out_free, uint64_t* out_total) {
  if (const int32_t code = enter(device)) return code;
  size_t free = 0;
  size_t total = 0;
  const int32_t code = cudaMemGetInfo(&free, &total);
  *out_free = free;
  *out_total = total;
  return code;
}

int32_t allocate(void* user_data, int32_t device, uint64_t size, cachalot_address* out_address) {
  if (const int32_t code = enter(device)) return code;
  CUdeviceptr address = 0;
  const int32_t code = state_of(user_data).driver.cuMemAlloc_p(&address, size);
  *out_address = address;
  return code;
}

int32_t free(void* user_data, int32_t device, cachalot_address address) {
  if (const int32_t code = enter(device)) return code;
  return state_of(user_data).driver.cuMemFree_p(address);
}

// ---- Virtual memory

int32_t reserve(void* user_data, int32_t device, uint64_t size, cachalot_address* out_address) {
  if (const int32_t code = enter(device)) return code;
  CUdeviceptr address = 0;
  const int32_t code = state_of(user_data).driver.cuMemAddressReserve_p(&address, size, 0, 0, 0);
  *out_address = address;
  return code;
}

int32_t unreserve(void* user_data, int32_t device, cachalot_address address, uint64_t size) {
  if (const int32_t code = enter(device)) return code;
  return state_of(user_data).driver.cuMemAddressFree_p(address, size);
}

int32_t granularity(void* user_data, int32_t device, uint64_t* out_bytes) {
  if (const int32_t code = enter(device)) return code;
  const State& state = state_of(user_data);
  size_t bytes = 0;
  const int32_t code = state.driver.cuMemGetAllocationGranularity_p(
      &bytes, &state.property, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
  *out_bytes = bytes;
  return code;
}

// Not to be shared and not for network cards.
int32_t create(void* user_data, int32_t device, uint64_t size, int32_t, int32_t,
               uint64_t* out_handle) {
  if (const int32_t code = enter(device)) return code;
  const State& state = state_of(user_data);
  CUmemGenericAllocationHandle handle = 0;
  const int32_t code = state.driver.cuMemCreate_p(&handle, size, &state.property, 0);
  *out_handle = handle;
  return code;
}

int32_t export_handle(void*, int32_t, uint64_t, int32_t, cachalot_shareable_handle*) {
  return CACHALOT_DRIVER_NOT_SUPPORTED;
}

int32_t import_handle(void*, int32_t, const cachalot_shareable_handle*, int32_t, uint64_t*) {
  return CACHALOT_DRIVER_NOT_SUPPORTED;
}

int32_t release(void* user_data, int32_t device, uint64_t handle) {
  if (const int32_t code = enter(device)) return code;
  return state_of(user_data).driver.cuMemRelease_p(handle);
}

int32_t map(void* user_data, int32_t device, cachalot_address address, uint64_t size,
            uint64_t handle) {
  if (const int32_t code = enter(device)) return code;
  return state_of(user_data).driver.cuMemMap_p(address, size, 0, handle, 0);
}

int32_t unmap(void* user_data, int32_t device, cachalot_address address, uint64_t size) {
  if (const int32_t code = enter(device)) return code;
  return state_of(user_data).driver.cuMemUnmap_p(address, size);
}

int32_t set_access(void* user_data, int32_t device, cachalot_address address, uint64_t size,
                   int32_t accessing_device) {
  if (const int32_t code = enter(device)) return code;
  CUmemAccessDesc access = {};
  access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  access.location.id = accessing_device;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  return state_of(user_data).driver.cuMemSetAccess_p(address, size, &access, 1);
}

// ---- Events and waiting

int32_t event_create(void*, int32_t device, uint64_t* out_event) {
  if (const int32_t code = enter(device)) return code;
  cudaEvent_t event = nullptr;
  const int32_t code = cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
  *out_event = reinterpret_cast<uint64_t>(event);
  return code;
}

int32_t event_destroy(void*, int32_t, uint64_t event) { return cudaEventDestroy(event_of(event)); }

int32_t event_record(void*, int32_t device, uint64_t event, cachalot_stream stream) {
  if (const int32_t code = enter(device)) return code;
  return cudaEventRecord(event_of(event), stream_of(stream));
}

int32_t event_query(void*, int32_t, uint64_t event) { return cudaEventQuery(event_of(event)); }

int32_t event_synchronize(void*, int32_t, uint64_t event) {
  return cudaEventSynchronize(event_of(event));
}

int32_t stream_synchronize(void* user_data, int32_t device, cachalot_stream stream) {
  if (state_of(user_data).left_out == LeftOut::kHostWait) return CACHALOT_DRIVER_SUCCESS;
  if (const int32_t code = enter(device)) return code;
  return cudaStreamSynchronize(stream_of(stream));
}

int32_t device_synchronize(void*, int32_t device) {
  if (const int32_t code = enter(device)) return code;
  return cudaDeviceSynchronize();
}

int32_t stream_wait_event(void* user_data, int32_t device, cachalot_stream stream, uint64_t event) {
  if (state_of(user_data).left_out == LeftOut::kStreamWait) return CACHALOT_DRIVER_SUCCESS;
  if (const int32_t code = enter(device)) return code;
  return cudaStreamWaitEvent(stream_of(stream), event_of(event), 0);
}

const char* error_text(void*, int32_t code) {
  return cudaGetErrorString(static_cast<cudaError_t>(code));
}

// ---- Stream-ordered memory: there only because stream_wait_event is one of its functions

int32_t pool_allocate(void*, int32_t, uint64_t, cachalot_stream, cachalot_address*) {
  return CACHALOT_DRIVER_NOT_SUPPORTED;
}
int32_t pool_free(void*, int32_t, cachalot_address, cachalot_stream) {
  return CACHALOT_DRIVER_NOT_SUPPORTED;
}
int32_t pool_trim(void*, int32_t, uint64_t) { return CACHALOT_DRIVER_NOT_SUPPORTED; }
int32_t pool_get_attribute(void*, int32_t, int32_t, uint64_t*) {
  return CACHALOT_DRIVER_NOT_SUPPORTED;
}
int32_t pool_set_attribute(void*, int32_t, int32_t, uint64_t) {
  return CACHALOT_DRIVER_NOT_SUPPORTED;
}
int32_t stream_create(void*, int32_t, cachalot_stream*) { return CACHALOT_DRIVER_NOT_SUPPORTED; }

cachalot_device_ops functions() {
  cachalot_device_ops ops = {};
  ops.struct_size = sizeof ops;
  ops.memory_info = memory_info;
  ops.allocate = allocate;
  ops.free = free;
  ops.reserve = reserve;
  ops.unreserve = unreserve;
  ops.granularity = granularity;
  ops.create = create;
  ops.export_handle = export_handle;
  ops.import_handle = import_handle;
  ops.release = release;
  ops.map = map;
  ops.unmap = unmap;
  ops.set_access = set_access;
  ops.event_create = event_create;
  ops.event_destroy = event_destroy;
  ops.event_record = event_record;
  ops.event_query = event_query;
  ops.event_synchronize = event_synchronize;
  ops.stream_synchronize = stream_synchronize;
  ops.device_synchronize = device_synchronize;
  ops.error_text = error_text;
  ops.pool_allocate = pool_allocate;
  ops.pool_free = pool_free;
  ops.pool_trim = pool_trim;
  ops.pool_get_attribute = pool_get_attribute;
  ops.pool_set_attribute = pool_set_attribute;
  ops.stream_create = stream_create;
  ops.stream_wait_event = stream_wait_event;
  return ops;
}

void destroy(void* user_data) { delete static_cast<State*>(user_data); }

}  // namespace

cachalot_driver* make_function_driver(LeftOut left_out) {
  CHECK_CUDA(cudaFree(nullptr));  // a context, before the driver's functions are asked for
  auto state = std::make_unique<State>(State{left_out, {}});
  const cachalot_device_ops ops = functions();
  cachalot_driver* driver = nullptr;
  cachalot_error error = CACHALOT_ERROR_INIT;
  check_status(cachalot_driver_create_custom(&ops, 1, state.release(), destroy, &driver, &error),
               error, "cachalot_driver_create_custom");
  return driver;
}

}  // namespace gpu
