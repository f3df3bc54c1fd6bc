/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/**
 * @file pool.h
 * Private pools: memory set apart for a graph or a user, routing of requests to them, captures.
 *
 * A pool is addressed by its id. It has a use count: creating or joining it and each beginning of a
 * routing add 1, cachalot_pool_release takes 1 away; at 0 its memory may be given back and it
 * cannot be joined again. As in the reference a pool lives on one device; equal ids on two devices
 * are two pools.
 *
 * All functions: any thread; CACHALOT_ERROR_INVALID_ARGUMENT for a device that the driver does not
 * have.
 */
#ifndef CACHALOT_POOL_H_
#define CACHALOT_POOL_H_

#include "cachalot/allocator.h"

#ifdef __cplusplus
extern "C" {
#endif

/** @name Flags of a pool. */
/** @{ */
#define CACHALOT_POOL_USE_ON_OOM \
  0x1u                              /* its cached blocks serve requests of others that would fail */
#define CACHALOT_POOL_NO_SPLIT 0x2u /* its blocks are never split */
#define CACHALOT_POOL_PINNED \
  0x4u /* its memory stays where it is, also once it was released: for memory that others have registered */
#define CACHALOT_POOL_WHOLE_BLOCKS \
  0x8u /* each of its blocks is an allocation of the driver; see cachalot_pool_set_whole_blocks */
/** @} */

/**
 * A pool's own source of segments (PyTorch's pluggable contract). Functions are called like those
 * of cachalot_device_ops; stream is the thread's current stream at the allocation.
 */
typedef struct cachalot_pool_source {
  /** sizeof(cachalot_pool_source), set by the caller. */
  size_t struct_size;
  /** size bytes, or 0 for none, which counts as out of memory. What no memory can be is refused as
   * for cachalot_device_ops. */
  cachalot_address (*allocate)(void* user_data, uint64_t size, int32_t device,
                               cachalot_stream stream);
  /** Takes back what allocate gave, with the same size, device and stream. */
  void (*free)(void* user_data, cachalot_address address, uint64_t size, int32_t device,
               cachalot_stream stream);
  void* user_data;
  /** Called once with user_data when the pool is gone, or at once if creating it fails; like the
      others it must not call back. May be
   * NULL. */
  void (*destroy)(void* user_data);
} cachalot_pool_source;

/** How a pool is made. Zero means default in every field. */
typedef struct cachalot_pool_options {
  /** sizeof(cachalot_pool_options), set by the caller. */
  size_t struct_size;
  /** CACHALOT_POOL_*, added up. */
  uint32_t flags;
  int32_t reserved_0;
  /** Copied. NULL: segments come from the driver. Only for a pool that is new. */
  const cachalot_pool_source* source;
} cachalot_pool_options;

/**
 * @name Which requests a routing takes (cachalot_pool_route::kind).
 *
 * A routing lasts until its end (cachalot_pool_end, from any thread), also where the thread that
 * began it has ended: one of that thread takes no request then.
 */
/** @{ */
#define CACHALOT_ROUTE_THIS_THREAD 0 /* of the thread that began the routing */
#define CACHALOT_ROUTE_ALL 1         /* of every thread and stream */
#define CACHALOT_ROUTE_NONE 2        /* none */
#define CACHALOT_ROUTE_STREAM 3      /* for one stream */
#define CACHALOT_ROUTE_CAPTURE 4     /* for streams that are captured under one id */
#define CACHALOT_ROUTE_PREDICATE 5   /* those that a function accepts */
/** @} */

/** Which requests go to the pool while it is routed to. */
typedef struct cachalot_pool_route {
  /** sizeof(cachalot_pool_route), set by the caller. */
  size_t struct_size;
  /** CACHALOT_ROUTE_*. */
  int32_t kind;
  int32_t reserved_0;
  cachalot_stream stream;
  uint64_t capture_id;
  /** Not 0: takes the stream. Called with the device's lock held; it must not call back. */
  int32_t (*predicate)(void* user_data, cachalot_stream stream);
  void* user_data;
  /** Called once with user_data when the routing ends. May be NULL. */
  void (*destroy)(void* user_data);
} cachalot_pool_route;

/**
 * A new id that this allocator has not given yet.
 *
 * @param for_graph  0: of the form (0, k); 1: (k, 0).
 */
CACHALOT_API cachalot_status cachalot_pool_new_id(cachalot_allocator* allocator, int32_t for_graph,
                                                  cachalot_pool_id* out_id, cachalot_error* error);

/**
 * Creates a pool, or joins the one that has this id.
 *
 * @param id       From cachalot_pool_new_id or of the caller's choice.
 * @param options  NULL: all defaults. Flags count for a pool that exists too; a source does not.
 * @return CACHALOT_OK; CACHALOT_ERROR_INVALID_STATE for a pool that was released, or for a source
 * of a pool that exists: then nothing has changed.
 */
CACHALOT_API cachalot_status cachalot_pool_create(cachalot_allocator* allocator, int32_t device,
                                                  cachalot_pool_id id,
                                                  const cachalot_pool_options* options,
                                                  cachalot_error* error);

/**
 * Creates or joins a pool and routes requests to it from now on. Of several routings the newest
 * that takes a request has it. Under backend:cudaMallocAsync, which has no pools, a capture is under
 * way from now on: only one at a time (else CACHALOT_ERROR_INVALID_STATE).
 *
 * @param route  NULL: requests of this thread.
 * @return CACHALOT_OK, or CACHALOT_ERROR_INVALID_STATE if the pool is being routed to already (its
 * use count has been raised by then, as in the reference), if it sleeps (sleep.h; raised as well), or if it
 * was released (not raised).
 */
CACHALOT_API cachalot_status cachalot_pool_begin(cachalot_allocator* allocator, int32_t device,
                                                 cachalot_pool_id id,
                                                 const cachalot_pool_route* route,
                                                 cachalot_error* error);

/** Ends the routing to a pool. Its use count stays: call cachalot_pool_release for the beginning
 * too. */
CACHALOT_API cachalot_status cachalot_pool_end(cachalot_allocator* allocator, int32_t device,
                                               cachalot_pool_id id, cachalot_error* error);

/** The same, made while current_stream is the thread's current stream. Under
 * backend:cudaMallocAsync it is the one that waits for the streams on which the capture freed
 * blocks; cachalot_pool_end lets the stream of the capture's first request wait. */
CACHALOT_API cachalot_status cachalot_pool_end_on_stream(cachalot_allocator* allocator,
                                                         int32_t device, cachalot_pool_id id,
                                                         cachalot_stream current_stream,
                                                         cachalot_error* error);

/** Lowers the use count. CACHALOT_ERROR_INVALID_STATE for an unknown pool or a count below 0. */
CACHALOT_API cachalot_status cachalot_pool_release(cachalot_allocator* allocator, int32_t device,
                                                   cachalot_pool_id id, cachalot_error* error);

/** Gives the cached memory of a pool with use count 0 back. Any other pool: nothing happens. */
CACHALOT_API cachalot_status cachalot_pool_empty(cachalot_allocator* allocator, int32_t device,
                                                 cachalot_pool_id id, cachalot_error* error);

/** The same, made while current_stream is the thread's current stream. */
CACHALOT_API cachalot_status cachalot_pool_empty_on_stream(cachalot_allocator* allocator,
                                                           int32_t device, cachalot_pool_id id,
                                                           cachalot_stream current_stream,
                                                           cachalot_error* error);

/** Lets a pool's cached blocks serve requests that would fail (1) or not (0). The pool need not
 * exist. */
CACHALOT_API cachalot_status cachalot_pool_set_use_on_oom(cachalot_allocator* allocator,
                                                          int32_t device, cachalot_pool_id id,
                                                          int32_t use_on_oom,
                                                          cachalot_error* error);

/** Blocks of this pool are not split from now on. The pool need not exist. */
CACHALOT_API cachalot_status cachalot_pool_set_no_split(cachalot_allocator* allocator,
                                                        int32_t device, cachalot_pool_id id,
                                                        cachalot_error* error);

/**
 * Pins a pool's memory, present and future, or ends that; see CACHALOT_POOL_PINNED. A pool that is in use
 * keeps its memory anyway.
 *
 * @param pinned  0 or 1.
 * @return CACHALOT_OK, or CACHALOT_ERROR_INVALID_STATE for a pool that does not exist.
 */
CACHALOT_API cachalot_status cachalot_pool_set_pinned(cachalot_allocator* allocator, int32_t device,
                                                      cachalot_pool_id id, int32_t pinned,
                                                      cachalot_error* error);

/**
 * Each block of this pool is a whole allocation of the driver from now on. A handle for other processes is
 * one of a whole allocation, so CUDA IPC, and NCCL where it uses that, need such blocks.
 *
 * A block has one of eight sizes for each doubling, above 1 MiB a multiple of 2 MiB, whatever
 * roundup_power2_divisions says. A request takes a cached
 * block that is at most a quarter larger than what the driver would take for the request. Before the driver is
 * asked for a block, cached ones go back to it, large ones that have been free for long first: the pool
 * reserves at most a quarter more than the driver would have had to give at the peak of what was in use.
 * Everything cached goes back when the cache is emptied and before a request fails, and idle blocks of 2 MiB
 * and more by a trim, also while the pool is in use. Nothing goes back while a capture is under way, nor under
 * CACHALOT_POOL_PINNED. Pin a pool that a graph is captured into, since the graph uses blocks that are free.
 * As without a cache, other processes are to close a block before it is freed.
 *
 * @return CACHALOT_OK, or CACHALOT_ERROR_INVALID_STATE for a pool that does not exist, or that has memory
 * of another kind.
 */
CACHALOT_API cachalot_status cachalot_pool_set_whole_blocks(cachalot_allocator* allocator,
                                                            int32_t device, cachalot_pool_id id,
                                                            cachalot_error* error);

/** The use count. CACHALOT_ERROR_INVALID_STATE for a pool that does not exist. */
CACHALOT_API cachalot_status cachalot_pool_use_count(cachalot_allocator* allocator, int32_t device,
                                                     cachalot_pool_id id, int32_t* out_count,
                                                     cachalot_error* error);

/** 1 if the pool's blocks that are handed out are exactly these. CACHALOT_ERROR_INVALID_ARGUMENT
 * for an unknown pool. */
CACHALOT_API cachalot_status cachalot_pool_has_live(cachalot_allocator* allocator, int32_t device,
                                                    cachalot_pool_id id,
                                                    const cachalot_address* addresses, size_t count,
                                                    int32_t* out_equal, cachalot_error* error);

/**
 * Marks the begin and the end of a graph capture on a device (R10): between them, calls on captured
 * streams make no driver call that a capture forbids. Under 2.11 routing does that and marks change
 * nothing.
 *
 * @return CACHALOT_OK, or CACHALOT_ERROR_INVALID_STATE for an end without a begin.
 */
CACHALOT_API cachalot_status cachalot_capture_begin(cachalot_allocator* allocator, int32_t device,
                                                    cachalot_error* error);
CACHALOT_API cachalot_status cachalot_capture_end(cachalot_allocator* allocator, int32_t device,
                                                  cachalot_error* error);

/* ---- Expandable segments ------------------------------------------------------------------------
 */

/** One expandable segment. */
typedef struct cachalot_expandable_segment {
  cachalot_stream stream;
  /** Bytes that are backed by memory. */
  uint64_t mapped_size;
  int32_t is_small;
  int32_t reserved_0;
} cachalot_expandable_segment;

/** The address space that segments of a reserve class get. */
typedef struct cachalot_reserve {
  /** sizeof(cachalot_reserve), set by the caller. */
  size_t struct_size;
  /** 1: an option or a default applies, of reserve_bytes; 0: none does. */
  int32_t has_reserve;
  /** 1: the class has an entry of its own. */
  int32_t is_class_known;
  uint64_t reserve_bytes;
  /** What a new segment gets, before it is rounded up to pages. */
  uint64_t segment_bytes;
} cachalot_reserve;

/**
 * The expandable segments of a device, in the order of their creation, those of the default stream
 * left out.
 *
 * @param rows       Gets up to capacity rows; may be NULL with capacity 0.
 * @param out_count  How many there are.
 */
CACHALOT_API cachalot_status cachalot_expandable_segments(cachalot_allocator* allocator,
                                                          int32_t device,
                                                          cachalot_expandable_segment* rows,
                                                          size_t capacity, size_t* out_count,
                                                          cachalot_error* error);

/** The address space that all expandable segments of all devices reserve, in bytes, and their
 * number (R67). */
CACHALOT_API cachalot_status cachalot_expandable_totals(cachalot_allocator* allocator,
                                                        uint64_t* out_bytes, uint64_t* out_count,
                                                        cachalot_error* error);

/** Gives a stream a reserve class (R65); "" or NULL takes it away. CACHALOT_ERROR_NOT_SUPPORTED
 * under 2.11. */
CACHALOT_API cachalot_status cachalot_set_reserve_class(cachalot_allocator* allocator,
                                                        cachalot_stream stream, const char* name,
                                                        cachalot_error* error);

/** A stream's reserve class. Text like snprintf. */
CACHALOT_API cachalot_status cachalot_get_reserve_class(cachalot_allocator* allocator,
                                                        cachalot_stream stream, char* buffer,
                                                        size_t capacity, size_t* out_length,
                                                        cachalot_error* error);

/** A class's reserve, where no option names one (R67): a fraction of the device's memory, above 0.
 */
CACHALOT_API cachalot_status cachalot_set_default_reserve(cachalot_allocator* allocator,
                                                          const char* name, double fraction,
                                                          cachalot_error* error);

/** What a class gets on a device. name NULL or "": streams without a class. */
CACHALOT_API cachalot_status cachalot_get_reserve(cachalot_allocator* allocator, int32_t device,
                                                  const char* name, cachalot_reserve* out_reserve,
                                                  cachalot_error* error);

#ifdef __cplusplus
}
#endif

#endif /* CACHALOT_POOL_H_ */
