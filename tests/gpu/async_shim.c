/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What a rival of `cachalot run` could be: the driver's cuMemAlloc and cuMemFree become those of its own pool, in the
 * order of the legacy stream. It is loaded as libcuda.so.1 and depends on the driver under another name, as the proxy
 * is (any_program.py). The wait of a free is kept. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

static void* real(const char* name) {
  static void* library;
  if (library == NULL) library = dlopen("libcachalot_real_cuda.so", RTLD_LAZY | RTLD_NOLOAD);
  return dlsym(library, name);
}

EXPORT int cuMemAlloc_v2(unsigned long long* out, size_t size) {
  static int (*call)(unsigned long long*, size_t, void*);
  if (call == NULL) *(void**)&call = real("cuMemAllocAsync");
  return call(out, size, NULL);
}

EXPORT int cuMemFree_v2(unsigned long long address) {
  static int (*call)(unsigned long long, void*);
  static int (*wait)(void);
  if (call == NULL) {
    *(void**)&call = real("cuMemFreeAsync");
    *(void**)&wait = real("cuCtxSynchronize");
  }
  const int code = wait();
  return code != 0 ? code : call(address, NULL);
}

static void replace(const char* name, void** function) {
  if (strcmp(name, "cuMemAlloc") == 0) *function = (void*)(uintptr_t)cuMemAlloc_v2;
  if (strcmp(name, "cuMemFree") == 0) *function = (void*)(uintptr_t)cuMemFree_v2;
}

EXPORT int cuGetProcAddress_v2(const char* name, void** function, int version, uint64_t flags,
                               int* status) {
  int (*call)(const char*, void**, int, uint64_t, int*);
  *(void**)&call = real("cuGetProcAddress_v2");
  const int code = call(name, function, version, flags, status);
  if (code == 0) replace(name, function);
  return code;
}

EXPORT int cuGetProcAddress(const char* name, void** function, int version, uint64_t flags) {
  return cuGetProcAddress_v2(name, function, version, flags, NULL);
}
