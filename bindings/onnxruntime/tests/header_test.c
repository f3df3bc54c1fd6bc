/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The header compiles alone, as C99. */
#include "cachalot/onnxruntime.h"

typedef int cachalot_ort_header_test_ends_in_a_declaration;
