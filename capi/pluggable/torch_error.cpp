// SPDX-License-Identifier: MIT OR Apache-2.0
// PyTorch's exception classes are found by their symbols in the libraries that the process has
// loaded. Nothing is taken from their layout but what the C++ ABI says of every class: the pointer
// to the table of virtual functions comes first. The object is built by PyTorch's own exported
// constructor of c10::Error in a buffer with room to spare; c10::OutOfMemoryError derives from it
// without members of its own, so that its table and type information make the difference.
#include "torch_error.h"

#include <cxxabi.h>
#include <dlfcn.h>

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

constexpr size_t kRoom = 1024;                      // c10::Error has 128 bytes in 2.11 and 2.15
constexpr size_t kTableStart = 2;                   // the functions follow two words
constexpr const char* kLibrary = "libc10_cuda.so";  // with libc10.so, which it is linked to

struct TorchClass {
  Construct construct = nullptr;
  std::type_info* type = nullptr;
  void** table = nullptr;  // NULL: the one that the constructor sets

  explicit operator bool() const { return construct != nullptr && type != nullptr; }
};

TorchClass find_class(TorchError kind) {
  // PyTorch's libraries are not in the global scope of a Python process.
  void* const library = dlopen(kLibrary, RTLD_LAZY | RTLD_NOLOAD);
  if (library == nullptr) return {};
  const auto find = [library](const char* name) { return dlsym(library, name); };
  TorchClass found;
  found.construct = reinterpret_cast<Construct>(find(kConstruct));
  if (kind == TorchError::kOther) {
    found.type = static_cast<std::type_info*>(find("_ZTIN3c105ErrorE"));
  } else {
    found.table = static_cast<void**>(find("_ZTVN3c1016OutOfMemoryErrorE"));
    if (found.table != nullptr)
      found.type = static_cast<std::type_info*>(find("_ZTIN3c1016OutOfMemoryErrorE"));
  }
  dlclose(library);  // takes back this reference only; whoever loaded it keeps it
  return found;
}

void destroy(void* thrown) { static_cast<std::exception*>(thrown)->~exception(); }

}  // namespace

void throw_torch_error(TorchError kind, const std::string& message) {
  const TorchClass torch = find_class(kind);
  if (!torch) return;
  void* const thrown = abi::__cxa_allocate_exception(kRoom);
  try {
    torch.construct(thrown, message, nullptr, nullptr);
  } catch (...) {
    abi::__cxa_free_exception(thrown);
    throw;
  }
  if (torch.table != nullptr) *static_cast<void***>(thrown) = torch.table + kTableStart;
  abi::__cxa_throw(thrown, torch.type, destroy);
}

}  // namespace cachalot::pluggable
