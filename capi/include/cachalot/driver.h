/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/**
 * @file driver.h
 * Drivers: where an allocator gets its memory from.
 *
 * A driver knows its devices. There are four: `cuda` (NVIDIA GPUs), `host` (ordinary memory, so
 * that everything runs without a GPU), `sim` (accounting only, see sim.h) and `custom` (a table of
 * functions of the caller).
 *
 * `cuda` opens libcuda.so.1 when it is made (CUDA 11.3 or newer) and uses the devices' primary
 * contexts, as the CUDA runtime does; a context is made at a device's first use. Its calls work on
 * any thread and leave the thread's current context as it was. Streams are the driver's handles:
 * CUstream or cudaStream_t as a number, 0 being the legacy default stream and 2 the calling
 * thread's own default stream: memory that is cached for one thread's is not handed to another's, and
 * results and texts name each by a number above 2^63 (callbacks get the handle). While such a stream
 * is captured, no other thread may free a block that it used. `cuda` has virtual memory, and
 * stream-ordered memory, where every device has it. In a child that was forked later every call fails.
 */
#ifndef CACHALOT_DRIVER_H_
#define CACHALOT_DRIVER_H_

#include "cachalot/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/** A source of device memory. Counted: the caller holds one reference, each allocator one more. */
typedef struct cachalot_driver cachalot_driver;

/** @name Driver codes that the library itself looks at; all others are passed on as they are. */
/** @{ */
#define CACHALOT_DRIVER_SUCCESS 0
#define CACHALOT_DRIVER_INVALID_VALUE 1
#define CACHALOT_DRIVER_OUT_OF_MEMORY 2
#define CACHALOT_DRIVER_NOT_READY 600
#define CACHALOT_DRIVER_NOT_SUPPORTED 801
/** @} */

/** @name Kinds of a shareable handle of physical memory (cachalot_device_ops::create). */
/** @{ */
#define CACHALOT_HANDLE_NONE 0
#define CACHALOT_HANDLE_POSIX_FD 1
#define CACHALOT_HANDLE_FABRIC 8
/** @} */

/** What a device says of a stream that may be captured into a graph. */
typedef struct cachalot_capture_info {
  /** sizeof(cachalot_capture_info). */
  size_t struct_size;
  /** 1 while the stream is captured, else 0 and the rest is 0. */
  int32_t capturing;
  int32_t reserved_0;
  /** Names the capture; every stream of one capture has the same. */
  uint64_t capture_id;
  /** The graph that is being made. */
  uint64_t graph;
  /** The graph nodes that the stream's next node will depend on; valid until the next call. */
  const uint64_t* nodes;
  size_t node_count;
} cachalot_capture_info;

/** A process that uses the device, as the management library lists it. */
typedef struct cachalot_device_process {
  uint64_t pid;
  /** Bytes of device memory in use by it. */
  uint64_t used;
} cachalot_device_process;

/** An exported handle of physical memory: 4 bytes of a file descriptor or 64 of a fabric handle. */
typedef struct cachalot_shareable_handle {
  uint8_t bytes[64];
} cachalot_shareable_handle;

/**
 * A driver made by the caller: one function for each thing that an allocator asks of a device.
 *
 * Every function gets the user_data of cachalot_driver_create_custom first, then the device's
 * index, and returns the driver's own code: 0 for success, CACHALOT_DRIVER_OUT_OF_MEMORY where
 * memory is short, any other number as an error that is passed on. Results are never NULL; sizes
 * are above 0.
 *
 * A NULL function means "not supported": options that need it give CACHALOT_ERROR_NOT_SUPPORTED.
 * Needed at least: memory_info, allocate, free. Without the event functions a device counts as
 * synchronous.
 *
 * Functions are called with the allocator's device lock held, from any thread, and must not call
 * back into that allocator. (allocate is called without the lock under
 * `release_lock_on_cudamalloc:True`, processes always, events, waits and exchange_capture_mode where a pool falls
 * asleep or wakes; while caching is off every call is, and allocate may be asked for 0 bytes.)
 *
 * What allocate, reserve and pool_allocate give has to be a range that memory can have: not at 0,
 * ending below 2^63, of at most 2^47 bytes, and where it is cached at a multiple of 512 and apart
 * from what the device's live segments have. Anything else is given back at once (but for what lies
 * over a live segment), and the request ends as CACHALOT_ERROR_INVALID_STATE with the numbers;
 * nothing else has changed.
 */
