// SPDX-License-Identifier: MIT OR Apache-2.0
// What all fuzzers expect of every failure.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <initializer_list>
#include <string>

#include "cachalot/cachalot.h"

namespace cachalot_test {

[[noreturn]] inline void fail(const char* what, const std::string& text = "") {
  std::fprintf(stderr, "DEFECT: %s: %s\n", what, text.c_str());
  std::abort();
}

inline void require(bool holds, const char* what, const std::string& text = "") {
  if (!holds) fail(what, text);
}

// A failure is of an expected kind, and says in one line what it is.
inline bool worked(cachalot_status status, const cachalot_error& error,
                   std::initializer_list<cachalot_status> expected) {
  if (status == CACHALOT_OK) return true;
  const std::string text = error.message;
  bool is_expected = false;
  for (const cachalot_status one : expected) is_expected = is_expected || one == status;
  require(is_expected, "an unexpected failure", text);
  require(error.status == status, "the record has another status", text);
  require(!text.empty(), "a failure without a text");
  require(status == CACHALOT_ERROR_OUT_OF_MEMORY || text.find('\n') == std::string::npos,
          "a failure with several lines", text);
  return false;
}

}  // namespace cachalot_test
