/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/**
 * @file report.h
 * Reports: who holds the memory of a device, and what is in the way of a request.
 *
 * Every reserved byte is in one row: a live block among the holders, and what is cached among the
 * reasons, by the first reason why the request cannot have it. docs/serving.md shows one.
 */
#ifndef CACHALOT_REPORT_H_
#define CACHALOT_REPORT_H_

#include "cachalot/allocator.h"

#ifdef __cplusplus
extern "C" {
#endif

/**
 * A picture of one device, and of one request for it. It keeps nothing alive, so it may outlive the
 * allocator, and never changes, so any thread may read it at any time.
 */
typedef struct cachalot_report cachalot_report;

/** The request that a report is about. Zero means default in every field. */
typedef struct cachalot_report_options {
  /** sizeof(cachalot_report_options), set by the caller. */
  size_t struct_size;
  int32_t device;
  int32_t reserved_0;
  /** Bytes, below 2^60; 0: no request in particular. */
  uint64_t size;
  /** Whose request it is: its pool is that to which requests of this stream and of the calling
   * thread are routed now. */
  cachalot_stream stream;
} cachalot_report_options;

/**
 * @name What would become of the request now (cachalot_report_numbers::outcome). Their names are
 * those of cachalot_report_outcome_name.
 */
/** @{ */
#define CACHALOT_OUTCOME_NO_REQUEST 0
#define CACHALOT_OUTCOME_FROM_CACHE 1  /* a cached block serves it */
#define CACHALOT_OUTCOME_FROM_DEVICE 2 /* the device has enough and no limit is in the way, or a */
                                       /* pool's own source is asked */
#define CACHALOT_OUTCOME_AFTER_RELEASE 3 /* if cached memory is released first, or by a pool with */
                                         /* CACHALOT_POOL_USE_ON_OOM */
#define CACHALOT_OUTCOME_FAILS 4
/** @} */

/**
 * @name Why a request cannot have memory that is not live (cachalot_report_reason::reason): the
 * first that applies. Their names are those of cachalot_report_reason_name.
 */
/** @{ */
#define CACHALOT_REASON_USABLE 0         /* it can, or there is no request */
#define CACHALOT_REASON_PENDING_EVENTS 1 /* freed; work on recorded streams was left when last */
                                         /* looked */
#define CACHALOT_REASON_PENDING_CAPTURE \
  2 /* freed while a capture was under way; waits for its end */
#define CACHALOT_REASON_OTHER_POOL 3
#define CACHALOT_REASON_OTHER_CLASS 4 /* small blocks for a large request, or the other way round */
#define CACHALOT_REASON_OTHER_STREAM 5
#define CACHALOT_REASON_EXPANDABLE 6 /* of expandable segments, which the request may not use */
#define CACHALOT_REASON_TOO_SMALL 7
#define CACHALOT_REASON_NOT_SPLIT \
  8 /* max_split_size_mb, or that it is a whole block, forbids to split it for so little */
/** @} */

/** The numbers of a report. Bytes, where nothing else is said. */
typedef struct cachalot_report_numbers {
  /** sizeof(cachalot_report_numbers), set by the caller. */
  size_t struct_size;
  int32_t device;
  /** CACHALOT_OUTCOME_*. */
  int32_t outcome;
  /** The request: as asked; rounded to the block it needs; the segment that the driver would be
   * asked for; its stream and its pool ((0,0): default). All 0 without a request. */
  uint64_t requested;
  uint64_t size;
  uint64_t segment_size;
  cachalot_stream stream;
  cachalot_pool_id pool;
  /** 1: it needs a small block. */
  int32_t is_small;
  int32_t reserved_0;
  /** What the device has; what of it is free; the allocator's limit (0: none). */
  uint64_t device_total;
  uint64_t device_free;
  uint64_t limit;
  /** Obtained from the driver: live blocks, those freed that wait, and free ones. */
  uint64_t reserved;
  uint64_t allocated;
  uint64_t pending;
  uint64_t cached;
  uint64_t largest_free_block;
  /** What cachalot_trim(keep_bytes 0, min_idle_ns 0) could give back. */
  uint64_t releasable;
  /** What pools that sleep (sleep.h) need to wake; not reserved. */
  uint64_t asleep;
} cachalot_report_numbers;

/** Live blocks of one label, tenant, stream and pool. */
typedef struct cachalot_report_holder {
  /** sizeof(cachalot_report_holder), set by the caller. */
  size_t struct_size;
  /** As cachalot_label_stats has it; "": none, or labels are not tracked. Lives as long as the
   * report. */
  const char* label;
  cachalot_stream stream;
  cachalot_pool_id pool;
  /** How many; their bytes; what callers asked for. */
  uint64_t blocks;
  uint64_t bytes;
  uint64_t requested;
  /** The id (cachalot_tenant_stats); 0: the default tenant. */
  uint32_t tenant;
  int32_t reserved_0;
} cachalot_report_holder;

/** Memory that is not live, by what is in the way. */
typedef struct cachalot_report_reason {
  /** sizeof(cachalot_report_reason), set by the caller. */
  size_t struct_size;
  /** CACHALOT_REASON_*. */
  int32_t reason;
  int32_t reserved_0;
  /** How many blocks; their bytes; those of the largest; what a trim could give back of them. */
  uint64_t blocks;
  uint64_t bytes;
  uint64_t largest;
  uint64_t releasable;
} cachalot_report_reason;

/**
 * Makes a report: of a request that may come ("why would it fail now?"), or of one that has failed,
 * with cachalot_error::requested, device and stream, also from within an out-of-memory observer
 * (cachalot_observe_out_of_memory), by when other threads may have changed something.
 *
 * Walks all blocks of the device with its lock held, asks the driver for its free memory, and
 * changes nothing: blocks that wait are not looked at anew.
 *
 * @param options     NULL: device 0, no request in particular.
 * @param out_report  The caller owns it; end it with cachalot_report_destroy.
 * @return CACHALOT_OK; CACHALOT_ERROR_INVALID_ARGUMENT for a device that the driver does not have
 * or a size of 2^60 and more; CACHALOT_ERROR_INVALID_STATE where the request would be routed to a
 * pool that is gone; CACHALOT_ERROR_DRIVER; CACHALOT_ERROR_NOT_SUPPORTED under
 * backend:cudaMallocAsync. Any thread.
 */
CACHALOT_API cachalot_status cachalot_report_create(cachalot_allocator* allocator,
                                                    const cachalot_report_options* options,
                                                    cachalot_report** out_report,
                                                    cachalot_error* error);

/** Ends a report. NULL: nothing. */
CACHALOT_API void cachalot_report_destroy(cachalot_report* report);

/** Its numbers. */
CACHALOT_API cachalot_status cachalot_report_get_numbers(const cachalot_report* report,
                                                         cachalot_report_numbers* out_numbers);

/** Who holds memory, most bytes first. 0 for NULL. */
CACHALOT_API size_t cachalot_report_holder_count(const cachalot_report* report);
/** One of them. CACHALOT_ERROR_INVALID_ARGUMENT past the last. */
CACHALOT_API cachalot_status cachalot_report_get_holder(const cachalot_report* report, size_t index,
                                                        cachalot_report_holder* out_holder);

/** The reasons that there are, most bytes first. 0 for NULL. */
CACHALOT_API size_t cachalot_report_reason_count(const cachalot_report* report);
/** One of them. CACHALOT_ERROR_INVALID_ARGUMENT past the last. */
CACHALOT_API cachalot_status cachalot_report_get_reason(const cachalot_report* report, size_t index,
                                                        cachalot_report_reason* out_reason);

/** For a request that fails: the line of its error that says which options would have made room;
 * else "". Lives as long as the report. "" for NULL. */
CACHALOT_API const char* cachalot_report_advice(const cachalot_report* report);

/** The report as a table of one screen, for logs. Text like snprintf. */
CACHALOT_API cachalot_status cachalot_report_text(const cachalot_report* report, char* buffer,
                                                  size_t capacity, size_t* out_length,
                                                  cachalot_error* error);

/**
 * The report as one JSON object (docs/serving.md lists its keys; "version" is raised when one
 * changes its meaning, new ones may come). All rows are there. Labels are any bytes: what is no
 * UTF-8 becomes U+FFFD. Text like snprintf.
 */
CACHALOT_API cachalot_status cachalot_report_json(const cachalot_report* report, char* buffer,
                                                  size_t capacity, size_t* out_length,
                                                  cachalot_error* error);

/** "too_small", "from_cache", ...: the words of the JSON; "unknown" for a number that is none. Any
 * thread. */
CACHALOT_API const char* cachalot_report_reason_name(int32_t reason);
CACHALOT_API const char* cachalot_report_outcome_name(int32_t outcome);

#ifdef __cplusplus
}
#endif

#endif /* CACHALOT_REPORT_H_ */
