// SPDX-License-Identifier: MIT OR Apache-2.0
#include "torch.h"

#include <cxxabi.h>
#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "error.h"
#include "loaded_libraries.h"

namespace cachalot::libtorch {
namespace {

// A function of each libtorch, with CUDA or without: c10::GetCPUAllocator.
constexpr const char* kAny = "_ZN3c1015GetCPUAllocatorEv";

#define NAMESPACE "_ZN5torch4cuda22CUDAPluggableAllocator"
#define MEMBER NAMESPACE "22CUDAPluggableAllocator"
// That of each libtorch with CUDA that takes other allocators.
constexpr const char* kChangeCurrent = NAMESPACE
    "22changeCurrentAllocatorERKSt10shared_ptrIN3c104cuda20CUDACachingAllocator13CUDAAllocatorEE";

std::string readable(const char* symbol) {
  const std::unique_ptr<char, decltype(&std::free)> text(
      abi::__cxa_demangle(symbol, nullptr, nullptr, nullptr), std::free);
  return text != nullptr ? text.get() : symbol;
}

// The path of the library that an address lies in.
const char* library_of(const void* address) {
  Dl_info info{};
  return ::dladdr(address, &info) != 0 && info.dli_fname != nullptr ? info.dli_fname : "";
}

struct Found {
  LibraryHandle handle{nullptr, ::dlclose};
  const void* change_current = nullptr;
};

cachalot_status report_none(const std::vector<std::string>& names, const std::string& without_cuda,
                            cachalot_error* error) {
  if (without_cuda.empty())
    return fail(
        error, CACHALOT_ERROR_INVALID_STATE,
        "No libtorch is loaded: of the %zu libraries of this process none has %s. Load it first.",
        names.size(), readable(kAny).c_str());
  return fail(error, CACHALOT_ERROR_INVALID_STATE,
              "libtorch is loaded without CUDA (%s): of the %zu libraries of this process none has "
              "torch::cuda::CUDAPluggableAllocator::changeCurrentAllocator. Load libtorch_cuda.so "
              "first; a program that is linked to it keeps it by -Wl,--no-as-needed.",
              without_cuda.c_str(), names.size());
}

cachalot_status find_loaded(Found* out, cachalot_error* error) {
  std::vector<std::string> names;
  if (!list_loaded_libraries(&names))
    return fail(error, CACHALOT_ERROR_OUT_OF_HOST_MEMORY,
                "There is no memory for a list of the loaded libraries.");
  std::string without_cuda;
  // The program itself comes last: what it has may be a table's entry for a function of a library.
  std::reverse(names.begin(), names.end());
  for (const std::string& name : names) {
    if (name.empty() && out->change_current != nullptr) continue;
    LibraryHandle handle = reopen_library(name);
    if (handle == nullptr) continue;
    if (const void* const any = ::dlsym(handle.get(), kAny); any != nullptr)
      without_cuda = library_of(any);
    const void* const found = ::dlsym(handle.get(), kChangeCurrent);
    if (found == nullptr || found == out->change_current) continue;
    if (out->change_current != nullptr)
      return fail(error, CACHALOT_ERROR_INVALID_STATE,
                  "2 libraries of libtorch are loaded, %s and %s.", library_of(out->change_current),
                  library_of(found));
    *out = {std::move(handle), found};
  }
  return out->change_current != nullptr ? CACHALOT_OK : report_none(names, without_cuda, error);
}

// Looks symbols up, and notes the first that is missing.
class Symbols {
 public:
  explicit Symbols(void* library) : library_(library) {}

  template <class Function>
  void find(const char* symbol, Function* out) {
    *out = reinterpret_cast<Function>(::dlsym(library_, symbol));
    if (*out == nullptr && missing_ == nullptr) missing_ = symbol;
  }

  const char* missing() const { return missing_; }

