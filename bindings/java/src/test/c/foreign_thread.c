/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/** @file foreign_thread.c Calls the library from a thread that the virtual machine does not know. */
#include <cachalot/cachalot.h>
#include <jni.h>
#include <pthread.h>
#include <stdint.h>

static void* empty_cache(void* allocator) {
  return (void*)(intptr_t)cachalot_empty_cache((cachalot_allocator*)allocator, NULL);
}

JNIEXPORT jint JNICALL Java_io_cachalot_ForeignThreadProbe_emptyCache(JNIEnv* env, jclass type, jlong allocator) {
  pthread_t thread;
  void* status = NULL;
  (void)env;
  (void)type;
  if (pthread_create(&thread, NULL, empty_cache, (void*)(intptr_t)allocator) != 0) return -1;
  pthread_join(thread, &status);
  return (jint)(intptr_t)status;
}
