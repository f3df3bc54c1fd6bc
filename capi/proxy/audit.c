/* SPDX-License-Identifier: MIT OR Apache-2.0
 * A library that the loader asks about each file that it is about to open (LD_AUDIT). It leads the driver, by name or by
 * path, to the proxy that lies in its own folder, and the proxy to the driver. It is enough by itself: a program that
 * has no use for the driver does not get the proxy, and one that looks for a driver which is not there finds none. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))
#define DRIVER "libcuda.so.1"
#define REAL_DRIVER "libcachalot_real_cuda.so"

static char proxy[4096];
static char real_driver[4096] = DRIVER;
static char nowhere[] = "";  // NULL would end the search

static const char* name_of(const char* path) {
  const char* const slash = strrchr(path, '/');
  return slash != NULL ? slash + 1 : path;
}

EXPORT unsigned la_version(unsigned version) {
  Dl_info info;
  const char* end = NULL;
  char link[sizeof real_driver];
  if (dladdr(proxy, &info) != 0) end = strrchr(info.dli_fname, '/');
  const int length = end != NULL ? (int)(end - info.dli_fname) : 0;
  if (length > 0) {
    snprintf(proxy, sizeof proxy, "%.*s/" DRIVER, length, info.dli_fname);
    snprintf(link, sizeof link, "%.*s/" REAL_DRIVER, length, info.dli_fname);
    if (access(link, F_OK) == 0) memcpy(real_driver, link, sizeof link);
  }
  return version < LAV_CURRENT ? version : LAV_CURRENT;
}

/* The loader asks about what the program names, and then about each place where it looks: only for the real driver does
 * it look for a file of the driver's name, which is not the proxy. */
EXPORT char* la_objsearch(const char* path, uintptr_t* cookie, unsigned flag) {
  const char* const name = name_of(path);
  (void)cookie;
  if (proxy[0] == '\0') return (char*)path;
  if (flag != LA_SER_ORIG) return strcmp(path, proxy) != 0 ? (char*)path : nowhere;
  if (strcmp(name, REAL_DRIVER) == 0) return real_driver;
  return strcmp(name, DRIVER) == 0 || strcmp(name, "libcuda.so") == 0 ? proxy : (char*)path;
}
