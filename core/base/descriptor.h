// SPDX-License-Identifier: MIT OR Apache-2.0
// A descriptor of the system with an owner.
#pragma once

#include <utility>

namespace cachalot {

class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int number) : number_(number) {}  // below 0: none
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~Descriptor();
  // Of a process: it can be read once the process has ended. None where there is no such process, with errno.
  static Descriptor of_process(int process);

  bool is_open() const { return number_ >= 0; }
  int number() const { return number_; }

 private:
  int number_ = -1;
};

}  // namespace cachalot
