// SPDX-License-Identifier: MIT OR Apache-2.0
// PyTorch's exception classes are found by their symbols in the libraries that the process has
// loaded. Nothing is taken from their layout but what the C++ ABI says of every class: the pointer
// to the table of virtual functions comes first. The object is built by PyTorch's own exported
// constructor of c10::Error in a buffer with room to spare; c10::OutOfMemoryError derives from it
// without members of its own, so that its table and type information make the difference.
#include "torch_error.h"

#include <cxxabi.h>
#include <dlfcn.h>

#include <atomic>
#include <cstddef>
#include <exception>
#include <memory>
#include <typeinfo>

namespace cachalot::pluggable {
namespace {

// c10::Error(std::string message, std::shared_ptr<...> backtrace, const void* caller); a shared_ptr
// is passed alike whatever it points to.
using Construct = void (*)(void* self, std::string, std::shared_ptr<const void>, const void*);

constexpr const char* kConstruct =
    "_ZN3c105ErrorC2ENSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE"
    "St10shared_ptrIKNS_9LazyValueIS6_EEEPKv";

constexpr const char* kErrorType = "_ZTIN3c105ErrorE";
constexpr const char* kOutOfMemoryTable = "_ZTVN3c1016OutOfMemoryErrorE";
constexpr const char* kOutOfMemoryType = "_ZTIN3c1016OutOfMemoryErrorE";

constexpr size_t kRoom = 1024;                      // c10::Error has 128 bytes in 2.11 and 2.15
constexpr size_t kTableStart = 2;                   // the functions follow two words
constexpr const char* kLibrary = "libc10_cuda.so";  // with libc10.so, which it is linked to

// Null: none was chosen.
constinit std::atomic<const TorchErrors*> chosen{nullptr};

// PyTorch's libraries are not in the global scope of a Python process.
TorchErrors find_loaded() {
  TorchErrors errors;
  void* const library = dlopen(kLibrary, RTLD_LAZY | RTLD_NOLOAD);
  if (library == nullptr) return errors;
  find_torch_errors(library, &errors);
  dlclose(library);  // this reference only; whoever loaded it keeps it
  return errors;
}

TorchErrors current() {
  const TorchErrors* const errors = chosen.load(std::memory_order_acquire);
  return errors != nullptr ? *errors : find_loaded();
}

void destroy(void* thrown) { static_cast<std::exception*>(thrown)->~exception(); }

}  // namespace

void throw_torch_error(TorchError kind, const std::string& message) {
  const TorchErrors torch = current();
  const bool is_plain = kind == TorchError::kOther;
  void* const type = is_plain ? torch.error_type : torch.out_of_memory_type;
  if (torch.construct == nullptr || type == nullptr) return;
  void** const table = static_cast<void**>(torch.out_of_memory_table);
  if (!is_plain && table == nullptr) return;
  void* const thrown = abi::__cxa_allocate_exception(kRoom);
  try {
    reinterpret_cast<Construct>(torch.construct)(thrown, message, nullptr, nullptr);
  } catch (...) {
    abi::__cxa_free_exception(thrown);
    throw;
  }
  if (!is_plain) *static_cast<void***>(thrown) = table + kTableStart;
  abi::__cxa_throw(thrown, static_cast<std::type_info*>(type), destroy);
}

const char* find_torch_errors(void* library, TorchErrors* out) {
  const char* missing = nullptr;
  const auto find = [&](const char* name, void** symbol) {
    *symbol = dlsym(library, name);
    if (*symbol == nullptr && missing == nullptr) missing = name;
  };
  find(kConstruct, &out->construct);
  find(kErrorType, &out->error_type);
  find(kOutOfMemoryTable, &out->out_of_memory_table);
  find(kOutOfMemoryType, &out->out_of_memory_type);
  return missing;
}

void choose_torch_errors(const TorchErrors& errors) {
  static constinit TorchErrors kept;
  kept = errors;
  chosen.store(&kept, std::memory_order_release);
}

}  // namespace cachalot::pluggable
