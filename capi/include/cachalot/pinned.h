/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/**
 * @file pinned.h
 * Pinned host memory: buffers that copies to and from devices go through without a stop.
 *
 * The driver takes milliseconds for such memory and stops devices meanwhile, so it is cached. One cache serves
 * all devices and all threads. By default it makes PyTorch's decisions (docs/behaviour/pinned-memory.md): sizes
 * are rounded up to powers of two, blocks are handed out whole, and the `pinned_*` options change that. With
 * cachalot_allocator_options::pinned_config it is a cache like that of a device instead, which needs less memory
 * and has limits, tenants and statistics of its own (cachalot_pinned_allocator).
 *
 * A block may be read and written by the host as long as no device uses it. A free does not wait for devices:
 * whoever copies without a wait says so (cachalot_pinned_record_stream), and the block is handed out again when
 * the work is done that the stream had been given until the free.
 *
 * Drivers: `cuda`; `host` and `sim`, where it is ordinary memory; `custom` with host_allocate and host_free.
 * Others, and drivers of NVIDIA that lack the calls: CACHALOT_ERROR_NOT_SUPPORTED.
 *
 * All functions: any thread. CACHALOT_ERROR_INVALID_ARGUMENT for a pointer that no live pinned block begins at.
 */
#ifndef CACHALOT_PINNED_H_
#define CACHALOT_PINNED_H_

#include "cachalot/pool.h"
#include "cachalot/stats.h"

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Hands out pinned memory.
 *
 * @param size        Bytes. 0 gives NULL.
 * @param out_memory  Begins at a multiple of 512. Belongs to the caller until cachalot_pinned_free.
 * @return CACHALOT_OK; CACHALOT_ERROR_DRIVER where the driver refuses, also for want of memory, as in PyTorch;
 *         with pinned_config CACHALOT_ERROR_OUT_OF_HOST_MEMORY where that or the limit is short.
 */
CACHALOT_API cachalot_status cachalot_pinned_allocate(cachalot_allocator* allocator, uint64_t size,
                                                      void** out_memory, cachalot_error* error);

/** The same, made while current_stream of the device is the thread's current stream: by it captures into graphs
 * take requests (cachalot_pinned_pool_begin). cachalot_pinned_allocate has the legacy default stream of device 0. */
CACHALOT_API cachalot_status cachalot_pinned_allocate_on_stream(cachalot_allocator* allocator,
                                                                uint64_t size, int32_t device,
                                                                cachalot_stream current_stream,
                                                                void** out_memory,
                                                                cachalot_error* error);

/**
 * Takes a block back. NULL: nothing.
 *
 * @return CACHALOT_OK. Where an event cannot be recorded the block waits until one can, and the log has a line; with
 * pinned_config the answer is CACHALOT_ERROR_DRIVER then, and the block is taken back all the same.
 */
CACHALOT_API cachalot_status cachalot_pinned_free(cachalot_allocator* allocator, void* memory,
                                                  cachalot_error* error);

/**
 * A stream uses the block: call it behind each copy that the host does not wait for, before the free.
 *
 * @param device  Of the stream.
 * @return CACHALOT_OK; CACHALOT_ERROR_INVALID_STATE for a block that has been freed (with pinned_config
 *         CACHALOT_ERROR_INVALID_ARGUMENT).
 */
CACHALOT_API cachalot_status cachalot_pinned_record_stream(cachalot_allocator* allocator,
                                                           void* memory, int32_t device,
                                                           cachalot_stream stream,
                                                           cachalot_error* error);

/** Bytes of the block that begins here, at least what was asked for; all of them are the caller's. */
CACHALOT_API cachalot_status cachalot_pinned_size(cachalot_allocator* allocator, void* memory,
                                                  uint64_t* out_size, cachalot_error* error);

/** Gives cached blocks back to the driver, those of graphs' pools without users too. */
CACHALOT_API cachalot_status cachalot_pinned_empty_cache(cachalot_allocator* allocator,
                                                         cachalot_error* error);

