// SPDX-License-Identifier: MIT OR Apache-2.0
// Errors as PyTorch's own C++ exceptions, without linking PyTorch.
#pragma once

#include <string>

namespace cachalot::pluggable {

enum class TorchError { kOutOfMemory, kOther };

// Throws c10::OutOfMemoryError, or c10::Error for kOther, which Python sees as
// torch.OutOfMemoryError and RuntimeError. Returns only if this process has no PyTorch whose
// classes can be found. Must be called with PyTorch's frames above that let exceptions through.
void throw_torch_error(TorchError kind, const std::string& message);

// The exception classes of one PyTorch, by their symbols; null: it lacks that one.
struct TorchErrors {
  void* construct = nullptr;  // the constructor of c10::Error
  void* error_type = nullptr;
  void* out_of_memory_table = nullptr;
  void* out_of_memory_type = nullptr;
};

// Finds them in a library and in those that it depends on. Returns the first symbol that is missing; null: none is.
const char* find_torch_errors(void* library, TorchErrors* out);

// From here on these are thrown, whose library has to stay loaded. Without this call they are those of libc10_cuda.so,
// looked for at each throw. At most once, before there is something to throw.
void choose_torch_errors(const TorchErrors& errors);

}  // namespace cachalot::pluggable
