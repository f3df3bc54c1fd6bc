// SPDX-License-Identifier: MIT OR Apache-2.0
// The stacks of a recording as texts, with the names of functions.
#pragma once

#include <string>

#include "cachalot/cachalot.h"

namespace cachalot::cli {

// Lines of a trace (`# label`) that say what the contexts with stacks mean; "" if it has none.
std::string labels_of_stacks(const cachalot_trace* trace);

}  // namespace cachalot::cli
