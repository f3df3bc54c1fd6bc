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

}  // namespace cachalot::pluggable
