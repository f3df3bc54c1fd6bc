// SPDX-License-Identifier: MIT OR Apache-2.0
// A libc10_cuda.so with PyTorch's exception classes alone.
#include <c10/util/Exception.h>

#include <utility>

namespace c10 {

int Error::live = 0;

Error::Error(std::string message, std::shared_ptr<const LazyValue<std::string>> backtrace,
             const void* caller)
    : message_(std::move(message)) {
  if (backtrace == nullptr && caller == nullptr) ++live;
}

Error::~Error() { --live; }

const char* Error::what() const noexcept { return message_.c_str(); }

const char* Error::what_without_backtrace() const noexcept { return message_.c_str(); }

OutOfMemoryError::~OutOfMemoryError() = default;

}  // namespace c10
