// SPDX-License-Identifier: MIT OR Apache-2.0
// The words of memory between processes; here both ends are this one.
#pragma once

#include "arguments.h"
#include "script.h"

namespace cachalot::differential {

void share_block(Script& script, Arguments& arguments);
void import_block(Script& script, Arguments& arguments);
void open_bytes(Script& script, Arguments& arguments);
void close_import(Script& script, Arguments& arguments);

}  // namespace cachalot::differential
