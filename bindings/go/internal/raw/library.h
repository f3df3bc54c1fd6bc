/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/** @file library.h The library's interface: that of an installed one, or of the amalgamation in this folder. */
#ifndef CACHALOT_GO_LIBRARY_H_
#define CACHALOT_GO_LIBRARY_H_

#ifndef CACHALOT_BUNDLED
#include "cachalot/cachalot.h"
#elif __has_include("cachalot.h")
#include "cachalot.h"
#else
#error "Published modules have the amalgamation, a clone has not: build the CMake target cachalot_amalgamation first"
#endif

#endif /* CACHALOT_GO_LIBRARY_H_ */
