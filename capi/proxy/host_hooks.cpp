// SPDX-License-Identifier: MIT OR Apache-2.0
// Memory of the host that the device can use.
#include "hooks.h"
#include "real_driver.h"
#include "recorded_call.h"

using namespace cachalot::proxy;

namespace {

Request locked(size_t size) { return {.entry = 'l', .size = size, .is_cacheable = false}; }

Result register_memory(cuMemHostRegister_form* call, void* memory, size_t size, unsigned flags) {
  return obtain({.entry = 'r', .size = size, .is_cacheable = false}, &memory,
                [&] { return call_real(call, memory, size, flags); });
}

}  // namespace

Result cuMemAllocHost(void** out, unsigned size) {
  return obtain(locked(size), out, [&] { return call_real(real().cuMemAllocHost, out, size); });
}
Result cuMemAllocHost_v2(void** out, size_t size) {
  return obtain(locked(size), out, [&] { return call_real(real().cuMemAllocHost_v2, out, size); });
}
Result cuMemHostAlloc(void** out, size_t size, unsigned flags) {
  return obtain(locked(size), out,
                [&] { return call_real(real().cuMemHostAlloc, out, size, flags); });
}
Result cuMemFreeHost(void* memory) {
  return give_back(memory, {.entry = 'l', .stream = {}},
                   [&] { return call_real(real().cuMemFreeHost, memory); });
}

Result cuMemHostRegister(void* memory, size_t size, unsigned flags) {
  return register_memory(real().cuMemHostRegister, memory, size, flags);
}
Result cuMemHostRegister_v2(void* memory, size_t size, unsigned flags) {
  return register_memory(real().cuMemHostRegister_v2, memory, size, flags);
}
Result cuMemHostUnregister(void* memory) {
  return give_back(memory, {.entry = 'r', .stream = {}},
                   [&] { return call_real(real().cuMemHostUnregister, memory); });
}
