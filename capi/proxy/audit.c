/* SPDX-License-Identifier: MIT OR Apache-2.0
 * For programs that open the driver by its path, where no folder of links is looked into: a library that the loader asks
 * about each file that it is about to open (LD_AUDIT). It leads the driver to the proxy that lies in its own folder. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

static char proxy[4096];

static int is_driver(const char* path) {
  const char* const slash = strrchr(path, '/');
  const char* const name = slash != NULL ? slash + 1 : path;
  return strcmp(name, "libcuda.so.1") == 0 || strcmp(name, "libcuda.so") == 0;
}

EXPORT unsigned la_version(unsigned version) {
  Dl_info info;
  const char* end = NULL;
  if (dladdr(proxy, &info) != 0) end = strrchr(info.dli_fname, '/');
  const int length = end != NULL ? (int)(end - info.dli_fname) : 0;
  if (length > 0) snprintf(proxy, sizeof proxy, "%.*s/libcuda.so.1", length, info.dli_fname);
  return version < LAV_CURRENT ? version : LAV_CURRENT;
}

EXPORT char* la_objsearch(const char* name, uintptr_t* cookie, unsigned flag) {
  (void)cookie;
  (void)flag;
  return proxy[0] != '\0' && is_driver(name) ? proxy : (char*)name;
}
