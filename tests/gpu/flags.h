// SPDX-License-Identifier: MIT OR Apache-2.0
// Command line of the GPU programs: --name value, each name at most once unless it is a list.
#pragma once

#include <charconv>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "check.h"

namespace gpu {

class Flags {
 public:
  Flags(int argc, char** argv) {
    for (int i = 1; i < argc; i += 2) {
      const std::string name = argv[i];
      if (name.rfind("--", 0) != 0) throw WrongCall("not an option: " + name);
      if (i + 1 == argc) throw WrongCall(name + " needs a value");
      given_.emplace_back(name.substr(2), argv[i + 1]);
    }
  }

  std::string text(const std::string& name, const std::string& otherwise) {
    const std::vector<std::string> values = list(name);
    if (values.size() > 1) throw WrongCall("--" + name + " is given twice");
    return values.empty() ? otherwise : values[0];
  }

  std::vector<std::string> list(const std::string& name) {
    known_.push_back(name);
    std::vector<std::string> values;
    for (const auto& [key, value] : given_) {
      if (key == name) values.push_back(value);
    }
    return values;
  }

  uint64_t number(const std::string& name, uint64_t otherwise) {
    return parse(name, text(name, std::to_string(otherwise)), false);
  }

  std::vector<uint64_t> numbers(const std::string& name) {
    std::vector<uint64_t> values;
    for (const std::string& value : list(name)) values.push_back(parse(name, value, false));
    return values;
  }

  // Bytes: 512, 64KiB, 256MiB, 8GiB.
  uint64_t size(const std::string& name, uint64_t otherwise) {
    return parse(name, text(name, std::to_string(otherwise)), true);
  }

  // To be called when all names have been asked for.
  void reject_unknown() const {
    for (const auto& [key, value] : given_) {
      bool found = false;
      for (const std::string& name : known_) found = found || name == key;
      if (!found) throw WrongCall("no such option: --" + key);
    }
  }

 private:
  static uint64_t parse(const std::string& name, const std::string& text, bool is_size) {
    uint64_t value = 0;
    const char* const end = text.data() + text.size();
    const auto [rest, error] = std::from_chars(text.data(), end, value);
    const std::string unit(rest, end);
    int shift = -1;
    if (unit.empty()) shift = 0;
    if (is_size && unit == "KiB") shift = 10;
    if (is_size && unit == "MiB") shift = 20;
    if (is_size && unit == "GiB") shift = 30;
    if (error != std::errc() || shift < 0 || value > (UINT64_MAX >> shift)) {
      throw WrongCall("--" + name + ": not a " + (is_size ? "size: " : "number: ") + text);
    }
    return value << shift;
  }

  std::vector<std::pair<std::string, std::string>> given_;
  std::vector<std::string> known_;
};

}  // namespace gpu
