// SPDX-License-Identifier: MIT OR Apache-2.0
// Python's pickles of plain values: dictionaries, lists, tuples, texts, bytes, numbers, None. Nothing in a pickle is
// executed: what would name a class or call a function is refused.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cachalot::cli {

// A value, which refers to the pickle that it is of.
struct PickleValue {
  enum class Kind : uint8_t {
    kNone,
    kBool,
    kInteger,   // 0 or more
    kNegative,  // an integer
    kReal,
    kText,
    kBytes,
    kList,
    kTuple,
    kDict,
  };

  Kind kind = Kind::kNone;
  uint32_t length = 0;  // of a text, in bytes
  union {
    uint64_t number = 0;
    double real;
    const char* text;
    size_t container;  // which one
  };

  bool is_text() const { return kind == Kind::kText; }
  bool is_sequence() const { return kind == Kind::kList || kind == Kind::kTuple; }
  bool is_dict() const { return kind == Kind::kDict; }
  bool is_true() const { return kind == Kind::kBool && number != 0; }
  // "" of what is no text.
  std::string_view as_text() const { return is_text() ? std::string_view(text, length) : ""; }
  // None of what is no integer from 0 on.
  std::optional<uint64_t> as_number() const;
};

// Protocols 2 to 5. Time and memory grow with the bytes of the pickle: equal values that it writes once are kept once.
class Pickle {
 public:
  // Throws Failure with the number of the byte.
  explicit Pickle(std::string bytes);
  Pickle(const Pickle&) = delete;
  Pickle& operator=(const Pickle&) = delete;

  size_t size() const { return bytes_.size(); }
  const PickleValue& root() const { return root_; }
  // Of a list or tuple; of a dictionary each key with its value behind it; of anything else nothing.
  std::span<const PickleValue> items(const PickleValue& value) const;

 private:
  class Machine;

  std::string bytes_;
  std::vector<std::vector<PickleValue>> containers_;
  PickleValue root_;
};

}  // namespace cachalot::cli
