// SPDX-License-Identifier: MIT OR Apache-2.0
// Why a command could not be carried out, and the exit codes of the program.
#pragma once

#include <stdexcept>

#include "cachalot/status.h"

namespace cachalot::cli {

enum ExitCode : int {
  kAsExpected = 0,
  kDifferent = 1,  // the replay is not the recorded run
  kFailed = 2,     // the input or the call is wrong
};

// One line that tells the user what is wrong.
class Failure : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

inline void check(cachalot_status status, const cachalot_error& error) {
  if (status != CACHALOT_OK) throw Failure(error.message);
}

// For calls that fill no error.
inline void check(cachalot_status status) {
  if (status != CACHALOT_OK) throw Failure(cachalot_status_name(status));
}

}  // namespace cachalot::cli
