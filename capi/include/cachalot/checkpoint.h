/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/**
 * @file checkpoint.h
 * Checkpoints of private pools: which blocks of a pool are handed out at one moment, to be put back
 * later. CUDA graphs that share a pool need them: each graph expects the blocks that were live when
 * its capture began, whichever graph was replayed last.
 *
 * @code
 * cachalot_checkpoint* before = NULL;
 * cachalot_checkpoint_take(allocator, 0, pool, &before, &error);
 * ... other graphs of the pool ...
 * cachalot_checkpoint_changes* changes = NULL;
 * cachalot_checkpoint_apply(allocator, 0, before, &changes, &error);
 * ... what was handed out of the pool is now what `before` says ...
 * @endcode
 *
 * The rules are PyTorch's (docs/behaviour/allocator.md, 19). Only the addresses and states of blocks
 * are put back, not their contents.
 */
#ifndef CACHALOT_CHECKPOINT_H_
#define CACHALOT_CHECKPOINT_H_

#include "cachalot/pool.h"

#ifdef __cplusplus
extern "C" {
#endif

/** The blocks of a private pool at one moment. It keeps nothing alive, so it may outlive the allocator, and
 * any thread may read it at any time. */
typedef struct cachalot_checkpoint cachalot_checkpoint;

/** What putting a pool back has done; like a checkpoint it is data. */
typedef struct cachalot_checkpoint_changes cachalot_checkpoint_changes;

/** One block of a checkpoint. */
typedef struct cachalot_checkpoint_row {
  /** sizeof(cachalot_checkpoint_row), set by the caller. */
  size_t struct_size;
  cachalot_address address;
  /** Bytes. */
  uint64_t size;
  /** That the memory of its segment was obtained for. */
  cachalot_stream stream;
  /** Rows with one number are the blocks of one segment, by address. */
  size_t segment;
  /** 1: it is handed out; 0: it is in the cache. */
  int32_t is_used;
  /** 0: addresses at the end of an expandable segment that have no pages. They are not put back. */
  int32_t is_mapped;
} cachalot_checkpoint_row;

/**
 * Takes a checkpoint of a private pool. Frees that wait for the end of a capture are completed first.
 *
 * @param out_checkpoint  The caller owns it; end it with cachalot_checkpoint_destroy.
 * @return CACHALOT_OK; CACHALOT_ERROR_INVALID_ARGUMENT where there is no such pool or device;
 * CACHALOT_ERROR_INVALID_STATE while a freed block of the pool waits for a stream;
 * CACHALOT_ERROR_NOT_SUPPORTED for `backend:cudaMallocAsync`. Any thread.
 */
CACHALOT_API cachalot_status cachalot_checkpoint_take(cachalot_allocator* allocator, int32_t device,
                                                      cachalot_pool_id id,
                                                      cachalot_checkpoint** out_checkpoint,
                                                      cachalot_error* error);

/**
 * Makes a checkpoint without blocks, to which rows are added: those of another one in another order of
 * segments, which is the order in which they are put back, or rows that were stored. They are compared with
 * the pool when they are put back.
 *
 * @param out_checkpoint  The caller owns it; end it with cachalot_checkpoint_destroy.
 */
CACHALOT_API cachalot_status cachalot_checkpoint_create(cachalot_pool_id id,
                                                        cachalot_checkpoint** out_checkpoint,
                                                        cachalot_error* error);

/**
 * Adds a block behind the last one. A row with another `segment` than the one before begins a segment.
 *
 * @return CACHALOT_OK; CACHALOT_ERROR_INVALID_ARGUMENT for a row without struct_size, and nothing has
 * changed. Not while another thread uses the checkpoint.
 */
CACHALOT_API cachalot_status cachalot_checkpoint_add(cachalot_checkpoint* checkpoint,
                                                     const cachalot_checkpoint_row* row,
                                                     cachalot_error* error);

/** Ends a checkpoint. NULL: nothing. */
CACHALOT_API void cachalot_checkpoint_destroy(cachalot_checkpoint* checkpoint);

/** The pool that it was taken of. CACHALOT_ERROR_INVALID_ARGUMENT for NULL. */
CACHALOT_API cachalot_status cachalot_checkpoint_pool(const cachalot_checkpoint* checkpoint,
                                                      cachalot_pool_id* out_id);
/** Blocks of all segments, in the order of the segments, by address when it was taken. 0 for NULL. */
CACHALOT_API size_t cachalot_checkpoint_row_count(const cachalot_checkpoint* checkpoint);
/** One of them. CACHALOT_ERROR_INVALID_ARGUMENT past the last. */
CACHALOT_API cachalot_status cachalot_checkpoint_row_at(const cachalot_checkpoint* checkpoint,
                                                        size_t index,
                                                        cachalot_checkpoint_row* out_row);

/**
 * Puts a private pool back: frees all its blocks that are handed out, by address, and then, segment by
 * segment, hands out those of the checkpoint. Their requested size is their own, and they count for the
 * label and the tenant of the calling thread, whose limit is not asked. What the caller had of the pool
 * is gone; blocks that are created at an address which he knows are his as after cachalot_allocate.
 *
 * @param out_changes  NULL, or the caller owns it; end it with cachalot_checkpoint_changes_destroy.
 * @return CACHALOT_OK; CACHALOT_ERROR_INVALID_STATE where the pool has no user, a segment of the
 * checkpoint is gone or has another shape, or a block in its way waits for a stream;
 * CACHALOT_ERROR_INVALID_ARGUMENT for rows that are no segment of the pool; CACHALOT_ERROR_NOT_SUPPORTED
 * under the serving policy, with red zones, and for `backend:cudaMallocAsync`. After an error nothing
 * has changed (PyTorch has freed the pool's blocks by then: U25). Any thread.
 */
CACHALOT_API cachalot_status cachalot_checkpoint_apply(cachalot_allocator* allocator,
                                                       int32_t device,
                                                       const cachalot_checkpoint* checkpoint,
                                                       cachalot_checkpoint_changes** out_changes,
                                                       cachalot_error* error);

/** Ends it. NULL: nothing. */
CACHALOT_API void cachalot_checkpoint_changes_destroy(cachalot_checkpoint_changes* changes);

/** Blocks that were freed, in the order of their frees. 0 for NULL. */
CACHALOT_API size_t cachalot_checkpoint_freed_count(const cachalot_checkpoint_changes* changes);
/** The address of one of them. CACHALOT_ERROR_INVALID_ARGUMENT past the last. */
CACHALOT_API cachalot_status cachalot_checkpoint_freed_at(
    const cachalot_checkpoint_changes* changes, size_t index, cachalot_address* out_address);

/** Blocks that were handed out. 0 for NULL. */
CACHALOT_API size_t cachalot_checkpoint_created_count(const cachalot_checkpoint_changes* changes);
/** The address of one of them. CACHALOT_ERROR_INVALID_ARGUMENT past the last. */
CACHALOT_API cachalot_status cachalot_checkpoint_created_at(
    const cachalot_checkpoint_changes* changes, size_t index, cachalot_address* out_address);

#ifdef __cplusplus
}
#endif

#endif /* CACHALOT_CHECKPOINT_H_ */
