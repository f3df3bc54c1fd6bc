/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/**
 * @file batch.h
 * What is more than one call of the library in one crossing: many blocks, and a block under what a goroutine has
 * said of itself, which the library keeps by thread.
 */
#ifndef CACHALOT_GO_BATCH_H_
#define CACHALOT_GO_BATCH_H_

#include "library.h"

typedef struct {
  int32_t status;
  /** How many calls have worked. */
  size_t done;
  /** The index of the first that has not. */
  size_t failed;
  cachalot_error* error;
} cachalot_go_batch_result;

/** Blocks of these sizes: all of them, or none. */
cachalot_go_batch_result cachalot_go_allocate_batch(uintptr_t allocator, const uint64_t* sizes, size_t count,
                                                    int32_t device, cachalot_stream stream, cachalot_address* addresses);

/** Frees all that can be freed; the error is the first one. */
cachalot_go_batch_result cachalot_go_free_batch(uintptr_t allocator, const cachalot_address* addresses,
                                                size_t count);

/** What the thread says of itself during one request. */
typedef struct {
  int32_t status;
  cachalot_address address;
  cachalot_error* error;
} cachalot_go_scoped_result;

/**
 * cachalot_allocate_with under labels, a text for the history, and a tenant.
 *
 * @param labels    label_count texts, each ended by a NUL, outermost first.
 * @param metadata  NULL: that of the thread.
 * @param tenant    NULL: that of the thread.
 */
cachalot_go_scoped_result cachalot_go_allocate_scoped(uintptr_t allocator, const char* labels,
                                                      size_t label_count, const char* metadata,
                                                      cachalot_tenant* tenant, cachalot_request request);

/** The text that cachalot_go_allocate_scoped leaves the thread with; NULL: none. */
void cachalot_go_remember_metadata(const char* text);

/** That text; "" for none. */
const char* cachalot_go_metadata(void);

/** How many scopes of a kind (0: labels, 1: texts) the thread is in, after a change. Ends with the thread. */
int32_t cachalot_go_scopes(int32_t kind, int32_t more);

#endif /* CACHALOT_GO_BATCH_H_ */
