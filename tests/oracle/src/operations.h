// SPDX-License-Identifier: MIT OR Apache-2.0
// The words of a script and what each does. FORMAT.md describes them.
#pragma once
#include <string>
#include <unordered_map>

#include "arguments.h"

namespace oracle {

using Operation = void (*)(Arguments&);
using Operations = std::unordered_map<std::string, Operation>;

// Words that may stand before the allocator is set up, and that do not set it up.
const Operations& setup_operations();

// All other words that the release knows.
const Operations& operations();

void add_allocation_operations(Operations& operations);
void add_device_operations(Operations& operations);
void add_pool_operations(Operations& operations);
void add_settings_operations(Operations& operations);
void add_report_operations(Operations& operations);
#ifdef ORACLE_PINNED
void add_pinned_operations(Operations& operations);
#endif

}  // namespace oracle
