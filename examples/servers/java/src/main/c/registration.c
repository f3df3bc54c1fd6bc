/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The native methods of io.cachalot.server.Registration: the five functions of cachalot/onnxruntime.h. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cachalot/onnxruntime.h"
#include "io_cachalot_server_Registration.h"

static void* pointer(jlong handle) { return (void*)(intptr_t)handle; }

static void fail(JNIEnv* env, const cachalot_error* error) {
  jclass class = (*env)->FindClass(env, "java/lang/IllegalStateException");
  if (class != NULL) (*env)->ThrowNew(env, class, error->message);
}

/* UTF-8 as it is: Java's own functions take another encoding. NULL with an exception. */
static jbyteArray bytes(JNIEnv* env, const char* text, size_t length) {
  jbyteArray array = (*env)->NewByteArray(env, (jsize)length);
  if (array != NULL) (*env)->SetByteArrayRegion(env, array, 0, (jsize)length, (const jbyte*)text);
  return array;
}

JNIEXPORT jlong JNICALL Java_io_cachalot_server_Registration_register(JNIEnv* env, jclass class,
                                                                      jlong allocator) {
  (void)class;
  cachalot_error error = {.struct_size = sizeof error};
  cachalot_ort_options options = {.struct_size = sizeof options, .allocator = pointer(allocator)};
  cachalot_ort_allocator* registered = NULL;
  if (cachalot_ort_register(&options, &registered, &error) != CACHALOT_OK) fail(env, &error);
  return (jlong)(intptr_t)registered;
}

JNIEXPORT void JNICALL Java_io_cachalot_server_Registration_unregister(JNIEnv* env, jclass class,
                                                                       jlong handle) {
  (void)class;
  cachalot_error error = {.struct_size = sizeof error};
  if (cachalot_ort_unregister(pointer(handle), &error) != CACHALOT_OK) fail(env, &error);
}

JNIEXPORT jstring JNICALL Java_io_cachalot_server_Registration_info(JNIEnv* env, jclass class,
                                                                    jlong handle,
                                                                    jlongArray counts) {
  (void)class;
  cachalot_error error = {.struct_size = sizeof error};
  cachalot_ort_info info = {.struct_size = sizeof info};
  if (cachalot_ort_get_info(pointer(handle), &info, &error) != CACHALOT_OK) {
    fail(env, &error);
    return NULL;
  }
  const jlong values[] = {(jlong)info.live_blocks, (jlong)info.requests, (jlong)info.reserves,
                          (jlong)info.failures};
  (*env)->SetLongArrayRegion(env, counts, 0, sizeof values / sizeof *values, values);
  return (*env)->NewStringUTF(env, info.version);
}

JNIEXPORT void JNICALL Java_io_cachalot_server_Registration_forgetFailure(JNIEnv* env,
                                                                          jclass class) {
  (void)env;
  (void)class;
  cachalot_ort_forget_failure();
}

JNIEXPORT jobjectArray JNICALL Java_io_cachalot_server_Registration_failure(JNIEnv* env,
                                                                            jclass class) {
  (void)class;
  cachalot_error error = {.struct_size = sizeof error};
  size_t length = 0;
  if (cachalot_ort_last_failure(&error, NULL, 0, &length) != CACHALOT_OK) return NULL;
  char* report = calloc(length + 1, 1);
  if (report == NULL) length = 0;
  /* The failure is the thread's, so it is the same. */
  if (report != NULL) cachalot_ort_last_failure(NULL, report, length + 1, &length);

  jobjectArray texts = NULL;
  jclass element = (*env)->FindClass(env, "[B");
  jbyteArray message = element == NULL ? NULL : bytes(env, error.message, strlen(error.message));
  jbyteArray said = message == NULL ? NULL : bytes(env, report == NULL ? "" : report, length);
  if (said != NULL) texts = (*env)->NewObjectArray(env, 2, element, said);
  if (texts != NULL) (*env)->SetObjectArrayElement(env, texts, 0, message);
  free(report);
  return texts;
}
