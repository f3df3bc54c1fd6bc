/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/**
 * @file snapshot.h
 * Snapshots: segments, blocks and history at one moment, as an immutable object with rows.
 */
#ifndef CACHALOT_SNAPSHOT_H_
#define CACHALOT_SNAPSHOT_H_

#include "cachalot/history.h"

#ifdef __cplusplus
extern "C" {
#endif

/**
 * A picture of an allocator. It keeps nothing alive, so it may outlive the allocator, and never
 * changes, so any thread may read it at any time.
 */
typedef struct cachalot_snapshot cachalot_snapshot;

/** What goes into a snapshot. Zero means default in every field. */
typedef struct cachalot_snapshot_options {
  /** sizeof(cachalot_snapshot_options), set by the caller. */
  size_t struct_size;
  /** Not (0,0): only the segments of this private pool. */
  cachalot_pool_id pool;
  /** 1: leaves the history out. */
  int32_t without_history;
  int32_t reserved_0;
} cachalot_snapshot_options;

/** @name States of a block (cachalot_block_row::state). */
/** @{ */
#define CACHALOT_BLOCK_INACTIVE 0  /* in the cache */
#define CACHALOT_BLOCK_ALLOCATED 1 /* handed out ("active_allocated") */
#define CACHALOT_BLOCK_PENDING_FREE \
  2 /* freed, waiting for recorded streams ("active_pending_free") */
/** @} */

/** One segment, or one contiguous mapped range of an expandable segment. Sizes in bytes. */
typedef struct cachalot_segment_row {
  /** sizeof(cachalot_segment_row), set by the caller. */
  size_t struct_size;
  int32_t device;
  /** 1: of a large pool; 0: of a small one. */
  int32_t is_large;
  cachalot_address address;
  uint64_t total_size;
  /** Sums over its blocks: handed out; handed out or waiting; requested, of the latter. */
  uint64_t allocated_size;
  uint64_t active_size;
  uint64_t requested_size;
  cachalot_stream stream;
  cachalot_pool_id pool;
  int32_t is_expandable;
  int32_t reserved_0;
  /** The number of the segment in the order in which they were obtained (R2; 0 under 2.11). */
  int64_t number;
  /** The context of the call that obtained it, as far as its first block knows; 0: none. */
  uint64_t context;
  /** Its blocks are rows first_block to first_block + block_count - 1, by address. */
  size_t first_block;
  size_t block_count;
} cachalot_segment_row;

/** One block. */
typedef struct cachalot_block_row {
  /** sizeof(cachalot_block_row), set by the caller. */
  size_t struct_size;
  cachalot_address address;
  uint64_t size;
  /** What was last requested of it, also of an inactive block, as in the reference. */
  uint64_t requested_size;
  /** CACHALOT_BLOCK_*. */
  int32_t state;
  int32_t reserved_0;
  /** The context of its hand-out; 0: none. */
  uint64_t context;
} cachalot_block_row;

/**
 * Takes a snapshot of all devices, each at one moment. Walks everything: its cost grows with the
 * number of blocks. It is an event of the history itself, seen in later snapshots.
 *
 * @param options       NULL: all defaults.
 * @param out_snapshot  The caller owns it; end it with cachalot_snapshot_destroy.
 */
CACHALOT_API cachalot_status cachalot_snapshot_take(cachalot_allocator* allocator,
                                                    const cachalot_snapshot_options* options,
                                                    cachalot_snapshot** out_snapshot,
                                                    cachalot_error* error);

/** Ends a snapshot. NULL: nothing. */
CACHALOT_API void cachalot_snapshot_destroy(cachalot_snapshot* snapshot);

/** Segments: devices in order, then by address. 0 for NULL. */
CACHALOT_API size_t cachalot_snapshot_segment_count(const cachalot_snapshot* snapshot);
/** One of them. CACHALOT_ERROR_INVALID_ARGUMENT past the last. */
CACHALOT_API cachalot_status cachalot_snapshot_segment(const cachalot_snapshot* snapshot,
                                                       size_t index, cachalot_segment_row* out_row);

/** Blocks of all segments, in the order of the segments. 0 for NULL. */
CACHALOT_API size_t cachalot_snapshot_block_count(const cachalot_snapshot* snapshot);
/** One of them. CACHALOT_ERROR_INVALID_ARGUMENT past the last. */
CACHALOT_API cachalot_status cachalot_snapshot_block(const cachalot_snapshot* snapshot,
                                                     size_t index, cachalot_block_row* out_row);

/** Entries of a device's history, oldest first. 0 for NULL or without history. */
CACHALOT_API size_t cachalot_snapshot_entry_count(const cachalot_snapshot* snapshot,
                                                  int32_t device);
/** One of them; its texts live as long as the snapshot. CACHALOT_ERROR_INVALID_ARGUMENT past the
 * last. */
CACHALOT_API cachalot_status cachalot_snapshot_entry(const cachalot_snapshot* snapshot,
                                                     int32_t device, size_t index,
                                                     cachalot_trace_entry* out_entry);

/** Writes size bytes; returns 0, or any other number on failure. */
typedef int32_t (*cachalot_write_fn)(void* user_data, const void* data, size_t size);

/**
 * Writes a snapshot as PyTorch's torch.cuda.memory._dump_snapshot does, for memory_viz (pytorch.org/memory_viz, or
 * torch/cuda/_memory_viz.py): a pickle of plain dictionaries and lists, in pieces. The keys are those of the release
 * that the allocator follows.
 *
 * @param allocator  Explains contexts (cachalot_context_text): a line "FILE:LINE:FUNCTION" is a frame with all three,
 *                   any other line one with that name. NULL: contexts have no frames, but for those of a replay,
 *                   which its snapshot explains itself.
 * @param write      Called on this thread, once or more.
 * @return CACHALOT_OK, or CACHALOT_ERROR_CALLBACK if write failed. Any thread.
 */
CACHALOT_API cachalot_status cachalot_snapshot_write_pickle(const cachalot_snapshot* snapshot,
                                                            cachalot_allocator* allocator,
                                                            cachalot_write_fn write,
                                                            void* user_data, cachalot_error* error);

/** The options at the moment of the snapshot. */
CACHALOT_API cachalot_status cachalot_snapshot_settings(const cachalot_snapshot* snapshot,
                                                        cachalot_settings* out_settings);
/** The last option string then; lives as long as the snapshot. "" for NULL. */
CACHALOT_API const char* cachalot_snapshot_config(const cachalot_snapshot* snapshot);

#ifdef __cplusplus
}
#endif

#endif /* CACHALOT_SNAPSHOT_H_ */
