/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/** @file memory.h What Go files of this package see of C. */
#ifndef CACHALOT_GO_MEMORY_H_
#define CACHALOT_GO_MEMORY_H_

#include <stdlib.h>

#include "cachalot/cachalot.h"
#include "callbacks.h"
#include "functions.h"

/** The number of a Go handle as a callback's user_data. Go may not make a pointer of it. */
static inline void* cachalot_go_data(uintptr_t handle) { return (void*)handle; }

/** @name Callbacks that the calling thread is inside of, and those of them under a lock of the library. */
/** @{ */
extern _Thread_local int32_t cachalot_go_depth;
extern _Thread_local int32_t cachalot_go_locks;
static inline void cachalot_go_enter(int32_t lock) {
  cachalot_go_depth++;
  cachalot_go_locks += lock;
}
static inline void cachalot_go_leave(int32_t lock) {
  cachalot_go_depth--;
  cachalot_go_locks -= lock;
}
static inline int32_t cachalot_go_is_locked(void) { return cachalot_go_locks; }
static inline int32_t cachalot_go_is_in_callback(void) { return cachalot_go_depth; }

/** What a crossing costs that does nothing. */
void cachalot_go_nothing(void);
/** @} */

/** What a function that takes locks answers from within a callback under one: it would wait for itself. */
cachalot_status cachalot_go_refuse(cachalot_error* error);

/** A copy of a failure, for Go to read and free; NULL if there is no memory for it. */
cachalot_error* cachalot_go_keep(const cachalot_error* error);

#endif /* CACHALOT_GO_MEMORY_H_ */