typedef struct cachalot_device_ops {
  /** sizeof(cachalot_device_ops), set by the caller. */
  size_t struct_size;

  /** Bytes that are free on the device, and that it has in all. */
  int32_t (*memory_info)(void* user_data, int32_t device, uint64_t* out_free, uint64_t* out_total);
  /** A new range of size bytes. */
  int32_t (*allocate)(void* user_data, int32_t device, uint64_t size,
                      cachalot_address* out_address);
  /** Gives back what allocate gave. */
  int32_t (*free)(void* user_data, int32_t device, cachalot_address address);

  /** @name Virtual memory, for `expandable_segments:True`: all of them or none. */
  /** @{ */
  int32_t (*reserve)(void* user_data, int32_t device, uint64_t size, cachalot_address* out_address);
  int32_t (*unreserve)(void* user_data, int32_t device, cachalot_address address, uint64_t size);
  /** The unit of create, map and unmap, in bytes. */
  int32_t (*granularity)(void* user_data, int32_t device, uint64_t* out_bytes);
  /** Physical memory. handle_type: CACHALOT_HANDLE_*; rdma: 1 to ask for memory that network cards
   * reach. */
  int32_t (*create)(void* user_data, int32_t device, uint64_t size, int32_t handle_type,
                    int32_t rdma, uint64_t* out_handle);
  /** A descriptor that it gives belongs to the allocator, which closes it. A descriptor that import_handle gets stays
   * the allocator's. */
  int32_t (*export_handle)(void* user_data, int32_t device, uint64_t handle, int32_t handle_type,
                           cachalot_shareable_handle* out_shareable);
  int32_t (*import_handle)(void* user_data, int32_t device,
                           const cachalot_shareable_handle* shareable, int32_t handle_type,
                           uint64_t* out_handle);
  /** The memory stays as long as it is mapped somewhere. */
  int32_t (*release)(void* user_data, int32_t device, uint64_t handle);
  /** Under the serving policy the handle may be mapped at another address, too, for a while, if
   * event_record_all is there. */
  int32_t (*map)(void* user_data, int32_t device, cachalot_address address, uint64_t size,
                 uint64_t handle);
  int32_t (*unmap)(void* user_data, int32_t device, cachalot_address address, uint64_t size);
  /** Lets accessing_device read and write a mapped range of device. */
  int32_t (*set_access)(void* user_data, int32_t device, cachalot_address address, uint64_t size,
                        int32_t accessing_device);
  /** 1 if the device is part of a fabric, 0 if not; an error counts as 0. May be NULL: no fabric.
   */
  int32_t (*fabric_state)(void* user_data, int32_t device, int32_t* out_state);
  /** @} */

  /** @name Events, for blocks used on several streams: all of them or none. event_record and
   * stream_synchronize get CACHALOT_STREAM_ALL for an event of all streams, and to wait for them, where an
   * allocator's caller uses it; capture_info, stream_wait_event and the pool functions never do. */
  /** @{ */
  int32_t (*event_create)(void* user_data, int32_t device, uint64_t* out_event);
  int32_t (*event_destroy)(void* user_data, int32_t device, uint64_t event);
  int32_t (*event_record)(void* user_data, int32_t device, uint64_t event, cachalot_stream stream);
  /** 0 once all work before the event is done, CACHALOT_DRIVER_NOT_READY until then. */
  int32_t (*event_query)(void* user_data, int32_t device, uint64_t event);
  int32_t (*event_synchronize)(void* user_data, int32_t device, uint64_t event);
  /** @} */
  int32_t (*stream_synchronize)(void* user_data, int32_t device, cachalot_stream stream);
  int32_t (*device_synchronize)(void* user_data, int32_t device);

  /** @name Graph captures. May be NULL: no stream is ever captured. */
  /** @{ */
  int32_t (*capture_info)(void* user_data, int32_t device, cachalot_stream stream,
                          cachalot_capture_info* out_info);
  /** The nodes that a node depends on; *out_nodes stays valid until the next call. */
  int32_t (*node_dependencies)(void* user_data, int32_t device, uint64_t node,
                               const uint64_t** out_nodes, size_t* out_count);
  /** Sets the calling thread's capture mode (0 global, 1 thread local, 2 relaxed) and returns the
   * former. */
  int32_t (*exchange_capture_mode)(void* user_data, int32_t device, int32_t* inout_mode);
  /** @} */

  /** Lets device use the memory of peer; "already enabled" is success. May be NULL. */
  int32_t (*enable_peer)(void* user_data, int32_t device, int32_t peer);
  /** Copies up to capacity rows and says how many there are. May be NULL. */
  int32_t (*processes)(void* user_data, int32_t device, cachalot_device_process* rows,
                       size_t capacity, size_t* out_count);
  /** An error that earlier work of the calling thread left behind, and clears it. May be NULL. */
  int32_t (*take_pending_error)(void* user_data, int32_t device);
  /** The driver's words for a code, for example "out of memory"; lives as long as the driver. May
   * be NULL. */
  const char* (*error_text)(void* user_data, int32_t code);

  /** @name Stream-ordered memory, for `backend:cudaMallocAsync`: the device's default pool. All of
   * them or none; without pool_set_access peers get no access, without the graph_ functions graphs
   * have no memory of their own. */
  /** @{ */
  int32_t (*pool_allocate)(void* user_data, int32_t device, uint64_t size, cachalot_stream stream,
                           cachalot_address* out_address);
  int32_t (*pool_free)(void* user_data, int32_t device, cachalot_address address,
                       cachalot_stream stream);
  int32_t (*pool_trim)(void* user_data, int32_t device, uint64_t keep_bytes);
  /** Attributes by their numbers in cuda.h (CUmemPool_attribute, CUgraphMem_attribute). */
  int32_t (*pool_get_attribute)(void* user_data, int32_t device, int32_t attribute,
                                uint64_t* out_value);
  int32_t (*pool_set_attribute)(void* user_data, int32_t device, int32_t attribute, uint64_t value);
  int32_t (*pool_set_access)(void* user_data, int32_t device, int32_t accessing_device);
  int32_t (*graph_get_attribute)(void* user_data, int32_t device, int32_t attribute,
                                 uint64_t* out_value);
  int32_t (*graph_set_attribute)(void* user_data, int32_t device, int32_t attribute,
                                 uint64_t value);
  int32_t (*stream_create)(void* user_data, int32_t device, cachalot_stream* out_stream);
  int32_t (*stream_wait_event)(void* user_data, int32_t device, cachalot_stream stream,
                               uint64_t event);
  /** @} */
  /** The event comes when all work that any stream of the device has been given so far is done. NULL: the
   * serving policy waits on the host before pages move, and where it does not know whether streams still exist.
   * It then moves no page where new ones are to be had, unless with `thrift`. */
  int32_t (*event_record_all)(void* user_data, int32_t device, uint64_t event);

  /** @name Pinned host memory (pinned.h): both or none. It is of no device, and device is 0. Called without a
   * lock, from any thread. */
  /** @{ */
  /** Memory that the host can read and write and every device reaches, at a multiple of 512. register_threads:
   * 0, or under `pinned_use_cuda_host_register:True` how many threads are to touch ordinary memory before it is
   * registered with the driver. */
  int32_t (*host_allocate)(void* user_data, int32_t device, uint64_t size, int32_t register_threads,
                           cachalot_address* out_address);
  /** Gives back what host_allocate gave. registered: 1 where it was asked for with threads. */
  int32_t (*host_free)(void* user_data, int32_t device, cachalot_address address,
                       int32_t registered);
  /** @} */

  /** @name Copies (cachalot_copy, cachalot_pool_sleep): both or none. They are queued on a stream of the first
   * device, and the host does not wait. Called without a lock, from any thread. */
  /** @{ */
  /** From and to memory that the device reaches, pinned host memory included. */
  int32_t (*copy)(void* user_data, int32_t device, cachalot_address to, cachalot_address from,
                  uint64_t size, cachalot_stream stream);
  /** Where neither device need have access to the other. */
  int32_t (*copy_peer)(void* user_data, int32_t to_device, cachalot_address to, int32_t from_device,
                       cachalot_address from, uint64_t size, cachalot_stream stream);
  /** @} */

  /** @name Whole allocations (allocate) between processes (share.h): all of them or none. */
  /** @{ */
  /** 64 bytes by which another process opens the allocation that begins at the address. */
  int32_t (*ipc_get)(void* user_data, int32_t device, cachalot_address address,
                     cachalot_shareable_handle* out_handle);
  /** The allocation of another process at addresses of this one. The same handle is opened once a device. */
  int32_t (*ipc_open)(void* user_data, int32_t device, const cachalot_shareable_handle* handle,
                      cachalot_address* out_address);
  /** Gives back what ipc_open gave. */
  int32_t (*ipc_close)(void* user_data, int32_t device, cachalot_address address);
  /** @} */
} cachalot_device_ops;

