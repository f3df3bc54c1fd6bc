// SPDX-License-Identifier: MIT OR Apache-2.0
// CACHALOT_DISABLE=1: a host keeps its own allocator (docs/operating.md).
#pragma once

namespace cachalot {

// Whether it is so; then a line says it of the host ("libtorch").
bool is_disabled_for(const char* host);

}  // namespace cachalot
