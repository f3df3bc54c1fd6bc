/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "batch.h"

#include <pthread.h>
#include <string.h>

#include "memory.h"

cachalot_go_batch_result cachalot_go_allocate_batch(uintptr_t allocator, const uint64_t* sizes, size_t count,
                                                    int32_t device, cachalot_stream stream,
                                                    cachalot_address* addresses) {
  cachalot_go_batch_result result = {0};
  while (result.done < count) {
    cachalot_go_allocate_result one = cachalot_go_allocate(allocator, sizes[result.done], device, stream);
    if (one.status != CACHALOT_OK) {
      result.status = one.status;
      result.error = one.error;
      result.failed = result.done;
      while (result.done > 0) {
        result.done--;
        cachalot_free((cachalot_allocator*)allocator, addresses[result.done], NULL);
        addresses[result.done] = 0;
      }
      return result;
    }
    addresses[result.done++] = one.address;
  }
  return result;
}

cachalot_go_batch_result cachalot_go_free_batch(uintptr_t allocator, const cachalot_address* addresses,
                                                size_t count) {
  cachalot_go_batch_result result = {0};
  for (size_t i = 0; i < count; i++) {
    cachalot_go_free_result one = cachalot_go_free(allocator, addresses[i]);
    if (one.status == CACHALOT_OK) {
      result.done++;
    } else if (result.status == CACHALOT_OK) {
      result.status = one.status;
      result.error = one.error;
      result.failed = i;
    } else {
      free(one.error);
    }
  }
  return result;
}

static _Thread_local char* thread_metadata;
static _Thread_local int32_t depths[2];
static pthread_key_t metadata_key;
static pthread_once_t metadata_once = PTHREAD_ONCE_INIT;

/* Frees a thread's text when the thread ends. */
static void make_metadata_key(void) { pthread_key_create(&metadata_key, free); }

void cachalot_go_remember_metadata(const char* text) {
  pthread_once(&metadata_once, make_metadata_key);
  free(thread_metadata);
  thread_metadata = text != NULL ? strdup(text) : NULL;
  pthread_setspecific(metadata_key, thread_metadata);
}

const char* cachalot_go_metadata(void) { return thread_metadata != NULL ? thread_metadata : ""; }

int32_t cachalot_go_scopes(int32_t kind, int32_t more) { return depths[kind] += more; }

typedef struct {
  size_t labels;
  int has_metadata;
  int has_tenant;
} scope;

static cachalot_status begin(scope* begun, const char* labels, size_t label_count, const char* metadata,
                             cachalot_tenant* tenant, cachalot_error* error) {
  cachalot_status status = CACHALOT_OK;
  for (; begun->labels < label_count; begun->labels++, labels += strlen(labels) + 1) {
    if ((status = cachalot_label_push(labels, error)) != CACHALOT_OK) {
      return status;
    }
  }
  if (metadata != NULL) {
    if ((status = cachalot_set_metadata(metadata, error)) != CACHALOT_OK) {
      return status;
    }
    begun->has_metadata = 1;
  }
  if (tenant != NULL) {
    if ((status = cachalot_tenant_begin(tenant, error)) != CACHALOT_OK) {
      return status;
    }
    begun->has_tenant = 1;
  }
  return status;
}

static void end(const scope* begun, cachalot_tenant* tenant) {
  if (begun->has_tenant) {
    cachalot_tenant_end(tenant, NULL);
  }
  if (begun->has_metadata) {
    cachalot_set_metadata(thread_metadata, NULL);
  }
  for (size_t i = 0; i < begun->labels; i++) {
    cachalot_label_pop(NULL);
  }
}

cachalot_go_scoped_result cachalot_go_allocate_scoped(uintptr_t allocator, const char* labels,
                                                      size_t label_count, const char* metadata,
                                                      cachalot_tenant* tenant, cachalot_request request) {
  cachalot_go_scoped_result result = {0};
  cachalot_error error;
  error.struct_size = sizeof error;
  scope begun = {0};
  cachalot_go_call call = {allocator, (uintptr_t)tenant, cachalot_go_thread.calls};
  cachalot_go_thread.calls = &call;
  if (cachalot_go_is_locked()) {
    result.status = cachalot_go_refuse(&error);
  } else {
    result.status = begin(&begun, labels, label_count, metadata, tenant, &error);
    if (result.status == CACHALOT_OK) {
      result.status = cachalot_allocate_with((cachalot_allocator*)allocator, &request, &result.address, &error);
    }
    end(&begun, tenant);
  }
  cachalot_go_thread.calls = call.outer;
  if (result.status != CACHALOT_OK) {
    result.error = cachalot_go_keep(&error);
  }
  return result;
}
