/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What a rival of `cachalot run` could be: the driver's cuMemAlloc and cuMemFree become those of its own pool, in the
 * order of the legacy stream, and the pool keeps what it has. With SHIM_NO_WAIT=1 a free does not wait for the context,
 * which a program whose other streams do not wait for the legacy one cannot rely on. It is loaded as libcuda.so.1 and
 * depends on the driver under another name, as the proxy does (any_program.py):
 *   gcc -shared -fPIC -O2 async_shim.c -o async_shim.so -Wl,-soname,libcuda.so.1,--no-as-needed -L build/release \
 *     -lcachalot_real_cuda */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

enum { kReleaseThreshold = 4 };

static unsigned long requests;

/* So that a measurement knows whether the program came here. */
__attribute__((destructor)) static void tell(void) {
  if (requests != 0) fprintf(stderr, "async_shim: %lu requests\n", requests);
}

static void* real(const char* name) {
  static void* library;
  if (library == NULL) library = dlopen("libcachalot_real_cuda.so", RTLD_LAZY | RTLD_NOLOAD);
  return dlsym(library, name);
}

static void keep_memory(void) {
  int device = 0;
  void* pool = NULL;
  uint64_t threshold = UINT64_MAX;
  int (*get_device)(int*);
  int (*get_pool)(void**, int);
  int (*set)(void*, int, void*);
  *(void**)&get_device = real("cuCtxGetDevice");
  *(void**)&get_pool = real("cuDeviceGetDefaultMemPool");
  *(void**)&set = real("cuMemPoolSetAttribute");
  if (get_device(&device) == 0 && get_pool(&pool, device) == 0)
    set(pool, kReleaseThreshold, &threshold);
}

EXPORT int cuMemAlloc_v2(unsigned long long* out, size_t size) {
  static int (*call)(unsigned long long*, size_t, void*);
  if (call == NULL) {
    *(void**)&call = real("cuMemAllocAsync");
    keep_memory();
  }
  __atomic_fetch_add(&requests, 1, __ATOMIC_RELAXED);
  return call(out, size, NULL);
}

EXPORT int cuMemFree_v2(unsigned long long address) {
  static int (*call)(unsigned long long, void*);
  static int (*wait)(void);
  static int waits;
  if (call == NULL) {
    waits = getenv("SHIM_NO_WAIT") == NULL;
    *(void**)&wait = real("cuCtxSynchronize");
    *(void**)&call = real("cuMemFreeAsync");
  }
  const int code = waits ? wait() : 0;
  return code != 0 ? code : call(address, NULL);
}

EXPORT int cuGetProcAddress_v2(const char* name, void** function, int version, uint64_t flags,
                               int* status);
EXPORT int cuGetProcAddress(const char* name, void** function, int version, uint64_t flags);

static void replace(const char* name, int version, void** function) {
  if (strcmp(name, "cuMemAlloc") == 0) *function = (void*)(uintptr_t)cuMemAlloc_v2;
  if (strcmp(name, "cuMemFree") == 0) *function = (void*)(uintptr_t)cuMemFree_v2;
  if (strcmp(name, "cuGetProcAddress") == 0)
    *function = version < 12000 ? (void*)(uintptr_t)cuGetProcAddress
                                : (void*)(uintptr_t)cuGetProcAddress_v2;
}

EXPORT int cuGetProcAddress_v2(const char* name, void** function, int version, uint64_t flags,
                               int* status) {
  int (*call)(const char*, void**, int, uint64_t, int*);
  *(void**)&call = real("cuGetProcAddress_v2");
  const int code = call(name, function, version, flags, status);
  if (code == 0) replace(name, version, function);
  return code;
}

EXPORT int cuGetProcAddress(const char* name, void** function, int version, uint64_t flags) {
  return cuGetProcAddress_v2(name, function, version, flags, NULL);
}
