// SPDX-License-Identifier: MIT OR Apache-2.0
// A libcuda.so.1 from before cuGetProcAddress.

extern "C" __attribute__((visibility("default"))) int cuDriverGetVersion(int* version) {
  *version = 10020;
  return 0;
}
