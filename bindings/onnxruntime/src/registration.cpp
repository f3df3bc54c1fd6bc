// SPDX-License-Identifier: MIT OR Apache-2.0
// Registering with ORT's environment, and the way back.
#include <cinttypes>
#include <cstddef>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <utility>

#include "cachalot/onnxruntime.h"
#include "disabled.h"
#include "error.h"
#include "table.h"

// With it what ORT keeps of it: a reference to its environment.
struct cachalot_ort_allocator : cachalot::ort::Table {
  using Table::Table;
  OrtEnv* env = nullptr;
  cachalot::ort::MemoryKind kind = cachalot::ort::MemoryKind::kCpu;
  cachalot_ort_allocator* next = nullptr;
};

namespace cachalot::ort {
namespace {

// The version of ORT's interface that asks for memory by stream.
constexpr uint32_t kStreamsVersion = 23;

constexpr size_t kFirstOptions = offsetof(cachalot_ort_options, library) + sizeof(void*);
constexpr size_t kFirstInfo = offsetof(cachalot_ort_info, failures) + sizeof(uint64_t);

// ORT's environment is one a process, and so is this.
struct Registered {
  std::mutex mutex;
  cachalot_ort_allocator* now = nullptr;
  cachalot_ort_allocator* closed = nullptr;  // they stay reachable
};

Registered& registered() {
  static auto* const only = new Registered;  // never destroyed: sessions free until the very end
  return *only;
}

// Whether the driver's memory is of the kind; for pinned memory the driver is asked.
cachalot_status check_driver(cachalot_allocator* allocator, const cachalot_driver* driver,
                             MemoryKind kind, cachalot_error* error) {
  const char* const name = cachalot_driver_name(driver);
  const bool is_host = std::strcmp(name, "host") == 0;
  void* nothing = nullptr;
  switch (kind) {
    case MemoryKind::kCpu:
      if (is_host) return CACHALOT_OK;
      return fail(
          error, CACHALOT_ERROR_INVALID_ARGUMENT,
          "ONNX Runtime needs memory that the CPU can touch: the allocator's driver is '%s', "
          "not 'host'.",
          name);
    case MemoryKind::kCuda:
      if (!is_host) return CACHALOT_OK;
      return fail(error, CACHALOT_ERROR_INVALID_ARGUMENT,
                  "ONNX Runtime's CUDA provider needs memory of a GPU: the allocator's driver is "
                  "'host'.");
    case MemoryKind::kPinned:
      break;
  }
  return cachalot_pinned_allocate(allocator, 0, &nothing, error);
}

cachalot_status check_options(const cachalot_ort_options* options, MemoryKind kind,
                              cachalot_error* error) {
  if (options == nullptr || options->struct_size < kFirstOptions || options->allocator == nullptr)
    return fail(error, CACHALOT_ERROR_INVALID_ARGUMENT,
                "The options of cachalot_ort_register need a struct_size and an allocator.");
  cachalot_driver* const driver = cachalot_allocator_driver(options->allocator);
  const cachalot_status status = check_driver(options->allocator, driver, kind, error);
  if (status != CACHALOT_OK) return status;
  const int32_t count = cachalot_driver_device_count(driver);
  if (options->device >= 0 && options->device < count) return CACHALOT_OK;
  return fail(error, CACHALOT_ERROR_INVALID_ARGUMENT, "There is no device %d: the driver has %d.",
              options->device, count);
}

// One for each memory: newer versions of ORT let a second take the place of the first without a word.
cachalot_status check_is_free(const cachalot_ort_allocator* now, MemoryKind kind, int32_t device,
                              cachalot_error* error) {
  for (; now != nullptr; now = now->next) {
    if (now->kind != kind || (kind != MemoryKind::kCpu && now->device() != device)) continue;
    return fail(error, CACHALOT_ERROR_INVALID_STATE,
                "cachalot is registered with ONNX Runtime %s already; %" PRIu64
                " blocks of it are live.",
                now->runtime().version, now->gate().live());
  }
  return CACHALOT_OK;
}

OrtStatus* make_info(const OrtApi* api, MemoryKind kind, int32_t device, OrtMemoryInfo** out) {
  // ORT reserves the other type, OrtArenaAllocator, for its own arena.
  switch (kind) {
    case MemoryKind::kCpu:
      break;
    case MemoryKind::kCuda:
      return api->CreateMemoryInfo("Cuda", OrtDeviceAllocator, device, OrtMemTypeDefault, out);
    case MemoryKind::kPinned:
      return api->CreateMemoryInfo("CudaPinned", OrtDeviceAllocator, device, OrtMemTypeCPUOutput,
                                   out);
  }
  return api->CreateCpuMemoryInfo(OrtDeviceAllocator, OrtMemTypeDefault, out);
}

// The table and its memory info; both are ORT's to look at from here on, whatever fails later.
cachalot_status make(const Runtime& runtime, const cachalot_ort_options& options, MemoryKind kind,
                     cachalot_ort_allocator** out, cachalot_error* error) {
  const bool has_streams = kind != MemoryKind::kCpu;
  if (has_streams && runtime.api_version < kStreamsVersion)
    return fail(error, CACHALOT_ERROR_NOT_SUPPORTED,
                "ONNX Runtime %s does not say which stream it wants memory for: that takes "
                "1.%u or newer.",
                runtime.version, static_cast<unsigned>(kStreamsVersion));
  OrtMemoryInfo* info = nullptr;
  const cachalot_status status =
      check(runtime, make_info(runtime.api, kind, options.device, &info), error);
  if (status != CACHALOT_OK) return status;
  std::unique_ptr<Memory> memory = make_memory(kind, options.allocator, options.device);
  auto* const made = memory ? new (std::nothrow) cachalot_ort_allocator(runtime, std::move(memory),
                                                                        options.device, info)
                            : nullptr;
  if (made == nullptr) {
    runtime.api->ReleaseMemoryInfo(info);
    return fail(error, CACHALOT_ERROR_OUT_OF_HOST_MEMORY, "There is no memory for a registration.");
  }
  made->kind = kind;
  if (has_streams) made->follow_streams();
  *out = made;
  return CACHALOT_OK;
}

void unmake(const cachalot_ort_allocator* made) {
  made->runtime().api->ReleaseMemoryInfo(const_cast<OrtMemoryInfo*>(made->info()));
  delete made;
}

cachalot_status enter_environment(cachalot_ort_allocator* made, cachalot_error* error) {
  const OrtApi* const api = made->runtime().api;
  cachalot_status status = check(
      made->runtime(), api->CreateEnv(ORT_LOGGING_LEVEL_WARNING, "cachalot", &made->env), error);
  if (status != CACHALOT_OK) return status;
  status = check(made->runtime(), api->RegisterAllocator(made->env, made), error);
  if (status != CACHALOT_OK) api->ReleaseEnv(made->env);
  return status;
}

cachalot_status start(const cachalot_ort_options& options, MemoryKind kind,
                      cachalot_ort_allocator** out, cachalot_error* error) {
  Registered& all = registered();
  const std::lock_guard lock(all.mutex);
  cachalot_status status = check_is_free(all.now, kind, options.device, error);
  if (status != CACHALOT_OK) return status;
  Runtime runtime;
  status = find_runtime(options.library, &runtime, error);
  if (status != CACHALOT_OK) return status;
  cachalot_ort_allocator* made = nullptr;
  status = make(runtime, options, kind, &made, error);
  if (status != CACHALOT_OK) return status;
  status = enter_environment(made, error);
  if (status != CACHALOT_OK) {
    unmake(made);
    return status;
  }
  made->next = all.now;
  *out = all.now = made;
  return CACHALOT_OK;
}

cachalot_status end(cachalot_ort_allocator* ended, cachalot_error* error) {
  Registered& all = registered();
  const std::lock_guard lock(all.mutex);
  cachalot_ort_allocator** place = &all.now;
  while (*place != nullptr && *place != ended) place = &(*place)->next;
  if (*place == nullptr)
    return fail(error, CACHALOT_ERROR_INVALID_ARGUMENT, "This is not what is registered.");
  uint64_t live = 0;
  if (!ended->gate().close(&live))
    return fail(error, CACHALOT_ERROR_INVALID_STATE,
                "ONNX Runtime has %" PRIu64 " live blocks: close its sessions first.", live);
  const OrtApi* const api = ended->runtime().api;
  const cachalot_status status =
      check(ended->runtime(), api->UnregisterAllocator(ended->env, ended->info()), error);
  if (status != CACHALOT_OK) {
    ended->gate().open();
    return status;
  }
  api->ReleaseEnv(ended->env);
  ended->env = nullptr;
  *place = ended->next;
  ended->next = all.closed;
  all.closed = ended;
  return CACHALOT_OK;
}

cachalot_status try_to_start(const cachalot_ort_options* options, MemoryKind kind,
                             cachalot_ort_allocator** out_registered, cachalot_error* error) {
  if (out_registered != nullptr && is_disabled_for("ONNX Runtime")) {
    *out_registered = nullptr;
    return CACHALOT_OK;
  }
  const cachalot_status status = check_options(options, kind, error);
  if (status != CACHALOT_OK) return status;
  if (out_registered == nullptr)
    return fail(error, CACHALOT_ERROR_INVALID_ARGUMENT, "out_registered is NULL.");
  return start(*options, kind, out_registered, error);
}

}  // namespace
}  // namespace cachalot::ort

