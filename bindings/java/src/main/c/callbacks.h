/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/** @file callbacks.h What the generated callbacks need of the Java virtual machine. */
#ifndef CACHALOT_JAVA_CALLBACKS_H_
#define CACHALOT_JAVA_CALLBACKS_H_

#include <jni.h>
#include <stdint.h>

/** A static method of io.cachalot.raw.Callbacks. */
typedef struct cachalot_java_method {
  const char* name;
  const char* descriptor;
} cachalot_java_method;

/** Generated: the methods by their numbers, from 1 on, and the native functions that call them. */
extern const cachalot_java_method cachalot_java_methods[];
extern const int cachalot_java_method_count;
intptr_t cachalot_java_entry(int number);

/** Filled when the library is loaded. */
extern jclass cachalot_java_class;
extern jmethodID cachalot_java_ids[];

/** The calling thread's environment, attached for the call if it is no thread of Java; NULL: the machine
 * has gone. */
JNIEnv* cachalot_java_enter(int* attached);
void cachalot_java_leave(JNIEnv* env, int attached);

/** Ends the reference that user_data is. */
void cachalot_java_destroy(void* user_data);

#endif /* CACHALOT_JAVA_CALLBACKS_H_ */
