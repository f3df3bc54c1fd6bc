// SPDX-License-Identifier: MIT OR Apache-2.0
// The functions that the proxy exports.
#pragma once

#include "entry_points.h"

#define CACHALOT_EXPORTED(name, function, version, ...) \
  extern "C" [[gnu::visibility("default")]] cachalot::proxy::name##_form name;
CACHALOT_HOOKED(CACHALOT_EXPORTED)
#undef CACHALOT_EXPORTED
