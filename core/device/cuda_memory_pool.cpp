// SPDX-License-Identifier: MIT OR Apache-2.0
// The cuda driver's stream-ordered memory: the default pool of each device.
#include "device/cuda_driver.h"
#include "device/cuda_streams.h"
#include "device/pool_attributes.h"

namespace cachalot {

using namespace cuda;

namespace {

// The reuse flags are ints, all other attributes have 64 bits.
bool is_flag(int32_t attribute) {
  return attribute >= pool_attribute::kReuseFollowEventDependencies &&
         attribute <= pool_attribute::kReuseAllowInternalDependencies;
}

// Makes a call with the device's default pool.
template <class Call>
DriverCode on_pool(const Library& library, Contexts& contexts, DeviceOrdinal ordinal, int device,
                   Call call) {
  return on(library, contexts, device, [&] {
    MemoryPool pool = nullptr;
    const Result code = library.memory_pools->cuDeviceGetDefaultMemPool(&pool, ordinal);
    return code != 0 ? code : call(pool);
  });
}

}  // namespace

DriverCode CudaDriver::pool_allocate(int device, uint64_t size, Stream stream, Address* address) {
  if (contexts_.is_in_forked_child()) return kNotInitialized;
  return at(device).obtain(size, address, [&](DeviceAddress* got) {
    return on(device,
              [&] { return library_.memory_pools->cuMemAllocAsync(got, size, handle_of(stream)); });
  });
}

DriverCode CudaDriver::pool_free(int device, Address address, Stream stream) {
  const DriverCode code =
      on(device, [&] { return library_.memory_pools->cuMemFreeAsync(address, handle_of(stream)); });
  if (code == kSuccess) at(device).budget.give_back(MemoryBudget::Kind::kAddress, address);
  return code;
}

DriverCode CudaDriver::pool_trim(int device, uint64_t keep_bytes) {
  return on_pool(library_, contexts_, at(device).ordinal, device, [&](MemoryPool pool) {
    return library_.memory_pools->cuMemPoolTrimTo(pool, keep_bytes);
  });
}

DriverCode CudaDriver::pool_get_attribute(int device, int32_t attribute, uint64_t* value) {
  return on_pool(library_, contexts_, at(device).ordinal, device, [&](MemoryPool pool) {
    uint64_t got = 0;
    const Result code = library_.memory_pools->cuMemPoolGetAttribute(pool, attribute, &got);
    if (code == 0) *value = got;
    return code;
  });
}

DriverCode CudaDriver::pool_set_attribute(int device, int32_t attribute, uint64_t value) {
  return on_pool(library_, contexts_, at(device).ordinal, device, [&](MemoryPool pool) {
    auto flag = static_cast<int>(value);
    void* const in = is_flag(attribute) ? static_cast<void*>(&flag) : &value;
    return library_.memory_pools->cuMemPoolSetAttribute(pool, attribute, in);
  });
}

DriverCode CudaDriver::pool_set_access(int device, int accessing_device) {
  return on_pool(library_, contexts_, at(device).ordinal, device, [&](MemoryPool pool) {
    const AccessDescriptor access{{kLocationTypeDevice, accessing_device}, kAccessReadWrite};
    return library_.memory_pools->cuMemPoolSetAccess(pool, &access, 1);
  });
}

DriverCode CudaDriver::graph_get_attribute(int device, int32_t attribute, uint64_t* value) {
  return on(device, [&] {
    uint64_t got = 0;
    const Result code =
        library_.memory_pools->cuDeviceGetGraphMemAttribute(at(device).ordinal, attribute, &got);
    if (code == 0) *value = got;
    return code;
  });
}

DriverCode CudaDriver::graph_set_attribute(int device, int32_t attribute, uint64_t value) {
  return on(device, [&] {
    return library_.memory_pools->cuDeviceSetGraphMemAttribute(at(device).ordinal, attribute,
                                                               &value);
  });
}

DriverCode CudaDriver::stream_create(int device, Stream* stream) {
  StreamHandle made = nullptr;
  const DriverCode code =
      on(device, [&] { return library_.cuStreamCreate(&made, kStreamNonBlocking); });
  if (code == kSuccess) *stream = reinterpret_cast<Stream>(made);
  return code;
}

void CudaDriver::stream_destroy(int device, Stream stream) {
  on(device, [&] { return library_.cuStreamDestroy(handle_of(stream)); });
}

DriverCode CudaDriver::stream_wait_event(int device, Stream stream, uint64_t event) {
  return on(device, [&] {
    return library_.cuStreamWaitEvent(handle_of(stream), reinterpret_cast<EventHandle>(event), 0);
  });
}

}  // namespace cachalot
