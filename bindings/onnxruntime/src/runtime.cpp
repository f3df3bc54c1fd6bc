// SPDX-License-Identifier: MIT OR Apache-2.0
#include "runtime.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "cachalot/onnxruntime.h"
#include "error.h"
#include "loaded_libraries.h"

namespace cachalot::ort {
namespace {

constexpr const char* kEntry = "OrtGetApiBase";
// What the names of the libraries begin with that ORT loads for its providers.
constexpr const char* kProviders = "libonnxruntime_providers_";

// An ORT, and what keeps it loaded.
struct Found {
  LibraryHandle handle{nullptr, ::dlclose};
  const OrtApiBase* base = nullptr;
};

Found look_into(LibraryHandle handle) {
  Found found{std::move(handle)};
  if (found.handle == nullptr) return found;
  const auto entry = reinterpret_cast<const OrtApiBase* (*)()>(::dlsym(found.handle.get(), kEntry));
  if (entry != nullptr) found.base = entry();
  return found;
}

// Where it lies. Its own function says so: the address of its entry may be one in the program.
Dl_info place_of(const OrtApiBase* base) {
  Dl_info info{};
  if (::dladdr(reinterpret_cast<const void*>(base->GetApi), &info) == 0) info.dli_fname = "";
  return info;
}

cachalot_status find_loaded(Found* out, cachalot_error* error) {
  std::vector<std::string> names;
  if (!list_loaded_libraries(&names))
    return fail(error, CACHALOT_ERROR_OUT_OF_HOST_MEMORY,
                "There is no memory for a list of the loaded libraries.");
  for (const std::string& name : names) {
    Found found = look_into(reopen_library(name));
    if (found.base == nullptr || found.base == out->base) continue;
    if (out->base == nullptr) {
      *out = std::move(found);
      continue;
    }
    return fail(error, CACHALOT_ERROR_INVALID_STATE,
                "2 libraries of ONNX Runtime are loaded, %s and %s: name the path of one.",
                place_of(out->base).dli_fname, place_of(found.base).dli_fname);
  }
  if (out->base != nullptr) return CACHALOT_OK;
  return fail(
      error, CACHALOT_ERROR_INVALID_STATE,
      "No ONNX Runtime is loaded: of the %zu libraries of this process none has %s. Load it "
      "first, or name its path.",
      names.size(), kEntry);
}

cachalot_status load(const char* path, Found* out, cachalot_error* error) {
  *out = look_into(open_library(path, RTLD_NOW | RTLD_LOCAL));
  if (out->base != nullptr) return CACHALOT_OK;
  if (out->handle == nullptr)
    return fail(error, CACHALOT_ERROR_INVALID_ARGUMENT, "ONNX Runtime cannot be loaded: %s",
                ::dlerror());
  return fail(error, CACHALOT_ERROR_INVALID_ARGUMENT, "%s is no ONNX Runtime: it has no %s.", path,
              kEntry);
}

// ORT 1.N has version N of its interface, and says no more about a later one than a line on the
// standard error output, so it is not asked for one.
uint32_t api_version_of(const char* version) {
  unsigned major = 0;
  unsigned minor = 0;
  if (std::sscanf(version, "%u.%u", &major, &minor) != 2) return 0;
  if (major == 1) return std::min<uint32_t>(minor, ORT_API_VERSION);
  return major > 1 ? ORT_API_VERSION : 0;
}

}  // namespace

cachalot_status find_runtime(const char* path, Runtime* out, cachalot_error* error) {
  Found found;
  const cachalot_status status =
      path != nullptr ? load(path, &found, error) : find_loaded(&found, error);
  if (status != CACHALOT_OK) return status;
  const Dl_info place = place_of(found.base);
  Runtime runtime;
  runtime.version = found.base->GetVersionString();
  runtime.library = place.dli_fname;
  runtime.base = place.dli_fbase;
  runtime.api_version = api_version_of(runtime.version);
  if (runtime.api_version < CACHALOT_ORT_OLDEST_API)
    return fail(error, CACHALOT_ERROR_NOT_SUPPORTED,
                "ONNX Runtime %s is too old: its interface has version %u, and %d is needed (%s).",
                runtime.version, static_cast<unsigned>(runtime.api_version),
                CACHALOT_ORT_OLDEST_API, runtime.library);
  runtime.api = found.base->GetApi(runtime.api_version);
  if (runtime.api == nullptr)
    return fail(error, CACHALOT_ERROR_NOT_SUPPORTED,
                "ONNX Runtime %s does not have version %u of its interface (%s).", runtime.version,
                static_cast<unsigned>(runtime.api_version), runtime.library);
  // It must stay, whatever who has loaded it does. A program that contains it has no path to open.
  const LibraryHandle kept = open_library(runtime.library, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
  *out = runtime;
  return CACHALOT_OK;
}

bool bears_exceptions(const Runtime& runtime, const void* code) {
  Dl_info info{};
  if (::dladdr(code, &info) == 0) return false;
  if (info.dli_fbase == runtime.base) return true;
  const char* const slash = std::strrchr(info.dli_fname, '/');
  const char* const name = slash != nullptr ? slash + 1 : info.dli_fname;
  return std::strncmp(name, kProviders, std::strlen(kProviders)) == 0;
}

cachalot_status check(const Runtime& runtime, OrtStatus* status, cachalot_error* error) {
  if (status == nullptr) return CACHALOT_OK;
  const cachalot_status result = fail(error, CACHALOT_ERROR_INVALID_STATE, "ONNX Runtime %s: %s",
                                      runtime.version, runtime.api->GetErrorMessage(status));
  runtime.api->ReleaseStatus(status);
  return result;
}

}  // namespace cachalot::ort
