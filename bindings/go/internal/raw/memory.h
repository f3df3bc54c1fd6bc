/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/** @file memory.h What Go files of this package see of C. */
#ifndef CACHALOT_GO_MEMORY_H_
#define CACHALOT_GO_MEMORY_H_

#include <stdlib.h>

#include "library.h"
#include "callbacks.h"
#include "functions.h"

/** The number of a Go handle as a callback's user_data. Go may not make a pointer of it. */
static inline void* cachalot_go_data(uintptr_t handle) { return (void*)handle; }

/** What a call of the calling thread uses: of allocators and tenants their addresses. */
typedef struct cachalot_go_call {
  uintptr_t allocator;
  uintptr_t tenant;
  struct cachalot_go_call* outer;
} cachalot_go_call;

/** What is known of a thread; one struct, since each variable of a thread costs a call of its own to find. */
typedef struct {
  /** Callbacks that it is inside of, and those of them under a lock of the library. */
  int32_t depth;
  int32_t locks;
  /** Calls that it is inside of, innermost first. */
  cachalot_go_call* calls;
} cachalot_go_state;

/** @name Callbacks and calls that the calling thread is inside of. */
/** @{ */
extern _Thread_local cachalot_go_state cachalot_go_thread;
static inline void cachalot_go_enter(int32_t lock) {
  cachalot_go_thread.depth++;
  cachalot_go_thread.locks += lock;
}
static inline void cachalot_go_leave(int32_t lock) {
  cachalot_go_thread.depth--;
  cachalot_go_thread.locks -= lock;
}
static inline int32_t cachalot_go_is_locked(void) { return cachalot_go_thread.locks; }

/** 0: outside of all callbacks; 2: within a callback of a call that uses this object; 1: within others only. */
int32_t cachalot_go_inside(uintptr_t object);

/** What a crossing costs that does nothing. */
void cachalot_go_nothing(void);
/** @} */

/** What a function that takes locks answers from within a callback under one: it would wait for itself. */
cachalot_status cachalot_go_refuse(cachalot_error* error);

/** A copy of a failure, for Go to read and free; NULL if there is no memory for it. */
cachalot_error* cachalot_go_keep(const cachalot_error* error);

#endif /* CACHALOT_GO_MEMORY_H_ */
