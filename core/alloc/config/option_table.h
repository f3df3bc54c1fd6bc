// SPDX-License-Identifier: MIT OR Apache-2.0
// The options that there are: one row each. docs/config.md describes the same rows in words.
#pragma once

#include <span>
#include <string_view>

#include "alloc/config/option_reader.h"
#include "alloc/config/options.h"
#include "alloc/config/rules.h"
#include "alloc/config/settings.h"

namespace cachalot {

// The settings that a string changes, and the receiver of its warnings.
struct OptionTarget {
  Settings& settings;
  const WarningSink& warn;
  const Wording& wording;

  void give_warning(const std::string& text) const {
    if (warn) warn(text);
  }
};

// A row of the table. Functions, not members: the table is constant data, and a row needs no state.
struct Option {
  std::string_view key;
  OptionPart part;
  // Takes the value of the option, checks it and stores it.
  void (*read)(OptionReader& reader, const OptionTarget& target);
  // Runs before a string is read; null: a string that does not name the option keeps its value
  // (max_non_split_rounding_mb is reset too, but later: options.cpp).
  void (*reset)(Settings& settings) = nullptr;
  // Without this rule the key is unknown; null: known in every release.
  bool Rules::*needs = nullptr;
};

// Every option, in the order of docs/config.md.
std::span<const Option> option_table();

// Null for a key that is unknown under these rules.
const Option* find_option(std::string_view key, const Rules& rules);

}  // namespace cachalot
