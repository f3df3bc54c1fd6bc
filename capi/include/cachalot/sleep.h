/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/**
 * @file sleep.h
 * Pools that sleep: the memory of an idle model goes back to the driver and comes back later at the same
 * addresses, so that pointers, views and CUDA graphs stay valid.
 *
 * @code
 * cachalot_pool_sleep(allocator, 0, model, CACHALOT_SLEEP_KEEP, stream, NULL, &error);
 * ... the device's memory is another model's ...
 * cachalot_pool_wake(allocator, 0, model, stream, &error);
 * ... work that is queued on `stream` from here on finds everything as it was ...
 * @endcode
 *
 * What sleeps is a private pool (pool.h) whose memory is in expandable segments (`expandable_segments:True`). Its
 * pages are unmapped and given back; its addresses stay reserved. Contents are discarded, or copied to pinned
 * memory of the host and back: that memory is from the cache of cachalot_pinned_allocate, so that the first
 * sleep pays for it and later ones do not.
 *
 * While a pool sleeps its blocks count for nobody: not in statistics, nor for labels or tenants, where they
 * count as freed, and as handed out again when it wakes. They can be freed, and the pool can be released; what
 * else needs its memory is CACHALOT_ERROR_INVALID_STATE: to route to it, to ask for one of its blocks or to
 * record a stream for it, to pin it, to take or apply a checkpoint, to empty it. A pool that was released, and
 * whose blocks are all freed, does not wake any more: its addresses go. When a pool falls asleep or wakes, other
 * pools and other devices can be used by any thread.
 *
 * While a capture may be under way no pool falls asleep or wakes: from cachalot_capture_begin to
 * cachalot_capture_end, and under 2.11 while requests are routed to any pool of the device.
 *
 * PyTorch has none of this. Not under the serving policy, not with red zones or poison, and not with
 * `backend:cudaMallocAsync` (CACHALOT_ERROR_NOT_SUPPORTED).
 */
#ifndef CACHALOT_SLEEP_H_
#define CACHALOT_SLEEP_H_

#include "cachalot/pool.h"
#include "cachalot/tenant.h"