 private:
  void* library_;
  const char* missing_ = nullptr;
};

// Returns the first symbol that is missing; null: none is.
const char* find_functions(void* library, Functions* out) {
  Symbols symbols(library);
  symbols.find(NAMESPACE
               "21createCustomAllocatorESt8functionIFPvmiP11CUstream_stEES2_IFvS3_miS5_EE",
               &out->create);
  symbols.find(kChangeCurrent, &out->change_current);
  symbols.find(MEMBER "11set_init_fnESt8functionIFviEE", &out->set_init);
  symbols.find(MEMBER "12set_reset_fnESt8functionIFvvEE", &out->set_reset);
  symbols.find(MEMBER "22set_memory_fraction_fnESt8functionIFvdiEE", &out->set_memory_fraction);
  symbols.find(MEMBER "17set_base_alloc_fnESt8functionIFPvS4_PmEE", &out->set_base_alloc);
  symbols.find(MEMBER "20set_record_stream_fnESt8functionIFvPvP11CUstream_stEE",
               &out->set_record_stream);
  symbols.find(MEMBER
               "26set_begin_allocate_to_poolESt8functionIFviSt4pairIyyES3_IFbP11CUstream_stEEEE",
               &out->set_begin_allocate_to_pool);
  symbols.find(MEMBER "27set_end_allocate_to_pool_fnESt8functionIFviSt4pairIyyEEE",
               &out->set_end_allocate_to_pool);
  symbols.find(MEMBER "16set_release_poolESt8functionIFviSt4pairIyyEEE", &out->set_release_pool);
  return symbols.missing();
}

#undef MEMBER
#undef NAMESPACE

// PyTorch's number has a byte each for the first three.
void read_version(void* library, Torch* out) {
  const auto number_of =
      reinterpret_cast<uint64_t (*)()>(::dlsym(library, "aoti_torch_abi_version"));
  if (number_of == nullptr) return;
  const uint64_t number = number_of();
  out->major = static_cast<int32_t>(number >> 56 & 0xff);
  out->minor = static_cast<int32_t>(number >> 48 & 0xff);
  out->patch = static_cast<int32_t>(number >> 40 & 0xff);
}

// c10::Error's constructor with the older std::string.
constexpr const char* kOldConstruct = "_ZN3c105ErrorC2ESsSt10shared_ptrIKNS_9LazyValueISsEEEPKv";

cachalot_status report_unknown(void* library, const Torch& torch, const char* missing,
                               cachalot_error* error) {
  if (::dlsym(library, kOldConstruct) != nullptr)
    return fail(error, CACHALOT_ERROR_NOT_SUPPORTED,
                "%s was built with _GLIBCXX_USE_CXX11_ABI=0, the older layout of std::string: "
                "cachalot needs a build with the newer one (\"cxx11 ABI\").",
                torch.name().c_str());
  return fail(error, CACHALOT_ERROR_NOT_SUPPORTED, "cachalot does not know %s: it has no %s.",
              torch.name().c_str(), readable(missing).c_str());
}

}  // namespace

std::string Torch::name() const {
  std::string text = "libtorch ";
  if (major != 0)
    text += std::to_string(major) + "." + std::to_string(minor) + "." + std::to_string(patch) + " ";
  return text + "(" + library + ")";
}

int32_t Torch::release() const {
  const int32_t number = 100 * major + minor;
  return number == CACHALOT_RELEASE_2_11 || number == CACHALOT_RELEASE_2_15 ? number : 0;
}

cachalot_status find_torch(Torch* out, cachalot_error* error) {
  Found found;
  const cachalot_status status = find_loaded(&found, error);
  if (status != CACHALOT_OK) return status;
  out->library = library_of(found.change_current);
  read_version(found.handle.get(), out);
  const char* missing = find_functions(found.handle.get(), &out->functions);
  if (missing == nullptr) missing = pluggable::find_torch_errors(found.handle.get(), &out->errors);
  if (missing != nullptr) return report_unknown(found.handle.get(), *out, missing, error);
  // It must stay, whatever becomes of whoever has loaded it. A program that contains it has no path to open.
  const LibraryHandle kept = open_library(out->library, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
  return CACHALOT_OK;
}

}  // namespace cachalot::libtorch
