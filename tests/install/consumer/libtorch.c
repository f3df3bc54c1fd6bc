/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A program outside the project that takes libtorch's allocator, in a process without libtorch. */
#include <cachalot/libtorch.h>
#include <stdio.h>
#include <string.h>

int main(void) {
  cachalot_error error = CACHALOT_ERROR_INIT;
  const cachalot_status status = cachalot_libtorch_find(NULL, &error);
  printf("%s\n", error.message);
  return status == CACHALOT_ERROR_INVALID_STATE &&
                 strstr(error.message, "No libtorch is loaded") != NULL
             ? 0
             : 1;
}
