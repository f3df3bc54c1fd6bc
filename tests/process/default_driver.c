/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Names the driver that is opened where nobody names one. */
#include <stdio.h>

#include "cachalot/cachalot.h"

int main(void) {
  cachalot_driver* driver = NULL;
  if (cachalot_driver_open(NULL, &driver, NULL) != CACHALOT_OK) return 1;
  printf("%s\n", cachalot_driver_name(driver));
  cachalot_driver_destroy(driver);
  return 0;
}
