/* SPDX-License-Identifier: MIT OR Apache-2.0
 * A program that uses the driver, however it comes by it: program HOW [TIMES [END]].
 *   HOW    linked, open, open_so, open_deep, open_namespace, or a path to open
 *   TIMES  requests, each freed [3]
 *   END    exit:CODE, kill:SIGNAL, wait (for ever), spawn:PROGRAM (a child of its own, with one request more),
 *          hold:BYTES (has a block of so many, and waits), ask:BYTES (the driver refuses it, and the program is killed),
 *          contexts:COUNT (creates and destroys so many contexts, with a request in each that is not freed),
 *          mappings:COUNT (maps and unmaps so many blocks of 2 MiB), reset (of the device)
 * It ends with 9 if the driver does not behave. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char** environ;

typedef int (*init_form)(unsigned);
typedef int (*retain_form)(void**, int);
typedef int (*set_form)(void*);
typedef int (*alloc_form)(unsigned long long*, size_t);
typedef int (*free_form)(unsigned long long);
typedef int (*unknown_form)(void);
typedef int (*create_form)(void**, unsigned, int);
typedef int (*destroy_form)(void*);
typedef int (*reserve_form)(unsigned long long*, size_t, size_t, unsigned long long,
                            unsigned long long);
typedef int (*range_form)(unsigned long long, size_t);
typedef int (*handle_form)(unsigned long long*, size_t, const void*, unsigned long long);
typedef int (*map_form)(unsigned long long, size_t, size_t, unsigned long long, unsigned long long);

static void*
    driver; /* null where the program is linked with it, which is what dlsym takes for all that is loaded */

#ifdef LINKED
int cuInit(unsigned);
int cuDevicePrimaryCtxRetain(void**, int);
int cuCtxSetCurrent(void*);
int cuMemAlloc_v2(unsigned long long*, size_t);
int cuMemFree_v2(unsigned long long);
int cuFromANewerDriver(void);
#endif

static void require(int condition, const char* what) {
  if (condition) return;
  fprintf(stderr, "program: %s\n", what);
  exit(9);
}

static void* open_driver(const char* how) {
  if (strcmp(how, "open") == 0) return dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (strcmp(how, "open_so") == 0) return dlopen("libcuda.so", RTLD_NOW | RTLD_GLOBAL);
  if (strcmp(how, "open_deep") == 0) return dlopen("libcuda.so.1", RTLD_NOW | RTLD_DEEPBIND);
  if (strcmp(how, "open_namespace") == 0) return dlmopen(LM_ID_NEWLM, "libcuda.so.1", RTLD_NOW);
  return dlopen(how, RTLD_NOW);
}

static void* symbol(void* library, const char* name) {
  void* const found = dlsym(library, name);
  require(found != NULL, name);
  return found;
}

static void spawn(const char* program) {
  char* const arguments[] = {(char*)program, "open", "1", NULL};
  pid_t child = 0;
  int status = 0;
  require(posix_spawn(&child, program, NULL, NULL, arguments, environ) == 0, "no child");
  require(waitpid(child, &status, 0) == child && status == 0, "the child failed");
}

static void use_contexts(int count, alloc_form allocate) {
  create_form create;
  destroy_form destroy;
  *(void**)&create = symbol(driver, "cuCtxCreate_v2");
  *(void**)&destroy = symbol(driver, "cuCtxDestroy_v2");
  for (int i = 0; i < count; i++) {
    void* context = NULL;
    unsigned long long address = 0;
    require(create(&context, 0, 0) == 0, "no context of its own");
    require(allocate(&address, 5 << 20) == 0 && allocate(&address, 512) == 0, "no memory");
    require(destroy(context) == 0, "the context stays");
  }
}

