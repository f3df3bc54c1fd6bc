/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/**
 * @file stats.h
 * Statistics: PyTorch's counters as structs, the common ones as one call, the summary as text.
 *
 * Every number is PyTorch's, peaks included. Under several threads it is that of some real order of
 * the calls. Reading costs a short hold of the device's lock and no walk. Any thread.
 */
#ifndef CACHALOT_STATS_H_
#define CACHALOT_STATS_H_

#include "cachalot/allocator.h"

#ifdef __cplusplus
extern "C" {
#endif

/** One statistic: a count or a number of bytes. Without resets current = allocated - freed. */
typedef struct cachalot_stat {
  /** Now. */
  int64_t current;
  /** The highest `current` since the last cachalot_reset_peak_stats. */
  int64_t peak;
  /** All increases, and all decreases, since the last cachalot_reset_accumulated_stats. */
  int64_t allocated;
  int64_t freed;
} cachalot_stat;

/** A statistic by kind of pool: small blocks are those of requests up to 1 MiB. */
typedef struct cachalot_stat_array {
  cachalot_stat all;
  cachalot_stat small_pool;
  cachalot_stat large_pool;
} cachalot_stat_array;

/** The statistics of one device, as torch.cuda.memory_stats has them. */
typedef struct cachalot_stats {
  /** sizeof(cachalot_stats), set by the caller. */
  size_t struct_size;
  /** Blocks handed out. */
  cachalot_stat_array allocation;
  /** Segments obtained (expandable ones are not counted). */
  cachalot_stat_array segment;
  /** Blocks handed out or waiting for recorded streams after their free. */
  cachalot_stat_array active;
  /** Free pieces of segments that are partly in use, so that no release can give them back. */
  cachalot_stat_array inactive_split;
  /** The same in bytes; reserved_bytes is what was obtained from the driver. */
  cachalot_stat_array allocated_bytes;
  cachalot_stat_array reserved_bytes;
  cachalot_stat_array active_bytes;
  cachalot_stat_array inactive_split_bytes;
  /** What callers asked for, of the active blocks. */
  cachalot_stat_array requested_bytes;
  /** Blocks and segments of max_split_size and more. */
  cachalot_stat oversize_allocations;
  cachalot_stat oversize_segments;
  /** Requests to the driver after the whole cache was released. */
  int64_t num_alloc_retries;
  /** Out-of-memory errors given to callers. */
  int64_t num_ooms;
  /** Waits for all recorded streams. */
  int64_t num_sync_all_streams;
  /** Segments obtained or ranges mapped; segments given back or ranges unmapped. */
  int64_t num_device_alloc;
  int64_t num_device_free;
  /** The option max_split_size in bytes when the allocator was made; -1: unlimited. */
  int64_t max_split_size;
  /** Requests refused by throw_on_cudamalloc_oom (since 2.12). */
  int64_t num_oom_rejections;
} cachalot_stats;

/** Bytes reserved by one private pool (since 2.13). Rows stay when their pool goes. */
typedef struct cachalot_pool_stats {
  /** sizeof(cachalot_pool_stats), set by the caller. */
  size_t struct_size;
  cachalot_pool_id pool;
  cachalot_stat_array reserved_bytes;
} cachalot_pool_stats;

/** Bytes of a label in its statistics, its final NUL included; a longer one is cut. */
#define CACHALOT_LABEL_CAPACITY 256

/** What was handed out under one label (cachalot_label_push) while
 * cachalot_allocator_options::track_labels is on. */
typedef struct cachalot_label_stats {
  /** sizeof(cachalot_label_stats), set by the caller. */
  size_t struct_size;
  /** The labels of the thread that asked, outermost first, joined by "/". */
  char label[CACHALOT_LABEL_CAPACITY];
  /** Blocks handed out, and their bytes. */
  cachalot_stat allocation;
  cachalot_stat allocated_bytes;
} cachalot_label_stats;

/** The statistics of a device. CACHALOT_ERROR_INVALID_ARGUMENT for a device that the driver does
 * not have. */
CACHALOT_API cachalot_status cachalot_get_stats(cachalot_allocator* allocator, int32_t device,
                                                cachalot_stats* out_stats, cachalot_error* error);

/** Sets every peak to its current value. */
CACHALOT_API cachalot_status cachalot_reset_peak_stats(cachalot_allocator* allocator,
                                                       int32_t device, cachalot_error* error);

/** Sets all sums (allocated, freed) and the num_ counters to 0. */
CACHALOT_API cachalot_status cachalot_reset_accumulated_stats(cachalot_allocator* allocator,
                                                              int32_t device,
                                                              cachalot_error* error);

/**
 * The common numbers, in bytes: handed out, obtained from the driver, handed out or waiting; now,
 * and the highest since the peaks were reset. 0 for NULL or a device that the driver does not have.
 */
CACHALOT_API uint64_t cachalot_memory_allocated(cachalot_allocator* allocator, int32_t device);
CACHALOT_API uint64_t cachalot_max_memory_allocated(cachalot_allocator* allocator, int32_t device);
CACHALOT_API uint64_t cachalot_memory_reserved(cachalot_allocator* allocator, int32_t device);
CACHALOT_API uint64_t cachalot_max_memory_reserved(cachalot_allocator* allocator, int32_t device);
CACHALOT_API uint64_t cachalot_memory_active(cachalot_allocator* allocator, int32_t device);
CACHALOT_API uint64_t cachalot_max_memory_active(cachalot_allocator* allocator, int32_t device);

/**
 * The table of torch.cuda.memory_summary, byte for byte.
 *
 * @param abbreviated  1: without the rows by kind of pool.
 * @param buffer       Gets the text, like snprintf; may be NULL with capacity 0.
 * @param out_length   The full length without the NUL; a text that does not fit is cut.
 */
CACHALOT_API cachalot_status cachalot_memory_summary(cachalot_allocator* allocator, int32_t device,
                                                     int32_t abbreviated, char* buffer,
                                                     size_t capacity, size_t* out_length,
                                                     cachalot_error* error);

/**
 * The rows of torch.cuda.memory_stats by name, "active.all.allocated" and so on, in its order.
 *
 * @param index     0 and up; 122 rows under release 2.11, 123 under 2.15.
 * @param out_name  Lives as long as the library.
 * @return CACHALOT_OK, or CACHALOT_ERROR_INVALID_ARGUMENT past the last row.
 */
CACHALOT_API cachalot_status cachalot_stats_at(const cachalot_stats* stats, int32_t release,
                                               size_t index, const char** out_name,
                                               int64_t* out_value);

/** How many private pools have had reserved bytes on a device; their rows are in ascending order of
 * the ids. */
CACHALOT_API cachalot_status cachalot_pool_stats_count(cachalot_allocator* allocator,
                                                       int32_t device, size_t* out_count,
                                                       cachalot_error* error);
/** One of these rows. CACHALOT_ERROR_INVALID_ARGUMENT past the last. */
CACHALOT_API cachalot_status cachalot_pool_stats_at(cachalot_allocator* allocator, int32_t device,
                                                    size_t index, cachalot_pool_stats* out_stats,
                                                    cachalot_error* error);

/** How many labels have been seen on a device; their rows are in the order of their first use. */
CACHALOT_API cachalot_status cachalot_label_stats_count(cachalot_allocator* allocator,
                                                        int32_t device, size_t* out_count,
                                                        cachalot_error* error);
/** One of these rows. CACHALOT_ERROR_INVALID_ARGUMENT past the last. */
CACHALOT_API cachalot_status cachalot_label_stats_at(cachalot_allocator* allocator, int32_t device,
                                                     size_t index, cachalot_label_stats* out_stats,
                                                     cachalot_error* error);

#ifdef __cplusplus
}
#endif

#endif /* CACHALOT_STATS_H_ */
