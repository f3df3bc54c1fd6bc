/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/**
 * @file recorder.h
 * Recorders: the history of an allocator as a trace (docs/trace-format.md, format 2) that is written
 * while the program runs; and what is left of an out-of-memory error.
 *
 * A recorder works whether or not history is recorded (cachalot_record_history), and changes no
 * decision. While one runs all threads share one order of events, so each call is slower
 * (docs/benchmarks.md has the numbers); without one a call costs what it costs.
 */
#ifndef CACHALOT_RECORDER_H_
#define CACHALOT_RECORDER_H_

#include "cachalot/history.h"

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Gets whole lines of a recording, up to 64 KiB at a time, in their order; returns 0, or any other
 * number on failure: then the recording is over and all later events are lost. Called on the thread
 * that fills the buffer, mostly with the lock of a device and always with that of the recorder held:
 * it must not call back.
 */
typedef int32_t (*cachalot_recording_write_fn)(void* user_data, const void* data, size_t size);

/** @name What stands in the field `context` of a recorded event (cachalot_recorder_options::contexts). */
/** @{ */
#define CACHALOT_RECORD_LABELS 0 /* the thread's labels (cachalot_label_push), with their texts */
#define CACHALOT_RECORD_HISTORY_CONTEXTS \
  1 /* the context that the history keeps (cachalot_history_options::context); the texts of new ones */
    /* are written by cachalot_recorder_flush and at the end */
#define CACHALOT_RECORD_NO_CONTEXTS 2
/** @} */

/** How a recording is made. Zero means default in every field; either path or write is needed. */
typedef struct cachalot_recorder_options {
  /** sizeof(cachalot_recorder_options), set by the caller. */
  size_t struct_size;
  /**
   * The name of the file, which is made with mode 0600; %p stands for the number of the process. A file that
   * exists is kept, and the new file gets a number behind its name (".2"). Copied. NULL or "": write
   * is called.
   */
  const char* path;
  /**
   * Bytes that the recording may take, at least 2 MiB; 0: any number. When half of them are used, the
   * file is kept beside as PATH.before, in the place of an earlier one, and a new one begins with all
   * blocks that are live, of which the recorder then keeps a table. 0 with write.
   */
  uint64_t max_bytes;
  /** CACHALOT_RECORD_*. */
  int32_t contexts;
  int32_t reserved_0;
  /** The name of the recorded program, for the header of the trace. Copied. NULL: "". */
  const char* workload;
  /** NULL with path. */
  cachalot_recording_write_fn write;
  void* write_user_data;
  /** Called once with write_user_data when the recorder has stopped, or starting it fails. May be NULL. */
  void (*write_destroy)(void* user_data);
} cachalot_recorder_options;

/** What a recorder has written. */
typedef struct cachalot_recorder_stats {
  /** sizeof(cachalot_recorder_stats), set by the caller. */
  size_t struct_size;
  /** Events that it has seen, blocks that were live included. */
  uint64_t events;
  /** Lines that it could not write: the disk is full, or write has failed. The first lost one ends the
   * recording, and the log hears of it. */
  uint64_t lost;
  /** Bytes that were written so far, of all files. */
  uint64_t bytes;
} cachalot_recorder_stats;

/**
 * Starts a recorder on all devices. The recording begins with the blocks that are live, and no event
 * comes between them and the first that is recorded, whatever other threads do. Blocks that bypass the
 * cache (cachalot_set_caching_enabled) have no events.
 *
 * A file is whole at any time, also while it is written and after the process was killed. Lines for
 * write are held back until there are 64 KiB of them. An allocator that ends stops its recorders.
 *
 * @param out_id  For the functions below. cachalot_detach with it is cachalot_recorder_stop.
 * @return CACHALOT_OK; CACHALOT_ERROR_INVALID_ARGUMENT for options that do not fit each other;
 * CACHALOT_ERROR_IO if the file cannot be made; CACHALOT_ERROR_NOT_SUPPORTED under
 * backend:cudaMallocAsync. Any thread, but not from within a trace observer.
 */
CACHALOT_API cachalot_status cachalot_recorder_start(cachalot_allocator* allocator,
                                                     const cachalot_recorder_options* options,
                                                     uint64_t* out_id, cachalot_error* error);

/**
 * Writes what is held back: lines for write, and texts of contexts.
 *
 * @return CACHALOT_OK; CACHALOT_ERROR_IO if events are lost, now or before;
 * CACHALOT_ERROR_INVALID_ARGUMENT for an id of no recorder. Any thread.
 */
CACHALOT_API cachalot_status cachalot_recorder_flush(cachalot_allocator* allocator, uint64_t id,
                                                     cachalot_error* error);

/** Writes the last line, which says how many events are lost, and ends the recorder.
 * CACHALOT_ERROR_INVALID_ARGUMENT for an id of no recorder. Any thread, but not from within a trace
 * observer. */
CACHALOT_API cachalot_status cachalot_recorder_stop(cachalot_allocator* allocator, uint64_t id,
                                                    cachalot_error* error);

/** How much a recorder has written. CACHALOT_ERROR_INVALID_ARGUMENT for an id of no recorder. Any thread. */
CACHALOT_API cachalot_status cachalot_recorder_get_stats(cachalot_allocator* allocator, uint64_t id,
                                                         cachalot_recorder_stats* out_stats,
                                                         cachalot_error* error);

/** The file that it writes, "" if there is none. Text like snprintf. CACHALOT_ERROR_INVALID_ARGUMENT
 * for an id of no recorder. Any thread. */
CACHALOT_API cachalot_status cachalot_recorder_path(cachalot_allocator* allocator, uint64_t id,
                                                    char* buffer, size_t capacity,
                                                    size_t* out_length, cachalot_error* error);

/** What is written when a request fails as out of memory. Zero means default in every field. */
typedef struct cachalot_oom_dump_options {
  /** sizeof(cachalot_oom_dump_options), set by the caller. */
  size_t struct_size;
  /** A folder that there is. Copied. NULL or "": nothing is written. */
  const char* folder;
  /** The last events that are kept for it, each in 120 bytes; 0: 10,000. To keep them slows each call
   * down as history does; -1 keeps none. At most 10,000,000. */
  int64_t events;
} cachalot_oom_dump_options;

/**
 * From now on each request that fails as out of memory leaves files in the folder, with mode 0600,
 * before its caller gets the error: PROCESS-N.report.json (cachalot_report_json of the request),
 * PROCESS-N.events.csv (the last events, a trace of format 1), PROCESS-N.trace.csv (the live
 * blocks, a trace of format 2) and PROCESS-N.snapshot.pickle (segments and blocks with the history,
 * or with the last events where it is off, as cachalot_snapshot_write_pickle). N counts from 1;
 * numbers that are taken are passed over. Only the first 16 failures are written. What cannot be written is a warning for the log.
 *
 * @param options  NULL: nothing is written any more. Takes the place of earlier options, also of those
 * that the environment variable CACHALOT_OOM_DUMP gave.
 * @return CACHALOT_OK; CACHALOT_ERROR_INVALID_ARGUMENT for a number that is not acceptable;
 * CACHALOT_ERROR_IO if there is no such folder; CACHALOT_ERROR_NOT_SUPPORTED under
 * backend:cudaMallocAsync: nothing has changed. Any thread, but not from within an observer.
 */
CACHALOT_API cachalot_status cachalot_set_oom_dump(cachalot_allocator* allocator,
                                                   const cachalot_oom_dump_options* options,
                                                   cachalot_error* error);

#ifdef __cplusplus
}
#endif

#endif /* CACHALOT_RECORDER_H_ */
