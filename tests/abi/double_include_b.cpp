// SPDX-License-Identifier: MIT OR Apache-2.0
// The other half of the program of double_include_a.cpp: headers that define something would clash
// here.
#include "cachalot/cachalot.h"
#include "cachalot/cuda.h"
#include "cachalot/text.h"

const char* version_elsewhere() { return cachalot_version(); }