/** How long calls of the driver took. Microseconds. */
typedef struct cachalot_call_times {
  int64_t count;
  int64_t total;
  /** 0 where there was none. */
  int64_t min;
  int64_t max;
} cachalot_call_times;

/** The statistics of pinned memory, as torch.cuda.host_memory_stats has them. Bytes are those of blocks. Peaks of
 * active_ figures are sums of each size's own peak, as in PyTorch. Under 2.11 active_ figures are wrong, as
 * there: a free without streams does not lower them. */
typedef struct cachalot_pinned_stats {
  /** sizeof(cachalot_pinned_stats), set by the caller. */
  size_t struct_size;
  /** Blocks that were obtained, cached ones too. */
  cachalot_stat allocations;
  cachalot_stat allocated_bytes;
  /** Blocks handed out, or waiting for streams after their free. */
  cachalot_stat active_requests;
  cachalot_stat active_bytes;
  cachalot_call_times allocate_times;
  cachalot_call_times free_times;
} cachalot_pinned_stats;

/** The statistics of pinned memory. */
CACHALOT_API cachalot_status cachalot_pinned_get_stats(cachalot_allocator* allocator,
                                                       cachalot_pinned_stats* out_stats,
                                                       cachalot_error* error);

/** Sets every peak to its current value. */
CACHALOT_API cachalot_status cachalot_pinned_reset_peak_stats(cachalot_allocator* allocator,
                                                              cachalot_error* error);

/** Sets all sums (allocated, freed) and the times to 0. */
CACHALOT_API cachalot_status cachalot_pinned_reset_accumulated_stats(cachalot_allocator* allocator,
                                                                     cachalot_error* error);

/**
 * Routes requests to a pool of pinned memory, as a capture into a graph does, until cachalot_pinned_pool_end. Of
 * several routings the oldest that takes a request has it. The pool gets a user, also where it is routed to already. A block of it that streams use is not handed out again once it is freed, because the graph may
 * use it at each launch.
 *
 * @param id      The same as of the device's pool, or another.
 * @param device  That a route by capture asks.
 * @param route   NULL: requests of this thread.
 * @return CACHALOT_OK. CACHALOT_ERROR_NOT_SUPPORTED with pinned_config.
 */
CACHALOT_API cachalot_status cachalot_pinned_pool_begin(cachalot_allocator* allocator,
                                                        int32_t device, cachalot_pool_id id,
                                                        const cachalot_pool_route* route,
                                                        cachalot_error* error);

/** Ends the routing to a pool. CACHALOT_ERROR_INVALID_STATE where there is none. */
CACHALOT_API cachalot_status cachalot_pinned_pool_end(cachalot_allocator* allocator,
                                                      cachalot_pool_id id, cachalot_error* error);

/** The pool has one user less. Without users its cached blocks go with the next
 * cachalot_pinned_empty_cache. CACHALOT_ERROR_INVALID_STATE where it has none, CACHALOT_ERROR_INVALID_ARGUMENT
 * where there is no such pool. */
CACHALOT_API cachalot_status cachalot_pinned_pool_release(cachalot_allocator* allocator,
                                                          cachalot_pool_id id,
                                                          cachalot_error* error);

/**
 * The allocator that has the pinned memory where cachalot_allocator_options::pinned_config is given: as one with one
 * device, whose memory is the machine's. Limits (cachalot_set_memory_limit), trims, tenants, labels, statistics,
 * reports, snapshots, history, recorders, replays and metrics are those of any allocator; requests and frees of
 * pinned memory go through the functions above, with the allocator that this one belongs to. Pools have no source of
 * their own here (CACHALOT_ERROR_NOT_SUPPORTED), since what they gave would be taken for pinned memory.
 *
 * @return Borrowed: it goes with `allocator`, and cannot be destroyed by itself. NULL without pinned_config, or for
 * NULL.
 */
CACHALOT_API cachalot_allocator* cachalot_pinned_allocator(const cachalot_allocator* allocator);

#ifdef __cplusplus
}
#endif

#endif /* CACHALOT_PINNED_H_ */
