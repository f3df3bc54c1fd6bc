// SPDX-License-Identifier: MIT OR Apache-2.0
#include "runtime.h"

#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "cachalot/onnxruntime.h"
#include "error.h"

namespace cachalot::ort {
namespace {

using GetApiBase = const OrtApiBase* (*)();

constexpr const char* kEntry = "OrtGetApiBase";
constexpr const char* kLibraryName = "libonnxruntime";

GetApiBase entry_of(void* library) {
  return reinterpret_cast<GetApiBase>(::dlsym(library, kEntry));
}

// What has been seen among the loaded libraries. Nothing is opened while they are listed: that takes
// locks in another order than a thread that loads one.
struct Search {
  static constexpr int kMost = 4;
  int libraries = 0;
  int count = 0;
  char paths[kMost][4096] = {};
};

int look_at(dl_phdr_info* info, size_t, void* user_data) {
  auto* const search = static_cast<Search*>(user_data);
  search->libraries++;
  const char* const slash = std::strrchr(info->dlpi_name, '/');
  const char* const name = slash != nullptr ? slash + 1 : info->dlpi_name;
  if (std::strncmp(name, kLibraryName, std::strlen(kLibraryName)) == 0 &&
      search->count < Search::kMost)
    std::snprintf(search->paths[search->count++], sizeof search->paths[0], "%s", info->dlpi_name);
  return 0;
}

// The entry of a library that is loaded, maybe for its user alone; NULL if it has none.
GetApiBase entry_at(const char* path) {
  void* const library = ::dlopen(path, RTLD_NOW | RTLD_NOLOAD);
  if (library == nullptr) return nullptr;
  const GetApiBase entry = entry_of(library);
  ::dlclose(library);
  return entry;
}

const char* path_of(GetApiBase entry, const void** base) {
  Dl_info info{};
  if (::dladdr(reinterpret_cast<const void*>(entry), &info) == 0) return "";
  *base = info.dli_fbase;
  return info.dli_fname;
}

cachalot_status find_loaded(GetApiBase* out, cachalot_error* error) {
  *out = entry_of(RTLD_DEFAULT);
  if (*out != nullptr) return CACHALOT_OK;
  Search search;
  ::dl_iterate_phdr(look_at, &search);
  for (int i = 0; i < search.count; i++) {
    const GetApiBase entry = entry_at(search.paths[i]);
    if (entry == nullptr || entry == *out) continue;
    if (*out == nullptr) {
      *out = entry;
      continue;
    }
    const void* base = nullptr;
    return fail(error, CACHALOT_ERROR_INVALID_STATE,
                "2 libraries of ONNX Runtime are loaded, %s and %s: name the path of one.",
                path_of(*out, &base), path_of(entry, &base));
  }
  if (*out != nullptr) return CACHALOT_OK;
  return fail(
      error, CACHALOT_ERROR_INVALID_STATE,
      "No ONNX Runtime is loaded: of the %d libraries of this process none is a %s*.so with "
      "%s. Load it first, or name its path.",
      search.libraries, kLibraryName, kEntry);
}

cachalot_status load(const char* path, GetApiBase* out, cachalot_error* error) {
  void* const library = ::dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    return fail(error, CACHALOT_ERROR_INVALID_ARGUMENT, "ONNX Runtime can not be loaded: %s",
                ::dlerror());
  }
  *out = entry_of(library);
  if (*out != nullptr) return CACHALOT_OK;
  ::dlclose(library);
  return fail(error, CACHALOT_ERROR_INVALID_ARGUMENT, "%s is no ONNX Runtime: it has no %s.", path,
              kEntry);
}

// ORT 1.N has version N of its interface, and says no more about a later one than a line on the
// standard error output, so it is not asked for one.
uint32_t api_version_of(const char* version) {
  unsigned major = 0;
  unsigned minor = 0;
  if (std::sscanf(version, "%u.%u", &major, &minor) != 2) return 0;
  return major == 1 ? std::min<uint32_t>(minor, ORT_API_VERSION) : ORT_API_VERSION;
}

}  // namespace

cachalot_status find_runtime(const char* path, Runtime* out, cachalot_error* error) {
  GetApiBase entry = nullptr;
  const cachalot_status status =
      path != nullptr ? load(path, &entry, error) : find_loaded(&entry, error);
  if (status != CACHALOT_OK) return status;
  const OrtApiBase* const base = entry();
  Runtime found;
  found.version = base->GetVersionString();
  found.library = path_of(entry, &found.base);
  // It must stay, whatever who has loaded it does. A program that contains it has no path to open.
  (void)::dlopen(found.library, RTLD_NOW | RTLD_NOLOAD);
  found.api_version = api_version_of(found.version);
  if (found.api_version >= CACHALOT_ORT_OLDEST_API) found.api = base->GetApi(found.api_version);
  if (found.api == nullptr) {
    return fail(error, CACHALOT_ERROR_NOT_SUPPORTED,
                "ONNX Runtime %s is too old: its interface has version %u, and %d is needed (%s).",
                found.version, static_cast<unsigned>(found.api_version), CACHALOT_ORT_OLDEST_API,
                found.library);
  }
  *out = found;
  return CACHALOT_OK;
}

bool is_inside(const Runtime& runtime, const void* code) {
  Dl_info info{};
  return ::dladdr(code, &info) != 0 && info.dli_fbase == runtime.base;
}

cachalot_status check(const Runtime& runtime, OrtStatus* status, cachalot_error* error) {
  if (status == nullptr) return CACHALOT_OK;
  const cachalot_status result = fail(error, CACHALOT_ERROR_INVALID_STATE, "ONNX Runtime %s: %s",
                                      runtime.version, runtime.api->GetErrorMessage(status));
  runtime.api->ReleaseStatus(status);
  return result;
}

}  // namespace cachalot::ort
