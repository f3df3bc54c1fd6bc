// SPDX-License-Identifier: MIT OR Apache-2.0
// The words of one script line behind the first.
#pragma once
#include <c10/core/CachingDeviceAllocator.h>

#include <cstdint>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace oracle {

class Arguments {
 public:
  explicit Arguments(const std::string& line) : in_(line) {}

  // A missing or malformed argument gives an empty word or 0.
  std::string word();
  std::vector<std::string> words();
  std::string rest();
  // A stream or an address.
  uint64_t hex();
  // `N` is pool (0,N), `gN` is pool (N,0), one that a graph made for itself.
  c10::MempoolId_t pool();

  template <class Number>
  Number number() {
    return next_number<Number>().value_or(0);
  }
  template <class Number>
  std::optional<Number> next_number() {
    Number value = 0;
    if (in_ >> value) return value;
    return std::nullopt;
  }
  long id() { return number<long>(); }

 private:
  std::istringstream in_;
};

}  // namespace oracle
