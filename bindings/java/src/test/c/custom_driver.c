/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/** @file custom_driver.c A driver made in C, whose addresses are numbers and no memory. */
#include <cachalot/cachalot.h>
#include <jni.h>
#include <stdint.h>

static int32_t memory_info(void* user_data, int32_t device, uint64_t* out_free, uint64_t* out_total) {
  (void)user_data;
  (void)device;
  *out_free = *out_total = UINT64_C(1) << 30;
  return CACHALOT_DRIVER_SUCCESS;
}

static int32_t give(void* user_data, int32_t device, uint64_t size, cachalot_address* out_address) {
  static uint64_t next = UINT64_C(0x700000000000); /* The test has one thread. */
  (void)user_data;
  (void)device;
  *out_address = next;
  next += (size + 511) / 512 * 512;
  return CACHALOT_DRIVER_SUCCESS;
}

static int32_t take(void* user_data, int32_t device, cachalot_address address) {
  (void)user_data;
  (void)device;
  (void)address;
  return CACHALOT_DRIVER_SUCCESS;
}

static int32_t give_pinned(void* user_data, int32_t device, uint64_t size, int32_t register_threads,
                           cachalot_address* out_address) {
  (void)register_threads;
  return give(user_data, device, size, out_address);
}

static int32_t take_pinned(void* user_data, int32_t device, cachalot_address address, int32_t registered) {
  (void)registered;
  return take(user_data, device, address);
}

JNIEXPORT jlong JNICALL Java_io_cachalot_PinnedTest_driverOfNumbers(JNIEnv* env, jclass type, jboolean has_pinned) {
  cachalot_device_ops ops = {.struct_size = sizeof ops, .memory_info = memory_info, .allocate = give, .free = take};
  cachalot_driver* driver = NULL;
  (void)env;
  (void)type;
  if (has_pinned) {
    ops.host_allocate = give_pinned;
    ops.host_free = take_pinned;
  }
  cachalot_driver_create_custom(&ops, 1, NULL, NULL, &driver, NULL);
  return (jlong)(intptr_t)driver;
}
