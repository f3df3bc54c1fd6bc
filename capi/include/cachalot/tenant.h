/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/**
 * @file tenant.h
 * Tenants: several users (models of a server, say) of one allocator, each with memory that the
 * others cannot take, a limit, and a callback that is asked to give memory back.
 *
 * Words: what a tenant *has* is the sum of the sizes of its blocks (allocated bytes, rounded), from
 * the hand-out until cachalot_free; its *guarantee* is what it can have at any time; its *limit*
 * what it can have at most. Guarantee and limit count on each device by itself. Requests that name
 * no tenant are those of the allocator's *default tenant*: no guarantee, no limit, priority 0, no
 * callback. The *capacity* of a device is the lesser of the memory limit (cachalot_set_memory_limit)
 * and of what the driver said was free or ours; it is asked when the first tenant is made, and again
 * before a request is refused for others' guarantees.
 *
 * Rules, for a request of tenant T on a device:
 *  1. Beyond T's limit: T's own callback is asked, then the request is refused.
 *  2. Within T's guarantee: nobody's guarantee refuses it, it can only fail by rule 4.
 *  3. Beyond T's guarantee, and it would leave less of the capacity than other tenants are
 *     guaranteed and do not have yet: callbacks are asked (rule 5), then the request is refused,
 *     even where memory is free.
 *  4. The device has no memory left, after the cache was given back and everything else that the
 *     allocator does: callbacks are asked (rule 5), then the request fails as it does without
 *     tenants.
 *  5. Callbacks are asked one at a time: the lowest priority first, of equal priority the tenant
 *     that has most above its guarantee. Asked are T itself, and others that have more than their
 *     guarantee: all of these if the request is within T's guarantee (then T comes last), else those
 *     whose priority is not above T's. After each that freed something the request is tried again;
 *     one that freed nothing, or whose bytes did not sink, is not asked again for this request.
 * So a tenant within its guarantee is not refused while another one has more than its own and gives.
 *
 * Limits of this: a guarantee is of bytes, not of a range: cached memory can be too fragmented for a
 * large block (rule 4; the error has the numbers). A block may be larger than its request by what is
 * not worth splitting off (up to 1 MiB, more with max_split_size_mb), so a tenant can come to have
 * that much more than its limit. Blocks that wait for other streams after their free count no
 * longer, but their memory comes back only then. What others have above their guarantees when a
 * guarantee is raised is asked of them when it is needed. Blocks of private pools count too, those
 * of a pool with a source of its own (cachalot_pool_source) like all others, although their bytes
 * may not be the device's; blocks made while caching is off do not.
 *
 * Callbacks run on the thread of the request with no lock held, maybe on several threads at the same
 * time. They may free, allocate (such a request asks no callbacks: it is served or refused), read
 * statistics, change, make and destroy other tenants. They must not wait for a thread that waits for
 * memory. An exception out of one counts as 0. A thread that is ended within one (pthread_exit, as Python does with
 * daemon threads at its end) waits for the end of the process.
 *
 * From the first tenant on all requests of the allocator are counted, which costs (docs/benchmarks.md);
 * without one nothing changes. Not with backend:cudaMallocAsync (CACHALOT_ERROR_NOT_SUPPORTED).
 */
#ifndef CACHALOT_TENANT_H_
#define CACHALOT_TENANT_H_

#include "cachalot/stats.h"

