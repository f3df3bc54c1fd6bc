/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/**
 * @file history.h
 * History: what the allocator did, event by event; contexts and labels; observers.
 */
#ifndef CACHALOT_HISTORY_H_
#define CACHALOT_HISTORY_H_

#include "cachalot/allocator.h"

#ifdef __cplusplus
extern "C" {
#endif

/** What an entry of the history says. The names of the reference: cachalot_action_name. */
typedef enum cachalot_action {
  /** A block was handed out; size is what was requested. */
  CACHALOT_ACTION_ALLOC = 0,
  /** The caller freed it. */
  CACHALOT_ACTION_FREE_REQUESTED = 1,
  /** It can be reused. */
  CACHALOT_ACTION_FREE_COMPLETED = 2,
  /** A segment was obtained; one is about to be given back. */
  CACHALOT_ACTION_SEGMENT_ALLOC = 3,
  CACHALOT_ACTION_SEGMENT_FREE = 4,
  /** A range of an expandable segment was backed by memory; its memory was given back. */
  CACHALOT_ACTION_SEGMENT_MAP = 5,
  CACHALOT_ACTION_SEGMENT_UNMAP = 6,
  /** A snapshot was taken; size is its active bytes. */
  CACHALOT_ACTION_SNAPSHOT = 7,
  /** A request failed; address is the device's free bytes. */
  CACHALOT_ACTION_OOM = 8,
  /** cachalot_annotate (since 2.14). */
  CACHALOT_ACTION_ANNOTATE = 9,
  /** The rest stands in recordings of programs only (trace format 2). A block that was live when the
   * recording began. */
  CACHALOT_ACTION_LIVE_AT_BEGIN = 10,
  /** Memory outside of any cache was obtained; it was given back. */
  CACHALOT_ACTION_OTHER_ALLOC = 11,
  CACHALOT_ACTION_OTHER_FREE = 12,
  /** A driver's call that gave memory back has ended: what it cost. */
  CACHALOT_ACTION_CALL_END = 13,
  /** The device's primary context ended, and with it all its blocks. */
  CACHALOT_ACTION_CONTEXT_END = 14,
  /** The program made a stream; it destroyed one. */
  CACHALOT_ACTION_STREAM_CREATE = 15,
  CACHALOT_ACTION_STREAM_DESTROY = 16,
  /** The program began to capture a stream; the capture ended. */
  CACHALOT_ACTION_CAPTURE_BEGIN = 17,
  CACHALOT_ACTION_CAPTURE_END = 18,
  /** The program has waited for the work of a stream; for all work of the context. */
  CACHALOT_ACTION_STREAM_WAIT = 19,
  CACHALOT_ACTION_CONTEXT_WAIT = 20,
  /** The program gave a block to others by a handle. */
  CACHALOT_ACTION_EXPORT = 21,
  /** The recording ended as it should; size is how many events were lost. */
  CACHALOT_ACTION_RECORDING_END = 22,
  CACHALOT_ACTION_FORCE_INT32 = 0x7fffffff
} cachalot_action;

/** One event. Texts are borrowed: they live as long as the callback or the snapshot that shows
 * them. */
typedef struct cachalot_trace_entry {
  /** sizeof(cachalot_trace_entry). */
  size_t struct_size;
  /** A cachalot_action. */
  int32_t action;
  int32_t device;
  cachalot_address address;
  /** Bytes. */
  uint64_t size;
  cachalot_stream stream;
  cachalot_pool_id pool;
  /** The context that is kept for it; 0: none. */
  uint64_t context;
  /** Microseconds since 1970. */
  int64_t time_us;
  /** The thread's text (cachalot_set_metadata), or that of an annotation; "" if there is none. */
  const char* metadata;
  /** The allocator's own text ("mallocWithAddress"; since 2.15); "" if there is none. */
  const char* internal_metadata;
} cachalot_trace_entry;

/** @name For what contexts are kept (cachalot_history_options::context). Each level includes those
 * before. */
/** @{ */
#define CACHALOT_CONTEXT_LEVEL_NEVER 0
#define CACHALOT_CONTEXT_LEVEL_STATE 1 /* live blocks and segments */
#define CACHALOT_CONTEXT_LEVEL_ALLOC 2 /* entries too: that of the hand-out */
#define CACHALOT_CONTEXT_LEVEL_ALL 3   /* and frees have their own */
/** @} */

/** How history is recorded. Zero means default in every field. */
typedef struct cachalot_history_options {
  /** sizeof(cachalot_history_options), set by the caller. */
  size_t struct_size;
  /** 1: entries are kept in a ring; 0: none are, and those that there are go. */
  int32_t enabled;
  /** CACHALOT_CONTEXT_LEVEL_*. */
  int32_t context;
  /** Entries that the ring of a device holds; 0 counts as 1. */
  uint64_t max_entries;
  /** 1: drops older entries first. */
  int32_t clear;
  int32_t reserved_0;
  /** Names of actions that are not put into the ring, with commas between ("segment_map,alloc").
   * NULL: none. */
  const char* skip_actions;
} cachalot_history_options;

/** The reference's name of an action ("segment_alloc"); "unknown" for a number that is none. Any
 * thread. */
CACHALOT_API const char* cachalot_action_name(int32_t action);

/**
 * Starts, changes or stops the recording of history on all devices. Slows every call down: all
 * threads share one order of events.
 *
 * @return CACHALOT_OK, or CACHALOT_ERROR_INVALID_ARGUMENT for an unknown name in skip_actions (as
 * in the reference, recording is on by then and nothing is skipped). Any thread.
 */
CACHALOT_API cachalot_status cachalot_record_history(cachalot_allocator* allocator,
                                                     const cachalot_history_options* options,
                                                     cachalot_error* error);

/** The context that a live block keeps, 0 for none and for any other address.
 * CACHALOT_ERROR_NOT_SUPPORTED under 2.11. */
CACHALOT_API cachalot_status cachalot_context_of(cachalot_allocator* allocator,
                                                 cachalot_address address, uint64_t* out_context,
                                                 cachalot_error* error);

/**
 * Writes what a context means, one frame a line, innermost first, like snprintf. 0 gives "". Any
 * thread.
 *
 * A frame of a native stack (CACHALOT_CONTEXT_STACK) is "FILE:LINE:FUNCTION" if the debug
 * information of its code (compiled with -g) is in the file that was loaded, uncompressed, or below
 * /usr/lib/debug by its build id. The line is that of the call; the function is the one that its
 * code was inlined into, if it was. Any other frame is "FUNCTION (FILE+0xOFFSET)", with a number
 * for addr2line. FUNCTION is "??" if neither the loader nor the file's symbols have a name.
 */
CACHALOT_API cachalot_status cachalot_context_text(cachalot_allocator* allocator, uint64_t context,
                                                   char* buffer, size_t capacity,
                                                   size_t* out_length, cachalot_error* error);

/** Adds an entry with a text for a live block (R46). CACHALOT_ERROR_NOT_SUPPORTED under 2.11. */
CACHALOT_API cachalot_status cachalot_annotate(cachalot_allocator* allocator,
                                               cachalot_address address, const char* text,
                                               cachalot_error* error);

/** The text that the calling thread's later entries carry, in every allocator. Copied; NULL or "":
 * none. */
CACHALOT_API cachalot_status cachalot_set_metadata(const char* text, cachalot_error* error);

/**
 * Puts a label on the calling thread until the matching cachalot_label_pop: what it allocates in
 * between counts for that label, in every allocator. Labels nest ("model-a/kv-cache").
 *
 * @param label  Copied; not NULL, not empty.
 */
CACHALOT_API cachalot_status cachalot_label_push(const char* label, cachalot_error* error);

/** Takes the thread's last label away. CACHALOT_ERROR_INVALID_STATE if it has none. */
CACHALOT_API cachalot_status cachalot_label_pop(cachalot_error* error);

/* ---- Observers ----------------------------------------------------------------------------------
 */

/** What a request that failed looked like; see cachalot_error for the words. */
typedef struct cachalot_out_of_memory {
  /** sizeof(cachalot_out_of_memory). */
  size_t struct_size;
  int32_t device;
  int32_t reserved_0;
  cachalot_stream stream;
  uint64_t requested;
  uint64_t segment_size;
  uint64_t device_free;
  uint64_t device_total;
  uint64_t limit;
  uint64_t allocated;
  uint64_t reserved;
  uint64_t private_pools_free;
  uint64_t largest_free_block;
} cachalot_out_of_memory;

/** A request that was refused before the driver was asked (R31). Bytes. */
typedef struct cachalot_rejection {
  /** sizeof(cachalot_rejection). */
  size_t struct_size;
  int32_t device;
  int32_t reserved_0;
  /** The segment that would have been asked for; what was reserved before; what the device has. */
  uint64_t segment_size;
  uint64_t reserved;
  uint64_t device_total;
} cachalot_rejection;

/** Sees each event as it happens, recorded or not. The device's lock is held: it must not call
 * back. */
typedef void (*cachalot_trace_observer_fn)(void* user_data, const cachalot_trace_entry* entry);

/** Sees each out-of-memory error before the caller gets it. No lock is held; it may call back. */
typedef void (*cachalot_out_of_memory_observer_fn)(void* user_data,
                                                   const cachalot_out_of_memory* numbers);

/** Sees each rejection before the caller gets it. No lock is held; it may call back. */
typedef void (*cachalot_rejection_observer_fn)(void* user_data, const cachalot_rejection* numbers);

/**
 * Is asked to free memory when a request finds no cached block, before anything else is tried. No
 * lock is held; it may free blocks and call anything else. A request of its own that finds no block
 * calls it again.
 *
 * @return Not 0 if it freed something: then the cache is searched again.
 */
typedef int32_t (*cachalot_free_memory_fn)(void* user_data, int32_t device, uint64_t size);

/**
 * Attach an observer to all devices.
 *
 * @param destroy    Called once with user_data when the observer is detached, the allocator ends,
 * or this call fails. May be NULL.
 * @param out_id     For cachalot_detach; may be NULL.
 * @return CACHALOT_OK or CACHALOT_ERROR_INVALID_ARGUMENT. Any thread, but not from within a trace
 * observer.
 */
CACHALOT_API cachalot_status cachalot_observe_trace(cachalot_allocator* allocator,
                                                    cachalot_trace_observer_fn observer,
                                                    void* user_data,
                                                    void (*destroy)(void* user_data),
                                                    uint64_t* out_id, cachalot_error* error);
CACHALOT_API cachalot_status cachalot_observe_out_of_memory(
    cachalot_allocator* allocator, cachalot_out_of_memory_observer_fn observer, void* user_data,
    void (*destroy)(void* user_data), uint64_t* out_id, cachalot_error* error);
CACHALOT_API cachalot_status cachalot_observe_rejection(cachalot_allocator* allocator,
                                                        cachalot_rejection_observer_fn observer,
                                                        void* user_data,
                                                        void (*destroy)(void* user_data),
                                                        uint64_t* out_id, cachalot_error* error);
CACHALOT_API cachalot_status cachalot_register_free_memory_callback(
    cachalot_allocator* allocator, cachalot_free_memory_fn callback, void* user_data,
    void (*destroy)(void* user_data), uint64_t* out_id, cachalot_error* error);

/** Detaches an observer or callback of any kind, and stops a recorder (recorder.h).
 * CACHALOT_ERROR_INVALID_ARGUMENT for an id that is none. */
CACHALOT_API cachalot_status cachalot_detach(cachalot_allocator* allocator, uint64_t id,
                                             cachalot_error* error);

#ifdef __cplusplus
}
#endif

#endif /* CACHALOT_HISTORY_H_ */
