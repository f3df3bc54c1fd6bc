// SPDX-License-Identifier: MIT OR Apache-2.0
// Stands in for PyTorch's header of this name: the two exception classes, with the signatures that
// PyTorch exports, and nothing else of it.
#pragma once

#include <exception>
#include <memory>
#include <string>

namespace c10 {

template <class T>
class LazyValue;

class Error : public std::exception {
 public:
  explicit Error(std::string message, std::shared_ptr<const LazyValue<std::string>> backtrace,
                 const void* caller);
  ~Error() override;
  const char* what() const noexcept override;
  virtual const char* what_without_backtrace() const noexcept;

  static int live;

 private:
  std::string message_;
};

class OutOfMemoryError : public Error {
 public:
  using Error::Error;
  ~OutOfMemoryError() override;
};

}  // namespace c10