static void use_mappings(int count) {
  const size_t size = 2 << 20;
  const int properties[8] = {1, 0, 1}; /* of device 0 */
  reserve_form reserve;
  handle_form create;
  map_form map;
  range_form unmap;
  range_form free_range;
  free_form release;
  *(void**)&reserve = symbol(driver, "cuMemAddressReserve");
  *(void**)&create = symbol(driver, "cuMemCreate");
  *(void**)&map = symbol(driver, "cuMemMap");
  *(void**)&unmap = symbol(driver, "cuMemUnmap");
  *(void**)&free_range = symbol(driver, "cuMemAddressFree");
  *(void**)&release = symbol(driver, "cuMemRelease");
  for (int i = 0; i < count; i++) {
    unsigned long long address = 0;
    unsigned long long handle = 0;
    require(reserve(&address, size, 0, 0, 0) == 0 && create(&handle, size, properties, 0) == 0,
            "no memory to map");
    require(map(address, size, 0, handle, 0) == 0 && unmap(address, size) == 0, "no mapping");
    require(release(handle) == 0 && free_range(address, size) == 0, "what was mapped stays");
  }
}

static void wait_for_ever(void) {
  printf("waiting\n");
  fflush(stdout);
  for (;;) pause();
}

static int end(const char* how, alloc_form allocate) {
  unsigned long long address = 0;
  if (strncmp(how, "hold:", 5) == 0) {
    require(allocate(&address, strtoull(how + 5, NULL, 10)) == 0, "no memory");
    wait_for_ever();
  }
  if (strncmp(how, "ask:", 4) == 0) {
    require(allocate(&address, strtoull(how + 4, NULL, 10)) == 2, "it is not refused");
    kill(getpid(), SIGKILL);
  }
  if (strncmp(how, "exit:", 5) == 0) return atoi(how + 5);
  if (strncmp(how, "kill:", 5) == 0) kill(getpid(), atoi(how + 5));
  if (strncmp(how, "spawn:", 6) == 0) spawn(how + 6);
  if (strncmp(how, "contexts:", 9) == 0) use_contexts(atoi(how + 9), allocate);
  if (strcmp(how, "reset") == 0) {
    int (*reset)(int);
    *(void**)&reset = symbol(driver, "cuDevicePrimaryCtxReset_v2");
    require(reset(0) == 0, "no reset");
  }
  if (strncmp(how, "mappings:", 9) == 0) use_mappings(atoi(how + 9));
  if (strcmp(how, "wait") == 0) wait_for_ever();
  return 0;
}

int main(int argc, char** argv) {
  const char* const how = argc > 1 ? argv[1] : "open";
  const int times = argc > 2 ? atoi(argv[2]) : 3;
  init_form init;
  retain_form retain;
  set_form set_current;
  alloc_form allocate;
  free_form give_back;
  unknown_form unknown;
#ifdef LINKED
  (void)how;
  (void)open_driver;
  (void)symbol;
  init = cuInit;
  retain = cuDevicePrimaryCtxRetain;
  set_current = cuCtxSetCurrent;
  allocate = cuMemAlloc_v2;
  give_back = cuMemFree_v2;
  unknown = cuFromANewerDriver;
#else
  driver = open_driver(how);
  require(driver != NULL, "no driver");
  *(void**)&init = symbol(driver, "cuInit");
  *(void**)&retain = symbol(driver, "cuDevicePrimaryCtxRetain");
  *(void**)&set_current = symbol(driver, "cuCtxSetCurrent");
  *(void**)&allocate = symbol(driver, "cuMemAlloc_v2");
  *(void**)&give_back = symbol(driver, "cuMemFree_v2");
  *(void**)&unknown = symbol(driver, "cuFromANewerDriver");
#endif
  void* context = NULL;
  require(init(0) == 0 && retain(&context, 0) == 0 && set_current(context) == 0, "no context");
  require(unknown() == 42, "a function that the proxy does not know is not the driver's");
  for (int i = 0; i < times; i++) {
    unsigned long long address = 0;
    require(allocate(&address, 512) == 0 && give_back(address) == 0, "no memory");
  }
  return argc > 3 ? end(argv[3], allocate) : 0;
}
