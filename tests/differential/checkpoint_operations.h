// SPDX-License-Identifier: MIT OR Apache-2.0
// The words of checkpoints.
#pragma once

#include "arguments.h"
#include "script.h"

namespace cachalot::differential {

void take_checkpoint(Script& script, Arguments& arguments);
// The reference frees blocks and restores segments in the order of a table of pointers, which differs from run to run.
// So the expected lines say the order, and the allocator is given it.
void restore_checkpoint(Script& script, Arguments& arguments);

}  // namespace cachalot::differential