using cachalot::fail;
using cachalot::ort::MemoryKind;

cachalot_status cachalot_ort_register(const cachalot_ort_options* options,
                                      cachalot_ort_allocator** out_registered,
                                      cachalot_error* error) {
  return cachalot::ort::try_to_start(options, MemoryKind::kCpu, out_registered, error);
}

cachalot_status cachalot_ort_register_cuda(const cachalot_ort_options* options,
                                           cachalot_ort_allocator** out_registered,
                                           cachalot_error* error) {
  return cachalot::ort::try_to_start(options, MemoryKind::kCuda, out_registered, error);
}

cachalot_status cachalot_ort_register_pinned(const cachalot_ort_options* options,
                                             cachalot_ort_allocator** out_registered,
                                             cachalot_error* error) {
  return cachalot::ort::try_to_start(options, MemoryKind::kPinned, out_registered, error);
}

cachalot_status cachalot_ort_unregister(cachalot_ort_allocator* registered, cachalot_error* error) {
  return registered == nullptr ? CACHALOT_OK : cachalot::ort::end(registered, error);
}

OrtAllocator* cachalot_ort_get_table(cachalot_ort_allocator* registered) { return registered; }

cachalot_status cachalot_ort_get_info(const cachalot_ort_allocator* registered,
                                      cachalot_ort_info* out_info, cachalot_error* error) {
  if (registered == nullptr || out_info == nullptr ||
      out_info->struct_size < cachalot::ort::kFirstInfo)
    return fail(error, CACHALOT_ERROR_INVALID_ARGUMENT,
                "cachalot_ort_get_info needs what is registered, and a record with struct_size.");
  out_info->version = registered->runtime().version;
  out_info->library = registered->runtime().library;
  out_info->live_blocks = registered->gate().live();
  out_info->requests = registered->requests();
  out_info->reserves = registered->reserves();
  out_info->failures = registered->failures();
  return CACHALOT_OK;
}
