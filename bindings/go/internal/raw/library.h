/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/** @file library.h The library's interface: that of an installed one, or of the amalgamation in this folder. */
#ifndef CACHALOT_GO_LIBRARY_H_
#define CACHALOT_GO_LIBRARY_H_

#ifdef CACHALOT_INSTALLED
#include "cachalot/cachalot.h"
#elif defined(CACHALOT_BUNDLED) && !__has_include("cachalot.h")
#error "Published modules have cachalot.cpp: build the CMake target cachalot_amalgamation first"
#elif defined(CACHALOT_PREBUILT) && !__has_include("prebuilt.h")
#error "No library is here, as in any clone: prebuilt.sh, or the tag cachalot_installed"
#else
#include "cachalot.h"
#ifdef CACHALOT_PREBUILT
#ifndef __GLIBC__
#error "The library in the module needs glibc: use the tag cachalot_bundled or cachalot_installed"
#endif
#include "prebuilt.h" /* Go's build cache sees it, but not the library: its checksum stands for that. */
#endif
#endif

#endif /* CACHALOT_GO_LIBRARY_H_ */
