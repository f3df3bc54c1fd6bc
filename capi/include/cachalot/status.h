/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/**
 * @file status.h
 * Versions, statuses and the error record: what every other part of the interface builds on.
 */
#ifndef CACHALOT_STATUS_H_
#define CACHALOT_STATUS_H_

#include <stddef.h>
#include <stdint.h>

#include "cachalot/export.h"
#include "cachalot/version.h"

#ifdef __cplusplus
extern "C" {
#endif

/** An address in device memory (the value of a CUdeviceptr). 0 is no address. */
typedef uint64_t cachalot_address;

/** A stream (the value of a cudaStream_t). 0 is the default stream. */
typedef uint64_t cachalot_stream;

/**
 * Every stream of the device's context, for callers that do not know which streams use a block, such as
 * finalizers.
 *
 * cachalot_record_stream: after its free the block stays out of use until all work is done that is queued
 * by then on any stream. That is one event, however many streams there are. Before CUDA 12.5 the driver has
 * no such event: the free waits on the host until the context has done its work.
 *
 * As the stream of a request: the block belongs to no stream. Freed without a recorded use it serves the
 * next request for CACHALOT_STREAM_ALL at once. It is no queue whose work is in order, so its use is not
 * ignored where the block is its own.
 *
 * While a stream of the context is captured, an event of all streams, or a wait for them, ends the capture
 * with CUDA's error 901. So a capture has to be marked (cachalot_capture_begin, release 2.15), and blocks with
 * such a use are freed by cachalot_free_on_stream, and requests made by cachalot_allocate_with, with this as the
 * current stream: then what is freed waits for the end of the captures. With poison or red zones no block of it
 * may be requested or freed meanwhile. It is itself never captured.
 *
 * CACHALOT_ERROR_INVALID_ARGUMENT under backend:cudaMallocAsync, and for cachalot_stream_ended.
 */
#define CACHALOT_STREAM_ALL 0xffffffffffffffffu

/**
 * What a call came to. Numbers never change; new ones may be added, so a binding keeps the number
 * of one that it does not know.
 */
typedef enum cachalot_status {
  /** It worked. */
  CACHALOT_OK = 0,
  /** An argument, an address or an option string is not acceptable; nothing has changed. */
  CACHALOT_ERROR_INVALID_ARGUMENT = 1,
  /** The call does not fit the present state (a pool that is not routed to, live blocks, ...). */
  CACHALOT_ERROR_INVALID_STATE = 2,
  /** The chosen release, driver or build has no such thing. */
  CACHALOT_ERROR_NOT_SUPPORTED = 3,
  /** The device has not enough memory, or a limit refuses it. The allocator stays usable. */
  CACHALOT_ERROR_OUT_OF_MEMORY = 10,
  /** The process has not enough ordinary memory for bookkeeping. */
  CACHALOT_ERROR_OUT_OF_HOST_MEMORY = 11,
  /** The device driver reported an error; its code is in cachalot_error::driver_code. */
  CACHALOT_ERROR_DRIVER = 20,
  /** No device driver could be opened. */
  CACHALOT_ERROR_DRIVER_UNAVAILABLE = 21,
  /** A callback of the caller reported failure. */
  CACHALOT_ERROR_CALLBACK = 30,
  /** Input could not be read or is not well formed. */
  CACHALOT_ERROR_IO = 40,
  /** A defect of the library. Please report it. */
  CACHALOT_ERROR_INTERNAL = 90,
  CACHALOT_STATUS_FORCE_INT32 = 0x7fffffff
} cachalot_status;

/** Bytes of cachalot_error::message, its final NUL included. */
#define CACHALOT_MESSAGE_CAPACITY 4096

/**
 * Why a call failed. The caller owns it, on the stack if it likes; nothing in it needs to be freed,
 * and it never goes stale: a call that fails fills it, a call that succeeds leaves it alone.
 *
 * Start with CACHALOT_ERROR_INIT. Every function takes a NULL in its place.
 */
typedef struct cachalot_error {
  /** sizeof(cachalot_error), set by the caller. */
  size_t struct_size;
  /** The cachalot_status that the call returned. */
  int32_t status;
  /** The driver's code behind CACHALOT_ERROR_DRIVER, else 0. */
  int32_t driver_code;

  /** @name Numbers of CACHALOT_ERROR_OUT_OF_MEMORY; 0 for every other status. Bytes, but for device
   * and stream. */
  /** @{ */
  /** What was asked for. */
  uint64_t requested;
  /** What would have been asked from the driver: the size of the new segment. */
  uint64_t segment_size;
  /** Free on the device, and all that it has, as the driver says. */
  uint64_t device_free;
  uint64_t device_total;
  /** The limit in force (cachalot_set_memory_fraction), 0 if there is none. */
  uint64_t limit;
  /** Handed out; obtained from the driver; cached in private pools. */
  uint64_t allocated;
  uint64_t reserved;
  uint64_t private_pools_free;
  /** The largest cached block of any pool and stream. */
  uint64_t largest_free_block;
  /** The stream asked for. */
  cachalot_stream stream;
  /** The device asked for. */
  int32_t device;
  int32_t reserved_0;
  /** @} */

  /** UTF-8, NUL-terminated; a longer text ends in "...". One line, but for out of memory of the
      native backend, which has a second one (unless more than 2^60 bytes were asked for):
      "cachalot: ...", the largest free block, and the options that would have made room. Where the
      first line tells a user something it is the reference's own, word for word. */
  char message[CACHALOT_MESSAGE_CAPACITY];
} cachalot_error;

/** Initialises a cachalot_error: `cachalot_error error = CACHALOT_ERROR_INIT;` */
#ifdef __cplusplus
#define CACHALOT_ERROR_INIT                                                 \
  {                                                                         \
    sizeof(cachalot_error), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, { 0 } \
  }
#else
#define CACHALOT_ERROR_INIT \
  { .struct_size = sizeof(cachalot_error) }
#endif

/** One status, for a binding that wants to check that it knows them all. */
typedef struct cachalot_status_description {
  /** sizeof(cachalot_status_description), set by the caller. */
  size_t struct_size;
  /** The number. */
  int32_t status;
  int32_t reserved_0;
  /** Its name, for example "OUT_OF_MEMORY"; lives as long as the library. */
  const char* name;
  /** One sentence; lives as long as the library. */
  const char* text;
} cachalot_status_description;

/** The version of the library that is loaded, for example "0.1.0". Any thread; never fails. */
CACHALOT_API const char* cachalot_version(void);

/**
 * The version as a number, major * 10000 + minor * 100 + patch: compare it with
 * CACHALOT_VERSION_NUMBER to see whether library and header are of one version. Any thread; never
 * fails.
 */
CACHALOT_API int32_t cachalot_version_number(void);

/** The name of a status, for example "OUT_OF_MEMORY"; "UNKNOWN" for a number that is none. Any
 * thread. */
CACHALOT_API const char* cachalot_status_name(int32_t status);

/** How many statuses there are. Any thread. */
CACHALOT_API size_t cachalot_status_count(void);

/**
 * One row of the list of statuses.
 *
 * @param index  0 to cachalot_status_count() - 1, in ascending order of the numbers.
 * @param out    Filled; its struct_size says how much of it the caller knows.
 * @return CACHALOT_OK, or CACHALOT_ERROR_INVALID_ARGUMENT for NULL or an index too large. Any
 * thread.
 */
CACHALOT_API cachalot_status cachalot_status_at(size_t index, cachalot_status_description* out);

#ifdef __cplusplus
}
#endif

#endif /* CACHALOT_STATUS_H_ */
