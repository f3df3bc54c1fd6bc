/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/**
 * @file sim.h
 * The `sim` driver: a device that keeps accounts and holds no memory.
 *
 * Everything that time or chance decides on a real device is in the caller's hand here: addresses,
 * when work on a stream is done, captures, errors. A program over it is deterministic. Its
 * addresses cannot be dereferenced. An allocation fails when the bytes in use and the new ones
 * exceed the capacity; what a stream-ordered pool keeps beyond its allocations does not count. Pinned memory
 * is ordinary memory of the system, and can be dereferenced.
 *
 * Without given addresses, each range lies at the lowest free place that is a multiple of 2 MiB,
 * from 0x700000000000 on (devices are 2^42 bytes apart).
 *
 * All functions: any thread; CACHALOT_ERROR_INVALID_ARGUMENT for a driver that is not `sim` or a
 * device that it does not have.
 */
#ifndef CACHALOT_SIM_H_
#define CACHALOT_SIM_H_

#include "cachalot/driver.h"

#ifdef __cplusplus
extern "C" {
#endif

/** @name Kinds of driver calls, to be added up in cachalot_sim_failure::calls. */
/** @{ */
#define CACHALOT_SIM_CALL_ALLOCATE 0x1u
#define CACHALOT_SIM_CALL_FREE 0x2u
#define CACHALOT_SIM_CALL_RESERVE 0x4u
#define CACHALOT_SIM_CALL_UNRESERVE 0x8u
#define CACHALOT_SIM_CALL_CREATE 0x10u
#define CACHALOT_SIM_CALL_RELEASE 0x20u
#define CACHALOT_SIM_CALL_MAP 0x40u
#define CACHALOT_SIM_CALL_UNMAP 0x80u
#define CACHALOT_SIM_CALL_SET_ACCESS 0x100u
#define CACHALOT_SIM_CALL_EXPORT 0x200u
#define CACHALOT_SIM_CALL_IMPORT 0x400u
#define CACHALOT_SIM_CALL_EVENT_CREATE 0x800u
#define CACHALOT_SIM_CALL_EVENT_RECORD 0x1000u
#define CACHALOT_SIM_CALL_EVENT_QUERY 0x2000u
#define CACHALOT_SIM_CALL_EVENT_SYNCHRONIZE 0x4000u
#define CACHALOT_SIM_CALL_SYNCHRONIZE 0x8000u /* of a stream or a device */
#define CACHALOT_SIM_CALL_CAPTURE_INFO 0x10000u
#define CACHALOT_SIM_CALL_ENABLE_PEER 0x20000u
#define CACHALOT_SIM_CALL_MEMORY_INFO 0x40000u
#define CACHALOT_SIM_CALL_FABRIC_STATE 0x80000u
#define CACHALOT_SIM_CALL_POOL_ALLOCATE 0x100000u
#define CACHALOT_SIM_CALL_POOL_FREE 0x200000u
#define CACHALOT_SIM_CALL_POOL_TRIM 0x400000u
#define CACHALOT_SIM_CALL_POOL_ATTRIBUTE 0x800000u /* read or set, also of graph memory */
#define CACHALOT_SIM_CALL_POOL_SET_ACCESS 0x1000000u
#define CACHALOT_SIM_CALL_STREAM_CREATE 0x2000000u
#define CACHALOT_SIM_CALL_STREAM_WAIT 0x4000000u   /* for an event */
#define CACHALOT_SIM_CALL_HOST_ALLOCATE 0x8000000u /* pinned memory */
#define CACHALOT_SIM_CALL_HOST_FREE 0x10000000u
#define CACHALOT_SIM_CALL_COPY 0x20000000u
/** @} */

/** @name Lines of cachalot_sim_read_calls beyond the usual ones, to be added up. */
/** @{ */
#define CACHALOT_SIM_LOG_CALLS 0x1u         /* the usual ones */
#define CACHALOT_SIM_LOG_HANDLES 0x2u       /* the handle type of each page */
#define CACHALOT_SIM_LOG_QUERIES 0x4u       /* event queries */
#define CACHALOT_SIM_LOG_CAPTURE_MODES 0x8u /* exchanges of the capture mode */
#define CACHALOT_SIM_LOG_WAITS 0x10u        /* streams that are made to wait for an event */
/** @} */

/** How a simulated driver is made. Zero means default in every field. */
typedef struct cachalot_sim_options {
  /** sizeof(cachalot_sim_options), set by the caller. */
  size_t struct_size;
  /** Bytes of a device, at most 4 TiB (2^42); 0: 80 GiB. */
  uint64_t capacity;
  /** Number of devices; 0: 1. */
  int32_t device_count;
  int32_t reserved_0;
} cachalot_sim_options;

/** Driver calls that shall fail. */
typedef struct cachalot_sim_failure {
  /** sizeof(cachalot_sim_failure), set by the caller. */
  size_t struct_size;
  /** CACHALOT_SIM_CALL_*, added up: the calls that are counted. */
  uint32_t calls;
  /** The code they give. CACHALOT_DRIVER_OUT_OF_MEMORY reads `oom` in the log, all others `error
   * N`. */
  int32_t code;
  /** So many calls of these kinds work first. */
  uint64_t after;
  /** So many fail then. 0: one. */
  uint64_t count;
} cachalot_sim_failure;

/**
 * Makes a simulated driver.
 *
 * @param options     NULL: all defaults.
 * @param out_driver  The caller owns one reference; give it back with cachalot_driver_destroy.
 * @return CACHALOT_OK, or CACHALOT_ERROR_INVALID_ARGUMENT for a capacity above 4 TiB, or for a
 * number of devices that is not 1 to 1024. Any thread.
 */
CACHALOT_API cachalot_status cachalot_sim_create(const cachalot_sim_options* options,
                                                 cachalot_driver** out_driver,
                                                 cachalot_error* error);

/**
 * Gives the addresses of the next segments and reservations of a device, in this order, in addition
 * to those given before; after them the driver chooses again. They are not checked against ranges
 * in use.
 *
 * @return CACHALOT_OK; CACHALOT_ERROR_INVALID_ARGUMENT for an address that no memory can have (0, not
 * a multiple of 512, or not below 2^63): then none of the list is given.
 */
CACHALOT_API cachalot_status cachalot_sim_give_addresses(cachalot_driver* driver, int32_t device,
                                                         const cachalot_address* addresses,
                                                         size_t count, cachalot_error* error);

/** Queues a piece of work on a stream; it stays unfinished, and events recorded from now on wait
 * for it, those of CACHALOT_STREAM_ALL too. That itself has no work of its own, and no capture: it is
 * CACHALOT_ERROR_INVALID_ARGUMENT here and in the calls below. */
CACHALOT_API cachalot_status cachalot_sim_queue_work(cachalot_driver* driver, int32_t device,
                                                     cachalot_stream stream, cachalot_error* error);

/** Finishes the oldest unfinished piece of work of a stream. */
CACHALOT_API cachalot_status cachalot_sim_finish_oldest(cachalot_driver* driver, int32_t device,
                                                        cachalot_stream stream,
                                                        cachalot_error* error);

/** Finishes all work of a stream. */
CACHALOT_API cachalot_status cachalot_sim_finish_stream(cachalot_driver* driver, int32_t device,
                                                        cachalot_stream stream,
                                                        cachalot_error* error);

/** Finishes all work of a device. */
CACHALOT_API cachalot_status cachalot_sim_finish_device(cachalot_driver* driver, int32_t device,
                                                        cachalot_error* error);

/**
 * Lets driver calls fail. Failures of other kinds or codes that were ordered before stay; one of
 * the same code that is still to come is replaced. Where several apply, codes other than out of
 * memory come first.
 */
CACHALOT_API cachalot_status cachalot_sim_fail(cachalot_driver* driver,
                                               const cachalot_sim_failure* failure,
                                               cachalot_error* error);

/** Leaves an error pending, as earlier work of the thread would; 0 clears it. */
CACHALOT_API cachalot_status cachalot_sim_set_pending_error(cachalot_driver* driver, int32_t code,
                                                            cachalot_error* error);

/** From now on each call of these kinds (CACHALOT_SIM_CALL_*) takes so long; 0 ends it. Sleeps from
 * 100 µs on. */
CACHALOT_API cachalot_status cachalot_sim_set_latency(cachalot_driver* driver, uint32_t calls,
                                                      uint64_t nanoseconds, cachalot_error* error);

/** Adds a process to the list of those that use the device. pid 0: this process. used in bytes. */
CACHALOT_API cachalot_status cachalot_sim_add_process(cachalot_driver* driver, int32_t device,
                                                      uint64_t pid, uint64_t used,
                                                      cachalot_error* error);

/**
 * What the device says of fabric handles.
 *
 * @param state        1: the device is part of a fabric; 0: it is not (default); negative: the
 * question fails.
 * @param create_code  What creating memory with a fabric handle gives: 0 works (default).
 */
CACHALOT_API cachalot_status cachalot_sim_set_fabric(cachalot_driver* driver, int32_t device,
                                                     int32_t state, int32_t create_code,
                                                     cachalot_error* error);

/** A stream is captured from now on. capture_id: not 0; names the capture. */
CACHALOT_API cachalot_status cachalot_sim_begin_capture(cachalot_driver* driver, int32_t device,
                                                        cachalot_stream stream, uint64_t capture_id,
                                                        cachalot_error* error);

/** The capture ends, for every stream in it. */
CACHALOT_API cachalot_status cachalot_sim_end_capture(cachalot_driver* driver, int32_t device,
                                                      uint64_t capture_id, cachalot_error* error);

/** Adds a graph node behind the stream's end nodes. */
CACHALOT_API cachalot_status cachalot_sim_add_node(cachalot_driver* driver, int32_t device,
                                                   cachalot_stream stream, cachalot_error* error);

/** to joins the capture of from, behind its present end nodes. */
CACHALOT_API cachalot_status cachalot_sim_fork_capture(cachalot_driver* driver, int32_t device,
                                                       cachalot_stream from, cachalot_stream to,
                                                       cachalot_error* error);

/** into waits for other: it gets the end nodes of both. */
CACHALOT_API cachalot_status cachalot_sim_join_capture(cachalot_driver* driver, int32_t device,
                                                       cachalot_stream into, cachalot_stream other,
                                                       cachalot_error* error);

/** What the device says of the memory of captured graphs, in bytes. The high marks follow. */
CACHALOT_API cachalot_status cachalot_sim_set_graph_memory(cachalot_driver* driver, int32_t device,
                                                           uint64_t used, uint64_t reserved,
                                                           cachalot_error* error);

/** Starts or stops (0) keeping the driver's calls as text. words: CACHALOT_SIM_LOG_*, added up. Off
 * at first. */
CACHALOT_API cachalot_status cachalot_sim_log_calls(cachalot_driver* driver, uint32_t words,
                                                    cachalot_error* error);

/**
 * Takes the calls that were kept since the last time, oldest first, one a line, each line ended by
 * "\n": `malloc SIZE ADDR` (or `malloc SIZE oom`, `malloc SIZE error E`), `free ADDR`, `reserve
 * SIZE ADDR`, `unreserve ADDR SIZE`, `create SIZE`, `map ADDR SIZE`, `access ADDR SIZE`, `unmap
 * ADDR SIZE`, `release`, `export type N`, `import type N`, `event_create`, `event_record STREAM`,
 * `event_sync STREAM`, `event_destroy`, `stream_sync STREAM`, `device_sync`, `peer_access A B`; of
 * stream-ordered memory `malloc_async SIZE STREAM ADDR`, `free_async ADDR STREAM`, `pool_trim
 * BYTES`, `pool_attribute NUMBER VALUE`, `pool_access`, `graph_attribute NUMBER VALUE`; sizes in
 * decimal, addresses and streams in hexadecimal; of pinned memory, whose addresses are the system's,
 * `host_alloc SIZE`, `host_free`, `host_register SIZE`, `host_unregister`; `copy SIZE STREAM`, and `copy_peer TO FROM
 * SIZE STREAM` with the numbers of the devices. With several devices `access` ends in ` device N`,
 * and `pool_access` in the device of the pool and the one that gets access.
 *
 * @param buffer      Gets whole lines and a NUL; may be NULL with capacity 0 to ask for the length.
 * @param capacity    Bytes of buffer. Lines that do not fit stay for the next call.
 * @param out_length  Bytes of text waiting before this call, without the NUL.
 */
CACHALOT_API cachalot_status cachalot_sim_read_calls(cachalot_driver* driver, char* buffer,
                                                     size_t capacity, size_t* out_length,
                                                     cachalot_error* error);

#ifdef __cplusplus
}
#endif

#endif /* CACHALOT_SIM_H_ */
