/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/** @file memory.c The native methods of Memory, and the way back into the Java virtual machine. */
#include <string.h>

#include "cachalot/cachalot.h"
#include "callbacks.h"
#include "io_cachalot_raw_Memory.h"

enum { METHODS = 64 };

static JavaVM* machine;
jclass cachalot_java_class;
jmethodID cachalot_java_ids[METHODS];

JNIEXPORT jint JNICALL JNI_OnLoad(JavaVM* vm, void* reserved) {
  JNIEnv* env;
  jclass found;
  int number;
  (void)reserved;
  machine = vm;
  if ((*vm)->GetEnv(vm, (void**)&env, JNI_VERSION_10) != JNI_OK) return JNI_ERR;
  if (cachalot_java_method_count > METHODS) return JNI_ERR;
  found = (*env)->FindClass(env, "io/cachalot/raw/Callbacks");
  if (found == NULL) return JNI_ERR;
  /* A strong reference would keep the class loader that this library belongs to. Who is called back has one:
   * user_data refers to an object of a class of Callbacks. */
  cachalot_java_class = (jclass)(*env)->NewWeakGlobalRef(env, found);
  if (cachalot_java_class == NULL) return JNI_ERR;
  for (number = 1; number < cachalot_java_method_count; number++) {
    cachalot_java_ids[number] =
        (*env)->GetStaticMethodID(env, cachalot_java_class, cachalot_java_methods[number].name,
                                  cachalot_java_methods[number].descriptor);
    if (cachalot_java_ids[number] == NULL) return JNI_ERR;
  }
  return JNI_VERSION_10;
}

/** The class loader has been collected. */
JNIEXPORT void JNICALL JNI_OnUnload(JavaVM* vm, void* reserved) {
  JNIEnv* env;
  (void)reserved;
  if ((*vm)->GetEnv(vm, (void**)&env, JNI_VERSION_10) != JNI_OK) return;
  (*env)->DeleteWeakGlobalRef(env, cachalot_java_class);
  cachalot_java_class = NULL;
}

JNIEnv* cachalot_java_enter(int* attached) {
  JNIEnv* env = NULL;
  *attached = 0;
  if ((*machine)->GetEnv(machine, (void**)&env, JNI_VERSION_10) == JNI_OK) return env;
  if ((*machine)->AttachCurrentThreadAsDaemon(machine, (void**)&env, NULL) != JNI_OK) return NULL;
  *attached = 1;
  return env;
}

void cachalot_java_leave(JNIEnv* env, int attached) {
  if ((*env)->ExceptionCheck(env)) (*env)->ExceptionClear(env); /* thrown by what reports exceptions */
  if (attached) (*machine)->DetachCurrentThread(machine);
}

void cachalot_java_destroy(void* user_data) {
  int attached;
  JNIEnv* env = cachalot_java_enter(&attached);
  if (env == NULL) return;
  (*env)->DeleteGlobalRef(env, (jobject)user_data);
  cachalot_java_leave(env, attached);
}

JNIEXPORT jlong JNICALL Java_io_cachalot_raw_Memory_addressOf(JNIEnv* env, jclass type, jobject buffer) {
  (void)type;
  return (jlong)(intptr_t)(*env)->GetDirectBufferAddress(env, buffer);
}

JNIEXPORT jobject JNICALL Java_io_cachalot_raw_Memory_bytesAt(JNIEnv* env, jclass type, jlong address,
                                                              jlong size) {
  (void)type;
  return (*env)->NewDirectByteBuffer(env, (void*)(intptr_t)address, size);
}

JNIEXPORT jlong JNICALL Java_io_cachalot_raw_Memory_lengthOf(JNIEnv* env, jclass type, jlong text) {
  (void)env;
  (void)type;
  return (jlong)strlen((const char*)(intptr_t)text);
}

JNIEXPORT jlong JNICALL Java_io_cachalot_raw_Memory_newReference(JNIEnv* env, jclass type, jobject target) {
  (void)type;
  return (jlong)(intptr_t)(*env)->NewGlobalRef(env, target);
}

JNIEXPORT void JNICALL Java_io_cachalot_raw_Memory_deleteReference(JNIEnv* env, jclass type,
                                                                   jlong reference) {
  (void)type;
  (*env)->DeleteGlobalRef(env, (jobject)(intptr_t)reference);
}

JNIEXPORT jlong JNICALL Java_io_cachalot_raw_Memory_entry(JNIEnv* env, jclass type, jint number) {
  (void)env;
  (void)type;
  return (jlong)cachalot_java_entry(number);
}

/** Where the library's code lies that is really called, whoever loaded it. */
JNIEXPORT jlong JNICALL Java_io_cachalot_raw_Memory_codeAddress(JNIEnv* env, jclass type) {
  (void)env;
  (void)type;
  return (jlong)(intptr_t)&cachalot_version_number;
}
