/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/** @file memory.h What Go files of this package see of C. */
#ifndef CACHALOT_GO_MEMORY_H_
#define CACHALOT_GO_MEMORY_H_

#include <stdlib.h>

#include "cachalot/cachalot.h"
#include "callbacks.h"

/** The number of a Go handle as a callback's user_data. Go may not make a pointer of it. */
static inline void* cachalot_go_data(uintptr_t handle) { return (void*)handle; }

#endif /* CACHALOT_GO_MEMORY_H_ */
