/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "memory.h"

#include <string.h>

_Thread_local cachalot_go_state cachalot_go_thread;

int32_t cachalot_go_inside(uintptr_t object) {
  if (cachalot_go_thread.depth == 0) {
    return 0;
  }
  for (const cachalot_go_call* call = cachalot_go_thread.calls; call != NULL; call = call->outer) {
    if (object != 0 && (call->allocator == object || call->tenant == object)) {
      return 2;
    }
  }
  return 1;
}

void cachalot_go_nothing(void) {}

cachalot_status cachalot_go_refuse(cachalot_error* error) {
  static const char kText[] = "no allocator can be called from within a callback that runs under a lock of one";
  memset(error, 0, offsetof(cachalot_error, message));
  error->struct_size = sizeof *error;
  error->status = CACHALOT_ERROR_INVALID_STATE;
  memcpy(error->message, kText, sizeof kText);
  return CACHALOT_ERROR_INVALID_STATE;
}

cachalot_error* cachalot_go_keep(const cachalot_error* error) {
  cachalot_error* kept = malloc(sizeof *kept);
  if (kept != NULL) {
    memcpy(kept, error, offsetof(cachalot_error, message));
    memcpy(kept->message, error->message, strnlen(error->message, sizeof kept->message - 1) + 1);
    kept->message[sizeof kept->message - 1] = 0;
  }
  return kept;
}