/**
 * Opens a driver by name.
 *
 * @param name  "cuda", "host", "host-shared" or "sim", each alone or with a capacity, a number with
 *              B, KiB, MiB, GiB or TiB ("sim:80GiB"; without a unit: bytes). "host-shared" is `host`
 *              with memory that other processes can be given (share.h). Without a capacity `host` has
 *              4 GiB and `sim` 80 GiB (at most 4 TiB), on one device, and each device of `cuda` has what it
 *              has (with one no device gives more than that). "cuda:cgroup": what the control group of the
 *              process allows it of each device (the kernel's dmem controller; docs/serving.md). NULL or "":
 *              the environment variable CACHALOT_DRIVER, and if that is unset too "cuda" where a driver can be
 *              opened, else "host".
 * @param out_driver  The caller owns one reference; give it back with cachalot_driver_destroy.
 * @return CACHALOT_OK; CACHALOT_ERROR_INVALID_ARGUMENT for a name that is none of these;
 *         CACHALOT_ERROR_DRIVER_UNAVAILABLE where the driver or the device is missing. Any thread.
 */
CACHALOT_API cachalot_status cachalot_driver_open(const char* name, cachalot_driver** out_driver,
                                                  cachalot_error* error);

/**
 * A driver over ordinary memory: addresses can be read and written, work is done when a call
 * returns.
 *
 * @param capacity      Bytes a device has; 0: 4 GiB. Touched memory only is taken from the system.
 * @param device_count  Devices; 0: 1.
 * @return CACHALOT_OK or CACHALOT_ERROR_INVALID_ARGUMENT. Any thread.
 */
