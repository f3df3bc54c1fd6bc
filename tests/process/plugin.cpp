// SPDX-License-Identifier: MIT OR Apache-2.0
// A plugin as a program loads it: with a static copy of the library that nobody else sees.
#include "plugin.h"

extern "C" __attribute__((visibility("default"))) void plugin_copy(LibraryCopy* out) {
  *out = own_copy();
}