#ifdef __cplusplus
extern "C" {
#endif

/** @name What becomes of the contents of a pool that falls asleep. */
/** @{ */
#define CACHALOT_SLEEP_DISCARD 0 /* they are lost */
#define CACHALOT_SLEEP_KEEP 1    /* those of blocks that are handed out are kept */
#define CACHALOT_SLEEP_KEEP_ALL \
  2 /* those of free memory too: for graphs whose results lie in memory that was freed */
/** Only for cachalot_tenant_set_sleep: the pool is not put to sleep. */
#define CACHALOT_SLEEP_NEVER (-1)
/** @} */

/** @name What a pool does (cachalot_sleep_stats::state). */
/** @{ */
#define CACHALOT_POOL_AWAKE 0
#define CACHALOT_POOL_FALLING_ASLEEP 1
#define CACHALOT_POOL_ASLEEP 2
#define CACHALOT_POOL_WAKING 3
/** @} */

/** What sleeps. Bytes, where nothing else is said. */
typedef struct cachalot_sleep_stats {
  /** sizeof(cachalot_sleep_stats), set by the caller. */
  size_t struct_size;
  /** CACHALOT_POOL_*; of a device 0. */
  int32_t state;
  int32_t reserved_0;
  /** Pools that are not awake. */
  uint64_t pools;
  /** Blocks that will be handed out again, and their bytes. */
  uint64_t blocks;
  uint64_t allocated_bytes;
  /** Pages that the driver has back, and that waking needs. */
  uint64_t asleep_bytes;
  /** Pinned memory of the host that has contents. */
  uint64_t kept_bytes;
  /** How often pools of the device fell asleep and woke, since the allocator was made; of a pool 0. */
  uint64_t num_sleeps;
  uint64_t num_wakes;
} cachalot_sleep_stats;

/**
 * Puts a pool to sleep: waits for the device's work, copies what is kept on the stream and waits for that, and
 * gives all pages of the pool back to the driver.
 *
 * Work on the pool's memory that is queued meanwhile would find no memory: the caller queues none. A page that
 * blocks of two labels share is kept where one of them is (cachalot_pool_set_sleep_contents).
 *
 * @param contents   CACHALOT_SLEEP_DISCARD, _KEEP or _KEEP_ALL.
 * @param stream     That copies; of the device. The calling thread waits for it.
 * @param out_bytes  The bytes that the driver has back. May be NULL.
 * @return CACHALOT_OK; CACHALOT_ERROR_INVALID_STATE for a pool that does not exist, that sleeps already or wakes, that
 * requests are routed to, that is pinned (CACHALOT_POOL_PINNED), has memory that others have registered
 * (cachalot_pin) or a shared block (share.h), and while a capture may be under way; CACHALOT_ERROR_NOT_SUPPORTED for a pool with a plain
 * segment, and where contents are to be kept over a driver without copies or pinned memory;
 * CACHALOT_ERROR_DRIVER, also where the driver has no pinned memory left, or
 * CACHALOT_ERROR_OUT_OF_HOST_MEMORY. After an error nothing has changed. Any thread.
 */
CACHALOT_API cachalot_status cachalot_pool_sleep(cachalot_allocator* allocator, int32_t device,
                                                 cachalot_pool_id id, int32_t contents,
                                                 cachalot_stream stream, uint64_t* out_bytes,
                                                 cachalot_error* error);

/**
 * Wakes a pool: maps new pages at its addresses, queues the copies of what was kept on the stream, and hands its
 * blocks out again, for their labels and tenants. All or nothing.
 *
 * Where memory is short, cached memory is released, then tenants are asked (tenant.h), in the name of the tenant that
 * has most of the pool. Tenants are granted their blocks before that, as in requests.
 *
 * @param stream  That copies; of the device. The host does not wait. Work on other streams has to come behind
 *                it.
 * @return CACHALOT_OK; CACHALOT_ERROR_OUT_OF_MEMORY, with the numbers of a request for all of the pool's bytes,
 * where there is not enough or a tenant is not granted its blocks: the pool sleeps on, with its contents,
 * and the call can be repeated; CACHALOT_ERROR_INVALID_STATE for a pool that does not exist or does not sleep,
 * and while a capture may be under way; CACHALOT_ERROR_DRIVER: the pool sleeps on. Any thread.
 */
CACHALOT_API cachalot_status cachalot_pool_wake(cachalot_allocator* allocator, int32_t device,
                                                cachalot_pool_id id, cachalot_stream stream,
                                                cachalot_error* error);

/**
 * Levels by label: what becomes of a pool's blocks with this label, whatever cachalot_pool_sleep says. Weights
 * can so be kept while a key/value cache is discarded, or the other way round.
 *
 * @param label     As cachalot_label_stats has it.
 * @param contents  CACHALOT_SLEEP_DISCARD or CACHALOT_SLEEP_KEEP.
 * @return CACHALOT_OK; CACHALOT_ERROR_INVALID_STATE for a pool that does not exist, or where labels are not
 * tracked (cachalot_allocator_options::track_labels); CACHALOT_ERROR_INVALID_ARGUMENT. Any thread.
 */
CACHALOT_API cachalot_status cachalot_pool_set_sleep_contents(cachalot_allocator* allocator,
                                                              int32_t device, cachalot_pool_id id,
                                                              const char* label, int32_t contents,
                                                              cachalot_error* error);

/**
 * What sleeps of a pool.
 *
 * @param id  (0, 0): of all pools of the device.
 * @return CACHALOT_OK; CACHALOT_ERROR_INVALID_STATE for a pool that does not exist. Any thread.
 */
CACHALOT_API cachalot_status cachalot_get_sleep_stats(cachalot_allocator* allocator, int32_t device,
                                                      cachalot_pool_id id,
                                                      cachalot_sleep_stats* out_stats,
                                                      cachalot_error* error);

/**
 * Lets a pool of a tenant be put to sleep when the tenant is asked for memory (tenant.h, rule 5), before its
 * callback is called, and so before anybody is refused. The tenant needs no callback for that. Where the pool
 * cannot sleep, or has no memory, the callback is called as always.
 *
 * So a pool can fall asleep at any time. A caller that uses its memory keeps it awake by routing to it until the work
 * is done (cachalot_pool_begin, with CACHALOT_ROUTE_NONE where nothing is to be allocated): that fails while the
 * pool sleeps, and a pool that is routed to does not fall asleep.
 *
 * @param tenant    Of this allocator.
 * @param contents  As of cachalot_pool_sleep. CACHALOT_SLEEP_NEVER: not any more, but for requests that ask the
 *                  tenant just now.
 * @param stream    As of cachalot_pool_sleep. The thread that waits for memory waits for it.
 * @return CACHALOT_OK; CACHALOT_ERROR_INVALID_ARGUMENT for a tenant of another allocator, a device or contents
 * that do not exist. The pool need not exist yet. Any thread.
 */
CACHALOT_API cachalot_status cachalot_tenant_set_sleep(cachalot_allocator* allocator,
                                                       cachalot_tenant* tenant, int32_t device,
                                                       cachalot_pool_id id, int32_t contents,
                                                       cachalot_stream stream,
                                                       cachalot_error* error);

#ifdef __cplusplus
}
#endif

#endif /* CACHALOT_SLEEP_H_ */