CACHALOT_API cachalot_status cachalot_driver_create_host(uint64_t capacity, int32_t device_count,
                                                         cachalot_driver** out_driver,
                                                         cachalot_error* error);

/**
 * A driver made of the caller's functions.
 *
 * @param ops           Copied. Functions beyond its struct_size count as NULL.
 * @param device_count  Devices, at least 1.
 * @param user_data     Passed to each function.
 * @param destroy       Called once with user_data when the last reference is gone, and at once if
 * this call fails. May be NULL.
 * @return CACHALOT_OK, or CACHALOT_ERROR_INVALID_ARGUMENT for a missing function or device. Any
 * thread.
 */
CACHALOT_API cachalot_status cachalot_driver_create_custom(const cachalot_device_ops* ops,
                                                           int32_t device_count, void* user_data,
                                                           void (*destroy)(void* user_data),
                                                           cachalot_driver** out_driver,
                                                           cachalot_error* error);

/** Gives the caller's reference back; the driver goes when its last allocator has gone. NULL, or
 * a driver of which the caller has no reference (given back already, or borrowed from
 * cachalot_allocator_driver): nothing. Any thread. */
CACHALOT_API void cachalot_driver_destroy(cachalot_driver* driver);

/** "cuda", "host", "sim", "custom", or "pinned" (cachalot_pinned_allocator); lives as long as the library. NULL
 * gives "". Any thread. */
CACHALOT_API const char* cachalot_driver_name(const cachalot_driver* driver);

/** How many devices the driver has; 0 for NULL. Any thread. */
CACHALOT_API int32_t cachalot_driver_device_count(const cachalot_driver* driver);

#ifdef __cplusplus
}
#endif

#endif /* CACHALOT_DRIVER_H_ */
