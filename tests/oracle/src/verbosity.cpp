// SPDX-License-Identifier: MIT OR Apache-2.0
#include "verbosity.h"

#include "fakecuda.h"
#include "release.h"

namespace oracle {

Verbosity verbosity;

void Verbosity::add(const std::string& word) {
  observer |= word == "observer";
  context |= word == "context";
  whole_text |= word == "whole_text";
  metadata |= word == "metadata";
  counter |= word == "counter";
  rejection |= SINCE(12) && word == "rejection";
  fakecuda::show(word);
}

}  // namespace oracle
