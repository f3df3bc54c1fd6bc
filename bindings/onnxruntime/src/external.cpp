// SPDX-License-Identifier: MIT OR Apache-2.0
// CUDA memory: the functions that ORT's CUDA provider takes by their addresses.
#include <atomic>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <mutex>

#include "cachalot/onnxruntime.h"
#include "error.h"
#include "failure.h"
#include "gate.h"

namespace cachalot::ort {
namespace {

// The one allocator behind the functions. Set while the gate is closed, read while it is open.
struct External {
  std::mutex mutex;
  bool is_open = false;
  Gate gate;
  cachalot_allocator* allocator = nullptr;
  Place place;

  External() {
    uint64_t live = 0;
    gate.close(&live);
  }
};

External& external() {
  static auto* const only = new External;  // never destroyed: ORT frees until the very end
  return *only;
}

struct ThreadPlace {
  bool is_set = false;
  Place place;
};
thread_local ThreadPlace of_thread;

Place place_now() { return of_thread.is_set ? of_thread.place : external().place; }

cachalot_status request(uint64_t size, cachalot_address* out, cachalot_error* error) {
  External& all = external();
  if (!all.gate.enter()) {
    fail(error, CACHALOT_ERROR_INVALID_STATE,
         "ONNX Runtime asks for %" PRIu64
         " bytes of CUDA memory, but no allocator is registered for it "
         "(cachalot_ort_external_register).",
         size);
    remember_failure(nullptr, size, {}, *error);
    return CACHALOT_ERROR_INVALID_STATE;
  }
  const Place place = place_now();
  const cachalot_status status =
      cachalot_allocate(all.allocator, size, place.device, place.stream, out, error);
  if (status == CACHALOT_OK) return status;
  remember_failure(all.allocator, size, place, *error);
  all.gate.leave();
  return status;
}

cachalot_status start(cachalot_allocator* allocator, const Place& place, cachalot_error* error) {
  const int32_t count = cachalot_driver_device_count(cachalot_allocator_driver(allocator));
  if (place.device < 0 || place.device >= count)
    return fail(error, CACHALOT_ERROR_INVALID_ARGUMENT, "There is no device %d: the driver has %d.",
                place.device, count);
  External& all = external();
  const std::lock_guard lock(all.mutex);
  if (all.is_open)
    return fail(error, CACHALOT_ERROR_INVALID_STATE,
                "An allocator is registered for ONNX Runtime's CUDA memory already; %" PRIu64
                " blocks of it are live.",
                all.gate.live());
  all.allocator = allocator;
  all.place = place;
  all.is_open = true;
  all.gate.open();
  return CACHALOT_OK;
}

cachalot_status end(cachalot_error* error) {
  External& all = external();
  const std::lock_guard lock(all.mutex);
  if (!all.is_open)
    return fail(error, CACHALOT_ERROR_INVALID_STATE,
                "No allocator is registered for ONNX Runtime's CUDA memory.");
  uint64_t live = 0;
  if (!all.gate.close(&live))
    return fail(
        error, CACHALOT_ERROR_INVALID_STATE,
        "ONNX Runtime has %" PRIu64 " live blocks of CUDA memory: close its sessions first.", live);
  all.is_open = false;
  return CACHALOT_OK;
}

struct Option {
  const char* name;
  char value[24];
};

template <typename Function>
void set_option(Option& option, const char* name, Function* function) {
  option.name = name;
  std::snprintf(option.value, sizeof option.value, "%" PRIuPTR,
                reinterpret_cast<uintptr_t>(function));
}

constexpr size_t kOptions = 3;

struct Options {
  Option rows[kOptions]{};

  Options() {
    set_option(rows[0], "gpu_external_alloc", cachalot_ort_external_alloc);
    set_option(rows[1], "gpu_external_free", cachalot_ort_external_free);
    set_option(rows[2], "gpu_external_empty_cache", cachalot_ort_external_empty_cache);
  }
};

}  // namespace
}  // namespace cachalot::ort

using namespace cachalot;
using namespace cachalot::ort;

cachalot_status cachalot_ort_external_register(cachalot_allocator* allocator, int32_t device,
                                               cachalot_stream stream, cachalot_error* error) {
  if (allocator == nullptr)
    return fail(error, CACHALOT_ERROR_INVALID_ARGUMENT, "The allocator is NULL.");
  return start(allocator, {device, stream}, error);
}

cachalot_status cachalot_ort_external_unregister(cachalot_error* error) { return end(error); }

void cachalot_ort_external_set_stream(int32_t device, cachalot_stream stream) {
  of_thread = {true, {device, stream}};
}

void cachalot_ort_external_unset_stream(void) { of_thread = {}; }

void* cachalot_ort_external_alloc(size_t size) {
  if (size == 0) return nullptr;
  cachalot_error error;
  start_error(error);
  cachalot_address address = 0;
  if (request(size, &address, &error) == CACHALOT_OK) return reinterpret_cast<void*>(address);
  // ORT says only that it got nothing.
  print_error("gpu_external_alloc", error);
  return nullptr;
}

void cachalot_ort_external_free(void* pointer) {
  if (pointer == nullptr) return;
  External& all = external();
  cachalot_error error;
  start_error(error);
  // Whoever has a block keeps the allocator there; who has none may be anybody.
  if (!all.gate.enter()) {
    fail(&error, CACHALOT_ERROR_INVALID_STATE, "no allocator is registered");
    return print_error("gpu_external_free", error);
  }
  const auto address = reinterpret_cast<cachalot_address>(pointer);
  if (cachalot_free(all.allocator, address, &error) == CACHALOT_OK) return all.gate.leave(2);
  all.gate.leave();
  print_error("gpu_external_free", error);
}

void cachalot_ort_external_empty_cache(void) {
  External& all = external();
  if (!all.gate.enter()) return;
  cachalot_error error;
  start_error(error);
  const cachalot_status status =
      cachalot_empty_device_cache(all.allocator, place_now().device, &error);
  if (status != CACHALOT_OK) print_error("gpu_external_empty_cache", error);
  all.gate.leave();
}

cachalot_status cachalot_ort_external_option_at(size_t index, const char** out_name,
                                                const char** out_value) {
  static const auto* const options = new Options;
  if (index >= kOptions || out_name == nullptr || out_value == nullptr)
    return CACHALOT_ERROR_INVALID_ARGUMENT;
  *out_name = options->rows[index].name;
  *out_value = options->rows[index].value;
  return CACHALOT_OK;
}