#ifdef __cplusplus
extern "C" {
#endif

/** A tenant of one allocator. May outlive it. */
typedef struct cachalot_tenant cachalot_tenant;

/** Bytes of a tenant's name, its final NUL included. */
#define CACHALOT_TENANT_NAME_CAPACITY 64

/** In the place of a device: all of them. */
#define CACHALOT_ALL_DEVICES (-1)

/** @name Why a callback is asked (cachalot_pressure::reason). */
/** @{ */
#define CACHALOT_PRESSURE_LIMIT 1     /* the tenant's own request is beyond its limit */
#define CACHALOT_PRESSURE_GUARANTEE 2 /* what others are guaranteed would not be left */
#define CACHALOT_PRESSURE_DEVICE 3    /* the device has no memory left */
/** @} */

/** What a callback is asked. */
typedef struct cachalot_pressure {
  /** sizeof(cachalot_pressure). */
  size_t struct_size;
  /** CACHALOT_PRESSURE_*. */
  int32_t reason;
  int32_t device;
  /** How many bytes would make room, as far as is known. */
  uint64_t missing_bytes;
  /** What the tenant that is asked has, and is guaranteed. */
  uint64_t allocated_bytes;
  uint64_t guaranteed_bytes;
  /** For whom: the id of the tenant (0: the default one), its name, its priority. */
  uint64_t requester;
  const char* requester_name;
  int32_t requester_priority;
  /** 1: the request is within that tenant's guarantee. */
  int32_t is_guaranteed;
} cachalot_pressure;

/**
 * Asks a tenant to free memory of its own. See the rules above.
 *
 * @param pressure  Borrowed until the callback returns.
 * @return The bytes that were freed; 0: none, the tenant is not asked again for this request.
 */
typedef uint64_t (*cachalot_pressure_fn)(void* user_data, const cachalot_pressure* pressure);

/** How a tenant is made. Zero means default in every field. */
typedef struct cachalot_tenant_options {
  /** sizeof(cachalot_tenant_options), set by the caller. */
  size_t struct_size;
  /** For messages, statistics and metrics; copied; less than CACHALOT_TENANT_NAME_CAPACITY bytes.
   * NULL or "": "tenant N". Two tenants may have the same. */
  const char* name;
  /** Bytes on each device. */
  uint64_t guaranteed_bytes;
  /** Bytes on each device; 0: none. Not below the guarantee. */
  uint64_t limit_bytes;
  /** Tenants of lower priority give first. */
  int32_t priority;
  int32_t reserved_0;
  /** NULL: the tenant is never asked. */
  cachalot_pressure_fn pressure;
  void* pressure_user_data;
  /** Called once with pressure_user_data when the tenant has been destroyed and no callback of it is
   * under way, or its allocator has ended and the handle is gone, or making it fails. May be NULL. */
  void (*pressure_destroy)(void* user_data);
} cachalot_tenant_options;

/** What one tenant has on one device. */
typedef struct cachalot_tenant_stats {
  /** sizeof(cachalot_tenant_stats), set by the caller. */
  size_t struct_size;
  /** Ascending in the order of creation, never used again; 0: the default tenant. */
  uint64_t id;
  int32_t device;
  int32_t priority;
  uint64_t guaranteed_bytes;
  /** 0: none. */
  uint64_t limit_bytes;
  /** Blocks that it has; their bytes; what was requested of them. */
  cachalot_stat allocation;
  cachalot_stat allocated_bytes;
  cachalot_stat requested_bytes;
  /** Its requests that ended as out of memory. */
  int64_t num_ooms;
  /** How often its callback was called or one of its pools was put to sleep for others (sleep.h), and by how many
   * bytes what it has sank meanwhile. */
  int64_t num_pressure_calls;
  int64_t pressure_freed_bytes;
  char name[CACHALOT_TENANT_NAME_CAPACITY];
  /** Bytes of its blocks whose pools sleep (sleep.h), which the figures above leave out. */
  uint64_t asleep_bytes;
} cachalot_tenant_stats;

/**
 * Makes a tenant.
 *
 * @return CACHALOT_OK; CACHALOT_ERROR_INVALID_ARGUMENT for a limit below the guarantee, a name that
 * is too long, or guarantees that together are more than a device's capacity;
 * CACHALOT_ERROR_NOT_SUPPORTED under backend:cudaMallocAsync; CACHALOT_ERROR_DRIVER if the driver
 * does not tell its memory. Any thread.
 */
CACHALOT_API cachalot_status cachalot_tenant_create(cachalot_allocator* allocator,
                                                    const cachalot_tenant_options* options,
                                                    cachalot_tenant** out_tenant,
                                                    cachalot_error* error);

/**
 * Ends a tenant and its handle, also after its allocator has ended. No other call with this handle
 * may be under way (calls of its callback may).
 *
 * @param tenant  NULL: nothing happens.
 * @return CACHALOT_OK; CACHALOT_ERROR_INVALID_STATE while it has live blocks, also such that sleep, while it is the tenant
 * of a thread (cachalot_tenant_begin), or from within its own callback: then nothing has happened
 * and the handle is still there.
 */
CACHALOT_API cachalot_status cachalot_tenant_destroy(cachalot_tenant* tenant,
                                                     cachalot_error* error);

/** cachalot_allocate for a tenant of this allocator. CACHALOT_ERROR_INVALID_ARGUMENT for one of
 * another allocator; CACHALOT_ERROR_INVALID_STATE while caching is off, unless CACHALOT_DISABLE=1 has it so: then the
 * block counts for no tenant. */
CACHALOT_API cachalot_status cachalot_allocate_for(cachalot_allocator* allocator,
                                                   cachalot_tenant* tenant, uint64_t size,
                                                   int32_t device, cachalot_stream stream,
                                                   cachalot_address* out_address,
                                                   cachalot_error* error);

/**
 * Makes this the tenant of all requests of the calling thread to its allocator that name none, until
 * the matching cachalot_tenant_end. These nest.
 */
CACHALOT_API cachalot_status cachalot_tenant_begin(cachalot_tenant* tenant, cachalot_error* error);

/** CACHALOT_ERROR_INVALID_STATE if this is not the tenant that the thread began last. */
CACHALOT_API cachalot_status cachalot_tenant_end(cachalot_tenant* tenant, cachalot_error* error);

/**
 * Guarantee and limit of a device, or of each (CACHALOT_ALL_DEVICES), for later requests. Blocks
 * stay what they are: a tenant may have more than a limit that was lowered.
 *
 * @param limit_bytes  0: none.
 * @return As of cachalot_tenant_create; all devices are changed, or none.
 */
CACHALOT_API cachalot_status cachalot_tenant_set_bytes(cachalot_tenant* tenant, int32_t device,
                                                       uint64_t guaranteed_bytes,
                                                       uint64_t limit_bytes, cachalot_error* error);

/** Changes the priority, for later requests. */
CACHALOT_API cachalot_status cachalot_tenant_set_priority(cachalot_tenant* tenant, int32_t priority,
                                                          cachalot_error* error);

/** What a tenant has on a device, with its guarantee, limit and priority. */
CACHALOT_API cachalot_status cachalot_get_tenant_stats(cachalot_tenant* tenant, int32_t device,
                                                       cachalot_tenant_stats* out_stats,
                                                       cachalot_error* error);

/** How many tenants an allocator has, the default one included: 1 or more once the first was made,
 * 0 before. */
CACHALOT_API cachalot_status cachalot_tenant_count(cachalot_allocator* allocator, size_t* out_count,
                                                   cachalot_error* error);

/**
 * One of them on a device: the default tenant, then the others in the order of their creation. Their
 * blocks and allocated bytes sum up to the device's (cachalot_get_stats).
 * CACHALOT_ERROR_INVALID_ARGUMENT past the last.
 */
CACHALOT_API cachalot_status cachalot_tenant_stats_at(cachalot_allocator* allocator, int32_t device,
                                                      size_t index,
                                                      cachalot_tenant_stats* out_stats,
                                                      cachalot_error* error);

#ifdef __cplusplus
}
#endif

#endif /* CACHALOT_TENANT_H_ */
