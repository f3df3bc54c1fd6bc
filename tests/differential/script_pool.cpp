// SPDX-License-Identifier: MIT OR Apache-2.0
// The device's stream-ordered memory: one pool, as on the oracle's.
#include <algorithm>

#include "arguments.h"
#include "script_device.h"

namespace cachalot::differential {
namespace {

// The numbers of cuda.h.
enum PoolAttribute { kPoolReserved = 5, kPoolReservedHigh, kPoolUsed, kPoolUsedHigh };
enum GraphAttribute { kGraphUsed, kGraphUsedHigh, kGraphReserved, kGraphReservedHigh };

constexpr cachalot_stream kStreamStep = 0x1000;

}  // namespace

void ScriptDevice::Watermark::set(uint64_t bytes) {
  current = bytes;
  high = std::max(high, current);
}

void ScriptDevice::change_pool_use(int64_t bytes) {
  pool_used_.set(pool_used_.current + static_cast<uint64_t>(bytes));
  pool_reserved_.set(std::max(pool_reserved_.current, pool_used_.current));
}

int32_t ScriptDevice::pool_allocate(uint64_t size, cachalot_stream stream,
                                    cachalot_address* out_address) {
  const std::string call = "malloc_async " + decimal(size) + " " + hex(stream);
  const int32_t code = hand_out(kMallocAsync, call, size, out_address);
  if (code == CACHALOT_DRIVER_SUCCESS) change_pool_use(static_cast<int64_t>(size));
  return code;
}

int32_t ScriptDevice::pool_free(cachalot_address address, cachalot_stream stream) {
  const auto found = mallocs_.find(address);
  if (found == mallocs_.end()) return runtime_failure(CACHALOT_DRIVER_INVALID_VALUE);
  used_ -= found->second;
  change_pool_use(-static_cast<int64_t>(found->second));
  mallocs_.erase(found);
  ranges_.erase(address);
  print("free_async " + hex(address) + " " + hex(stream));
  return CACHALOT_DRIVER_SUCCESS;
}

int32_t ScriptDevice::pool_trim(uint64_t keep_bytes) {
  print("pool_trim " + decimal(keep_bytes));
  const uint64_t keep = std::max(keep_bytes, pool_used_.current);
  pool_reserved_.set(std::min(pool_reserved_.current, keep));
  return CACHALOT_DRIVER_SUCCESS;
}

int32_t ScriptDevice::pool_get_attribute(int32_t attribute, uint64_t* out_value) const {
  switch (attribute) {
    case kPoolReserved:
      *out_value = pool_reserved_.current;
      return CACHALOT_DRIVER_SUCCESS;
    case kPoolReservedHigh:
      *out_value = pool_reserved_.high;
      return CACHALOT_DRIVER_SUCCESS;
    case kPoolUsed:
      *out_value = pool_used_.current;
      return CACHALOT_DRIVER_SUCCESS;
    case kPoolUsedHigh:
      *out_value = pool_used_.high;
      return CACHALOT_DRIVER_SUCCESS;
    default:
      return CACHALOT_DRIVER_INVALID_VALUE;
  }
}

int32_t ScriptDevice::pool_set_attribute(int32_t attribute, uint64_t value) {
  print("pool_attribute " + decimal(attribute) + " " + decimal(value));
  if (attribute == kPoolReservedHigh) pool_reserved_.high = pool_reserved_.current;
  if (attribute == kPoolUsedHigh) pool_used_.high = pool_used_.current;
  return CACHALOT_DRIVER_SUCCESS;
}

int32_t ScriptDevice::pool_set_access(int32_t device, int32_t accessing_device) {
  const std::string both = " " + decimal(device) + " " + decimal(accessing_device);
  print("pool_access" + (devices_ > 1 ? both : ""));
  return CACHALOT_DRIVER_SUCCESS;
}

int32_t ScriptDevice::graph_get_attribute(int32_t attribute, uint64_t* out_value) const {
  switch (attribute) {
    case kGraphUsed:
      *out_value = graph_used_.current;
      return CACHALOT_DRIVER_SUCCESS;
    case kGraphUsedHigh:
      *out_value = graph_used_.high;
      return CACHALOT_DRIVER_SUCCESS;
    case kGraphReserved:
      *out_value = graph_reserved_.current;
      return CACHALOT_DRIVER_SUCCESS;
    case kGraphReservedHigh:
      *out_value = graph_reserved_.high;
      return CACHALOT_DRIVER_SUCCESS;
    default:
      return CACHALOT_DRIVER_INVALID_VALUE;
  }
}

int32_t ScriptDevice::graph_set_attribute(int32_t attribute, uint64_t value) {
  print("graph_attribute " + decimal(attribute) + " " + decimal(value));
  if (attribute == kGraphUsedHigh) graph_used_.high = graph_used_.current;
  if (attribute == kGraphReservedHigh) graph_reserved_.high = graph_reserved_.current;
  return CACHALOT_DRIVER_SUCCESS;
}

int32_t ScriptDevice::stream_create(cachalot_stream* out_stream) {
  *out_stream = last_stream_made_ += kStreamStep;
  return CACHALOT_DRIVER_SUCCESS;
}

int32_t ScriptDevice::stream_wait_event(cachalot_stream stream) {
  print_if_shown("waits", "stream_wait " + hex(stream));
  return CACHALOT_DRIVER_SUCCESS;
}

void ScriptDevice::add_pool_functions(cachalot_device_ops& ops) {
  ops.pool_allocate = [](void* user, int32_t, uint64_t size, cachalot_stream stream,
                         cachalot_address* out) {
    return of(user)->pool_allocate(size, stream, out);
  };
  ops.pool_free = [](void* user, int32_t, cachalot_address address, cachalot_stream stream) {
    return of(user)->pool_free(address, stream);
  };
  ops.pool_trim = [](void* user, int32_t, uint64_t keep) { return of(user)->pool_trim(keep); };
  ops.pool_get_attribute = [](void* user, int32_t, int32_t attribute, uint64_t* out) {
    return of(user)->pool_get_attribute(attribute, out);
  };
  ops.pool_set_attribute = [](void* user, int32_t, int32_t attribute, uint64_t value) {
    return of(user)->pool_set_attribute(attribute, value);
  };
  ops.pool_set_access = [](void* user, int32_t device, int32_t accessing) {
    return of(user)->pool_set_access(device, accessing);
  };
  ops.graph_get_attribute = [](void* user, int32_t, int32_t attribute, uint64_t* out) {
    return of(user)->graph_get_attribute(attribute, out);
  };
  ops.graph_set_attribute = [](void* user, int32_t, int32_t attribute, uint64_t value) {
    return of(user)->graph_set_attribute(attribute, value);
  };
  ops.stream_create = [](void* user, int32_t, cachalot_stream* out) {
    return of(user)->stream_create(out);
  };
  ops.stream_wait_event = [](void* user, int32_t, cachalot_stream stream, uint64_t) {
    return of(user)->stream_wait_event(stream);
  };
}

}  // namespace cachalot::differential
