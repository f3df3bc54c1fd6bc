// SPDX-License-Identifier: MIT OR Apache-2.0
#include "device/cuda_library.h"

#include <dlfcn.h>

#include <iterator>
#include <string>

#include "base/error.h"
#include "base/text.h"

namespace cachalot::cuda {
namespace {

// By the loader's rules first; then where containers and WSL put it without telling the loader.
constexpr const char* kPaths[] = {"libcuda.so.1", "/usr/local/nvidia/lib64/libcuda.so.1",
                                  "/usr/lib/wsl/lib/libcuda.so.1"};

[[noreturn]] void throw_unavailable(const std::string& text) {
  throw Error(Status::kDriverUnavailable, text);
}

std::string version_text(int version) {
  return format("%d.%d", version / 1000, version % 1000 / 10);
}

void* open_file() {
  std::string problem;
  std::string tried;
  for (const char* path : kPaths) {
    if (void* const handle = dlopen(path, RTLD_NOW | RTLD_LOCAL)) return handle;
    // The first reason is the telling one: the others are guesses.
    if (problem.empty()) problem = dlerror();
    tried += (tried.empty() ? "" : ", ") + std::string(path);
  }
  throw_unavailable("no CUDA driver: " + problem + " (tried " + tried +
                    "); libcuda.so.1 is a part of the NVIDIA driver, and CUDA " +
                    version_text(kOldestVersion) + " or newer is needed");
}

void* find_loaded(const char* name) {
  if (void* const handle = dlopen(name, RTLD_NOW | RTLD_NOLOAD)) return handle;
  throw_unavailable(std::string(name) + " is not loaded");
}

template <class Function>
Function* find_symbol(void* handle, const char* name) {
  return reinterpret_cast<Function*>(dlsym(handle, name));
}

using GetProcAddress = Result(const char*, void**, int, uint64_t);
using GetProcAddressV2 = Result(const char*, void**, int, uint64_t, int*);

// Asks the driver for its functions by name and version.
class Symbols {
 public:
  Symbols(void* handle, int driver_version)
      : driver_version_(driver_version),
        first_(find_symbol<GetProcAddress>(handle, "cuGetProcAddress")),
        second_(find_symbol<GetProcAddressV2>(handle, "cuGetProcAddress_v2")) {}

  bool can_ask() const { return first_ != nullptr || second_ != nullptr; }

  // Streams mean what they do to a program that asked for nothing: handle 0 is the legacy stream.
  // A driver that is older than the form that is asked for would give an older form.
  void* get(const char* name, int version) const {
    if (version > driver_version_) return nullptr;
    void* function = nullptr;
    int status = 0;
    const Result code = second_ != nullptr
                            ? second_(name, &function, version, kProcAddressLegacyStream, &status)
                            : first_(name, &function, version, kProcAddressLegacyStream);
    return code == 0 ? function : nullptr;
  }

 private:
  int driver_version_;
  GetProcAddress* first_;
  GetProcAddressV2* second_;
};

// Fills `name` and remembers what is missing.
template <class Function>
void fill(const Symbols& symbols, const char* name, int version, Function** out,
          std::string* missing) {
  *out = reinterpret_cast<Function*>(symbols.get(name, version));
  if (*out == nullptr) *missing += (missing->empty() ? "" : ", ") + std::string(name);
}

// clang-format off
#define CACHALOT_FILL(name, version, ...) fill(symbols, #name, version, &functions.name, &missing);
// clang-format on

std::string fill_all(const Symbols& symbols, Functions& functions) {
  std::string missing;
  CACHALOT_CUDA_FUNCTIONS(CACHALOT_FILL)
  return missing;
}

// A group of functions: absent where the driver lacks one of them.
template <class Group, class FillAll>
void find_group(std::optional<Group>* out, FillAll fill_all) {
  Group functions;
  std::string missing;
  fill_all(functions, missing);
  if (missing.empty()) *out = functions;
}

void find_groups(const Symbols& symbols, Library* library) {
  find_group(&library->virtual_memory,
             [&](auto& functions, auto& missing) { CACHALOT_CUDA_VIRTUAL_MEMORY(CACHALOT_FILL) });
  find_group(&library->memory_pools,
             [&](auto& functions, auto& missing) { CACHALOT_CUDA_MEMORY_POOLS(CACHALOT_FILL) });
  find_group(&library->graph_edges,
             [&](auto& functions, auto& missing) { CACHALOT_CUDA_GRAPH_EDGES(CACHALOT_FILL) });
  find_group(&library->context_events,
             [&](auto& functions, auto& missing) { CACHALOT_CUDA_CONTEXT_EVENTS(CACHALOT_FILL) });
  find_group(&library->host_memory,
             [&](auto& functions, auto& missing) { CACHALOT_CUDA_HOST_MEMORY(CACHALOT_FILL) });
  find_group(&library->ipc,
             [&](auto& functions, auto& missing) { CACHALOT_CUDA_IPC(CACHALOT_FILL) });
  find_group(&library->gpu_uuid,
             [&](auto& functions, auto& missing) { CACHALOT_CUDA_GPU_UUID(CACHALOT_FILL) });
  find_group(&library->instance_uuid,
             [&](auto& functions, auto& missing) { CACHALOT_CUDA_INSTANCE_UUID(CACHALOT_FILL) });
}

#undef CACHALOT_FILL

// 0 where the driver does not say.
int driver_version(void* handle) {
  int version = 0;
  auto* const ask = find_symbol<Result(int*)>(handle, "cuDriverGetVersion");
  return ask != nullptr && ask(&version) == 0 ? version : 0;
}

void require_new_enough(int version, bool can_ask) {
  if (can_ask && version >= kOldestVersion) return;
  throw_unavailable("the CUDA driver is too old: it is for CUDA " + version_text(version) +
                    ", and " + version_text(kOldestVersion) + " or newer is needed");
}

void initialize(const Library& library) {
  const Result code = library.cuInit(0);
  if (code == 0) return;
  const char* text = nullptr;
  if (library.cuGetErrorString(code, &text) != 0 || text == nullptr) text = "unknown error";
  throw_unavailable(format("the CUDA driver cannot start: %s (cuInit gave %d)", text, code));
}

}  // namespace

Library open_library(const char* name) {
  void* const handle = name != nullptr ? find_loaded(name) : open_file();
  Library library;
  library.version = driver_version(handle);
  const Symbols symbols(handle, library.version);
  require_new_enough(library.version, symbols.can_ask());
  const std::string missing = fill_all(symbols, library);
  if (!missing.empty()) {
    throw_unavailable("the CUDA driver (CUDA " + version_text(library.version) + ") has no " +
                      missing);
  }
  find_groups(symbols, &library);
  initialize(library);
  return library;
}

const char* driver_text(const Library& library, Result code) {
  const char* text = nullptr;
  const bool is_known = library.cuGetErrorString(code, &text) == 0 && text != nullptr;
  return is_known ? text : "unknown error";
}

}  // namespace cachalot::cuda
