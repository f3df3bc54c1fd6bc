/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/**
 * @file trace.h
 * Traces and replay: recorded runs, read from a file, driven through an allocator over the `sim`
 * driver.
 *
 * docs/trace-format.md describes the file. A replay makes an allocator and a simulated device of
 * its own.
 */
#ifndef CACHALOT_TRACE_H_
#define CACHALOT_TRACE_H_

#include "cachalot/snapshot.h"
#include "cachalot/stats.h"

#ifdef __cplusplus
extern "C" {
#endif

/** A recorded run. Immutable: any thread may read it at any time. */
typedef struct cachalot_trace cachalot_trace;

/** A replay that has ended, with its allocator. One thread at a time. */
typedef struct cachalot_replay cachalot_replay;

/** Reads the next bytes, up to capacity; returns their number, 0 at the end, a negative number on
 * failure. */
typedef int64_t (*cachalot_read_fn)(void* user_data, void* buffer, size_t capacity);

/** What a trace says of itself. Texts live as long as the trace; "" where it says nothing. */
typedef struct cachalot_trace_info {
  /** sizeof(cachalot_trace_info), set by the caller. */
  size_t struct_size;
  const char* workload;
  /** The version that recorded it, for example "2.11.0+cu130". */
  const char* torch;
  /** Its option string. */
  const char* config;
  /** Bytes of the device; 0 if it is not said. */
  uint64_t device_total;
  size_t event_count;
  /** Statistics that were recorded at the end. */
  size_t stat_count;
  /** CACHALOT_RELEASE_* that fits `torch`; CACHALOT_RELEASE_DEFAULT for any other version. */
  int32_t release;
  int32_t device_count;
  /** The program that wrote the file, for example "cachalot 0.1.0"; "" if it is not said. */
  const char* recorder;
  /** The trace format, 1 or 2. Only format 2 has the rest. */
  int32_t format;
  /** The version of the CUDA driver, 13000 for 13.0; 0 if it is not said. */
  int32_t driver_version;
  /** The program that was recorded and its arguments, and its process; "" and 0 if it is not said. */
  const char* command;
  int64_t process_id;
  /** The process that it was forked from, whose own recording is another file; 0: none. */
  int64_t parent_process_id;
  /** When the recording began, in microseconds since 1970; 0 if it is not said. */
  int64_t start_us;
} cachalot_trace_info;

/** One event of a trace. */
typedef struct cachalot_trace_event {
  /** sizeof(cachalot_trace_event), set by the caller. */
  size_t struct_size;
  /** A cachalot_action. */
  int32_t action;
  int32_t device;
  cachalot_address address;
  uint64_t size;
  cachalot_stream stream;
  cachalot_pool_id pool;
  /** -1 where the file does not say it. */
  int64_t time_us;
  /** 0 where the file does not say it. */
  uint64_t context;
  /** Nanoseconds that the driver's call took, and those of them in which it waited for work of the device; -1
   * where the file does not say it. */
  int64_t cost_ns;
  int64_t wait_ns;
  /** The thread that made it, by the system's number; 0 where the file does not say it. */
  uint64_t thread;
  /** Of a free: the stream that it is ordered on. The block's, unless the file names another. */
  cachalot_stream freed_on;
  /** The context that the program asked in; 0: the device's primary one. */
  uint64_t driver_context;
  /** How the program asked: a letter of docs/trace-format.md; 0 where the file does not say it. */
  int32_t entry;
} cachalot_trace_event;

/** One call of the stack that the context of an event names. */
typedef struct cachalot_trace_frame {
  /** sizeof(cachalot_trace_frame), set by the caller. */
  size_t struct_size;
  /** Where the call returns to. */
  cachalot_address address;
  /** That place in the file, in bytes; 0 without a path. */
  uint64_t file_offset;
  /** The program or library that was loaded there; "" if none is known. Lives as long as the trace. */
  const char* path;
} cachalot_trace_frame;

/**
 * Reads a trace to its end.
 *
 * @param read       Called on this thread until it returns 0 or fails.
 * @param out_trace  The caller owns it; end it with cachalot_trace_destroy.
 * @return CACHALOT_OK; CACHALOT_ERROR_IO with the number of the line for input that is no trace;
 *         CACHALOT_ERROR_CALLBACK if reading failed. Any thread.
 */
CACHALOT_API cachalot_status cachalot_trace_read(cachalot_read_fn read, void* user_data,
                                                 cachalot_trace** out_trace, cachalot_error* error);

/** Ends a trace. NULL: nothing. */
CACHALOT_API void cachalot_trace_destroy(cachalot_trace* trace);

/** What a trace says of itself. */
CACHALOT_API cachalot_status cachalot_trace_get_info(const cachalot_trace* trace,
                                                     cachalot_trace_info* out_info);

/** One event. CACHALOT_ERROR_INVALID_ARGUMENT past the last. */
CACHALOT_API cachalot_status cachalot_trace_get_event(const cachalot_trace* trace, size_t index,
                                                      cachalot_trace_event* out_event);

/** One call of a stack, the innermost first. CACHALOT_ERROR_INVALID_ARGUMENT past the last, and for a context of
 * which the trace tells no stack. Any thread. */
CACHALOT_API cachalot_status cachalot_trace_get_frame(const cachalot_trace* trace, uint64_t context,
                                                      size_t index,
                                                      cachalot_trace_frame* out_frame);

/** What the trace tells of a context: its label, or its stack, one frame a line ("/usr/bin/server+0x2234"), the
 * innermost first; "" if it tells nothing. Text like snprintf. Any thread. */
CACHALOT_API cachalot_status cachalot_trace_context_text(const cachalot_trace* trace,
                                                         uint64_t context, char* buffer,
                                                         size_t capacity, size_t* out_length);

/** One recorded statistic; out_name lives as long as the trace. CACHALOT_ERROR_INVALID_ARGUMENT
 * past the last. */
CACHALOT_API cachalot_status cachalot_trace_get_stat(const cachalot_trace* trace, size_t index,
                                                     const char** out_name, int64_t* out_value);

/**
 * Writes the history in a snapshot as a trace, with the statistics as its recorded ones. The trace
 * names the release that the allocator follows; the total of a device is not known to a snapshot,
 * so a replay takes its own default unless it is given one.
 *
 * @param stats  NULL: none.
 * @return CACHALOT_OK, or CACHALOT_ERROR_CALLBACK if write failed.
 */
CACHALOT_API cachalot_status cachalot_trace_write(const cachalot_snapshot* snapshot,
                                                  const cachalot_stats* stats, const char* workload,
                                                  cachalot_write_fn write, void* user_data,
                                                  cachalot_error* error);

/** Called now and then during a replay; not 0 stops it with CACHALOT_ERROR_CALLBACK. */
typedef int32_t (*cachalot_progress_fn)(void* user_data, uint64_t done, uint64_t total);

/**
 * Sees what the allocator of a replay did at an event of the trace, once for each entry. All of the event is done and
 * no lock is held: the observer may ask the allocator, but not change it.
 *
 * @param event  The index of the event in the trace.
 * @param entry  Its texts live as long as the call. Its context is 0: that of the event is the trace's.
 */
typedef void (*cachalot_replay_observer_fn)(void* user_data, uint64_t event,
                                            const cachalot_trace_entry* entry);

/** How a trace is replayed. Zero means default in every field. */
typedef struct cachalot_replay_options {
  /** sizeof(cachalot_replay_options), set by the caller. */
  size_t struct_size;
  /** The option string. NULL: the recorded one. */
  const char* config;
  /** CACHALOT_RELEASE_*; 0: the recorded one, else the default. */
  int32_t release;
  /** 1: the recorded addresses are handed out and every event is compared (needs the recorded
   * options and release). */
  int32_t expect;
  /** Bytes of a device, at most 4 TiB (cachalot_sim_options::capacity), else
   * CACHALOT_ERROR_INVALID_ARGUMENT; 0: the recorded number, else 80 GiB. */
  uint64_t capacity;
  /** The memory fraction; 0: no limit. */
  double fraction;
  cachalot_progress_fn progress;
  void* progress_user_data;
  /** The policy, as cachalot_allocator_options has it, but for CACHALOT_POLICY_DEFAULT, which is PyTorch's
   * here. `expect` needs PyTorch's. */
  int32_t policy;
  int32_t thrift;
  int32_t borrow;
  int32_t streams;
  uint64_t page_bytes;
  /** 1: the replay ends at the first request that fails as out of memory. Not with `expect`. */
  int32_t stop_at_out_of_memory;
  /** 1: keeps the history, for cachalot_replay_snapshot. */
  int32_t history;
  /** NULL: none. From within it, cachalot_replay_allocator(*out_replay) is the allocator. */
  cachalot_replay_observer_fn observer;
  void* observer_user_data;
  /** Only so many events of the trace are replayed, from the first on; 0: all. `expect` needs all. */
  uint64_t event_count;
} cachalot_replay_options;

/** What came of a replay. */
typedef struct cachalot_replay_result {
  /** sizeof(cachalot_replay_result), set by the caller. */
  size_t struct_size;
  /** Events of the trace that were replayed or compared. */
  uint64_t events;
  /** Requests made, and those of them that failed as out of memory. */
  uint64_t allocations;
  uint64_t out_of_memory;
  /** Driver calls that obtained memory and that gave it back. */
  uint64_t driver_allocations;
  uint64_t driver_frees;
  /** Segments at the end (expandable ones included) and the most there were at a time. */
  uint64_t segments;
  uint64_t segments_peak;
  /** Highest bytes, of all devices. */
  uint64_t peak_requested;
  uint64_t peak_allocated;
  uint64_t peak_reserved;
  /** With expect: events that differ, and the index of the first one in the trace (SIZE_MAX: none).
   */
  uint64_t differing_events;
  size_t first_difference;
  /** What was expected there and what came; "" without a difference. Lives as long as the replay.
   */
  const char* expected;
  const char* actual;
  /** The most bytes that the driver had handed out of one device. With PyTorch's decisions and without a memory
   * fraction the replay is the same on a device of any size from this one up to its own. */
  uint64_t peak_device_bytes;
} cachalot_replay_result;

/** Calls of one function of the driver with one size, behind the same gap. */
typedef struct cachalot_replay_call {
  /** sizeof(cachalot_replay_call), set by the caller. */
  size_t struct_size;
  /** The function, as the CUDA driver calls it: "cuMemAlloc", "cuMemFree", and of virtual memory "cuMemAddressReserve",
   * "cuMemAddressFree", "cuMemCreate", "cuMemRelease", "cuMemMap", "cuMemUnmap", "cuMemSetAccess". Lives for ever. */
  const char* function;
  /** Bytes. */
  uint64_t size;
  /** How many calls, those that failed included. What an ending context gives back is none. */
  uint64_t count;
  /** Microseconds that the program had worked since the function's call before, rounded down to a power of two: a
   * call costs more the longer it was. 65,536 from there on, and of the first call. Of a recording without times, a
   * request counts as 10. */
  uint64_t gap_us;
} cachalot_replay_call;

/**
 * Replays a trace: allocations, frees, uses on other streams, empty_cache calls.
 *
 * @param options     NULL: all defaults.
 * @param out_replay  The caller owns it; end it with cachalot_replay_destroy. Set also when events
 * differ, and from before the first event on; NULL after a failure.
 * @return CACHALOT_OK, also when events differ; CACHALOT_ERROR_INVALID_ARGUMENT for options that do
 * not fit; CACHALOT_ERROR_IO for a trace that cannot have happened (a free of what is not live).
 */
CACHALOT_API cachalot_status cachalot_replay_run(const cachalot_trace* trace,
                                                 const cachalot_replay_options* options,
                                                 cachalot_replay** out_replay,
                                                 cachalot_error* error);

/** Ends a replay and its allocator. NULL: nothing. */
CACHALOT_API void cachalot_replay_destroy(cachalot_replay* replay);

/** What came of it. */
CACHALOT_API cachalot_status cachalot_replay_get_result(const cachalot_replay* replay,
                                                        cachalot_replay_result* out_result);

/** Rows of the driver's calls by which the replay obtained memory and gave it back, in the order of the functions
 * above, then by size. 0 for NULL. */
CACHALOT_API size_t cachalot_replay_call_count(const cachalot_replay* replay);
/** One of them. CACHALOT_ERROR_INVALID_ARGUMENT past the last. */
CACHALOT_API cachalot_status cachalot_replay_get_call(const cachalot_replay* replay, size_t index,
                                                      cachalot_replay_call* out_call);

/** The allocator at the end of the run, to be asked for statistics, summary and snapshot. Borrowed.
 */
CACHALOT_API cachalot_allocator* cachalot_replay_allocator(const cachalot_replay* replay);

/**
 * Takes a snapshot of the allocator at the end of the run. Its history is that of the replay, with the times and the
 * contexts of the recording; where `expect` found no difference it is the recorded one.
 *
 * @param out_snapshot  The caller owns it; end it with cachalot_snapshot_destroy. It may outlive the replay.
 * @return CACHALOT_OK, or CACHALOT_ERROR_INVALID_STATE if the replay has kept no history.
 */
CACHALOT_API cachalot_status cachalot_replay_snapshot(const cachalot_replay* replay,
                                                      cachalot_snapshot** out_snapshot,
                                                      cachalot_error* error);

/** Writes a run as a script for the oracle (tests/oracle/FORMAT.md), with the addresses that the replay's device
 * gives. Options as for cachalot_replay_run, but for stop_at_out_of_memory: a script goes on behind a failure. */
CACHALOT_API cachalot_status cachalot_replay_write_script(const cachalot_trace* trace,
                                                          const cachalot_replay_options* options,
                                                          cachalot_write_fn write, void* user_data,
                                                          cachalot_error* error);

#ifdef __cplusplus
}
#endif

#endif /* CACHALOT_TRACE_H_ */
