/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/** @file bench.c The native methods of PairBenchmark. */
#include <cachalot/cachalot.h>
#include <jni.h>
#include <stdint.h>

JNIEXPORT void JNICALL Java_io_cachalot_bench_PairBenchmark_empty(JNIEnv* env, jclass type) {
  (void)env;
  (void)type;
}

JNIEXPORT jint JNICALL Java_io_cachalot_bench_PairBenchmark_pairs(JNIEnv* env, jclass type, jlong handle,
                                                                  jlong size, jint count) {
  cachalot_allocator* const allocator = (cachalot_allocator*)(intptr_t)handle;
  cachalot_status status = CACHALOT_OK;
  (void)env;
  (void)type;
  for (; count > 0 && status == CACHALOT_OK; count--) {
    cachalot_address address;
    status = cachalot_allocate(allocator, (uint64_t)size, 0, 0, &address, NULL);
    if (status == CACHALOT_OK) status = cachalot_free(allocator, address, NULL);
  }
  return (jint)status;
}
