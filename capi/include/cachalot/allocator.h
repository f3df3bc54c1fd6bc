/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/**
 * @file allocator.h
 * The allocator: creation, blocks, the cache, limits, settings.
 *
 * Words: a *segment* is a range obtained from the driver; a *block* is a piece of a segment; the
 * *cache* is what has been obtained and is not handed out. What was *requested* is the caller's
 * number, what is *allocated* the size of the block that serves it, what is *reserved* the size of
 * all segments.
 */
#ifndef CACHALOT_ALLOCATOR_H_
#define CACHALOT_ALLOCATOR_H_

#include "cachalot/driver.h"

#ifdef __cplusplus
extern "C" {
#endif

/**
 * A caching allocator over all devices of one driver.
 *
 * All functions may be called at the same time from any thread, except that destroying needs every
 * other call to have returned. Devices do not wait for each other.
 */
typedef struct cachalot_allocator cachalot_allocator;

/** Names a private pool: exactly one half is not 0. Pools of users are (0, k), those of graphs (k,
 * 0). */
typedef struct cachalot_pool_id {
  uint64_t first;
  uint64_t second;
} cachalot_pool_id;

/** @name The PyTorch release whose decisions are made (cachalot_allocator_options::release). */
/** @{ */
#define CACHALOT_RELEASE_DEFAULT \
  0 /* the environment variable CACHALOT_RELEASE ("2.11", "2.15"), else 2.15 */
#define CACHALOT_RELEASE_2_11 211
#define CACHALOT_RELEASE_2_15 215
/** @} */

/**
 * @name Defects of the reference that are kept by default because they change decisions; each flag
 * of cachalot_allocator_options::mend mends one. docs/differences.md describes them.
 */
/** @{ */
#define CACHALOT_MEND_FALLBACK_ERRORS \
  0x1u /* U5: fallback fails on a pool that is routed to or released */
#define CACHALOT_MEND_FALLBACK_EXPANDABLE 0x2u /* U6: fallback never finds expandable memory */
#define CACHALOT_MEND_HANDLE_TYPE \
  0x4u /* U8 (2.11): out of memory at the first page settles on fabric */
#define CACHALOT_MEND_SEARCH_AFTER_RELEASE \
  0x8u /* U9: no second search after the cache was released */
#define CACHALOT_MEND_HISTORY_ORDER \
  0x10u /* U11: the ring loses its order when its size changes \
         */
#define CACHALOT_MEND_REJECTION \
  0x20u /* U16 (2.15): rejection although cached memory could be released */
#define CACHALOT_MEND_RESERVE 0x40u /* U17 (2.15): too small a reserve fails every request */
#define CACHALOT_MEND_SPLIT_LIMIT \
  0x80u /* U22: max_split_size_mb makes expandable segments grow without bound */
/** @} */

/** @name Levels of cachalot_log_fn. */
/** @{ */
#define CACHALOT_LOG_WARNING 1 /* a warning of the reference, in its words */
#define CACHALOT_LOG_DIFFERENCE \
  2 /* "differs from PyTorch: U3: ...": a mended defect has just changed a decision */
#define CACHALOT_LOG_DAMAGE \
  3 /* "the block at 0x... was written beyond its end: ..." (CACHALOT_DEBUG_RED_ZONES) */
#define CACHALOT_LOG_ADVICE \
  4 /* "max_split_size_mb:64 with expandable_segments:True ...": options that harm each other */
/** @} */

/**
 * @name Safe debugging (cachalot_allocator_options::debug; docs/debugging.md). Blocks of the cache
 * only; requests take the general path, so all calls are slower.
 */
/** @{ */
/** Segments and live blocks are announced through NVTX's memory API, so that compute-sanitizer finds
 * accesses outside of the bytes that were requested. */
#define CACHALOT_DEBUG_NVTX 0x1u
/** When a free completes, the block is filled with 0xFF (not a number in every floating-point
 * format), on its stream, unless that is captured. */
#define CACHALOT_DEBUG_POISON 0x2u
/** Each request is enlarged by 512 bytes (`requested` of blocks, statistics and history contains
 * them); what lies behind the caller's bytes is filled, and looked at when the free completes and by
 * cachalot_check, which both wait for the block's stream. Not while that is captured. */
#define CACHALOT_DEBUG_RED_ZONES 0x4u
/** @} */

/** @name Whose decisions are made (cachalot_allocator_options::policy; policy.h). */
/** @{ */
#define CACHALOT_POLICY_DEFAULT \
  0 /* what the environment variable CACHALOT_POLICY says, else PyTorch's */
#define CACHALOT_POLICY_PYTORCH 1
#define CACHALOT_POLICY_SERVING 2 /* cachalot's own, which needs less memory (docs/policy.md) */
/** @} */

/** @name When the serving policy lends cached memory of one stream to another
 * (cachalot_allocator_options::borrow). The borrower waits for the lender's work, on the device. */
/** @{ */
#define CACHALOT_BORROW_FIRST 0 /* before new pages are obtained: the least memory */
#define CACHALOT_BORROW_AT_LIMIT \
  1 /* where no new page is to be had: streams wait for each other seldom */
#define CACHALOT_BORROW_NEVER 2 /* streams never wait for each other */
/** @} */

/** @name Whether the program says when streams end (cachalot_allocator_options::streams). */
/** @{ */
#define CACHALOT_STREAMS_UNANNOUNCED \
  0 /* no handle of another stream is used: a borrower waits for all work that the device has been given */
#define CACHALOT_STREAMS_ANNOUNCED \
  1 /* cachalot_stream_ended comes before a stream is destroyed, or none is: it waits for the lender alone */
/** @} */

/** @name Whose words messages and tables have (cachalot_allocator_options::texts). Numbers are the same. */
/** @{ */
#define CACHALOT_TEXTS_DEFAULT \
  0 /* the environment variable CACHALOT_TEXTS ("pytorch", "own"), else PyTorch's */
#define CACHALOT_TEXTS_PYTORCH 1 /* to the letter, for programs that search them */
#define CACHALOT_TEXTS_OWN \
  2 /* without PyTorch: "allocated by this process", "set CACHALOT_ALLOC_CONF" */
/** @} */

/** Gets the library's remarks, one line each. Called on the thread of the call, maybe with locks
 * held: do not call back. */
typedef void (*cachalot_log_fn)(void* user_data, int32_t level, const char* message);

/** Gives the context of the calling thread as a number that the caller can resolve later; 0: none.
 * No lock is held. */
typedef uint64_t (*cachalot_context_fn)(void* user_data);

/** Writes what a context means, one frame a line, innermost first, like snprintf; returns the full
 * length. */
typedef size_t (*cachalot_context_text_fn)(void* user_data, uint64_t context, char* buffer,
                                           size_t capacity);

/** @name Where contexts come from (cachalot_allocator_options::context_source). */
/** @{ */
#define CACHALOT_CONTEXT_CALLBACK 0 /* context_capture, if set */
#define CACHALOT_CONTEXT_STACK 1    /* native call stacks */
#define CACHALOT_CONTEXT_LABELS 2   /* the thread's labels (cachalot_label_push) */
/** @} */

/** How an allocator is made. Zero means default in every field. */
typedef struct cachalot_allocator_options {
  /** sizeof(cachalot_allocator_options), set by the caller. */
  size_t struct_size;
  /** Where memory comes from. NULL: as cachalot_driver_open(NULL, ...). The allocator keeps it
   * alive. */
  cachalot_driver* driver;
  /**
   * The option string, in PyTorch's grammar:
   * "max_split_size_mb:128,garbage_collection_threshold:0.8". NULL: the first of the environment
   * variables CACHALOT_ALLOC_CONF, PYTORCH_CUDA_ALLOC_CONF and PYTORCH_ALLOC_CONF that is set. "":
   * every option has its default. docs/config.md lists the options.
   */
  const char* config;
  /** CACHALOT_RELEASE_*. */
  int32_t release;
  /** Where history contexts come from: CACHALOT_CONTEXT_*. */
  int32_t context_source;
  /** CACHALOT_MEND_*, added up. */
  uint32_t mend;
  /**
   * 1: each allocation goes to the driver; -1: caching is on; 0: the environment variable
   * PYTORCH_NO_CUDA_MEMORY_CACHING decides ("1": off). cachalot_set_caching_enabled changes it
   * later. With CACHALOT_DISABLE=1 in the environment it is 1, whatever it says.
   */
  int32_t no_caching;
  /** 1: expandable pages can be shared with other processes; -1: not; 0:
   * TORCH_CUDA_EXPANDABLE_SEGMENTS_IPC ("0": not). */
  int32_t shareable_pages;
  /** 1: the auditor (cachalot_check) runs after every call and a finding ends the process; for
   * tests. */
  int32_t check_every_call;
  /** 1: keeps statistics for each label (cachalot_label_stats_at); costs a few nanoseconds a call.
   */
  int32_t track_labels;
  int32_t reserved_0;
  /** Gets remarks. NULL: silent, but for CACHALOT_LOG_DAMAGE, which goes to the standard error
   * output. */
  cachalot_log_fn log;
  void* log_user_data;
  /** Gives and explains contexts; see context_source. */
  cachalot_context_fn context_capture;
  cachalot_context_text_fn context_text;
  void* context_user_data;
  /**
   * CACHALOT_DEBUG_*, added up. 0: the environment variable CACHALOT_DEBUG decides, a list of
   * `nvtx`, `poison` and `redzones` with commas between.
   */
  uint32_t debug;
  uint32_t reserved_1;
  /** CACHALOT_POLICY_*. With CACHALOT_POLICY_DEFAULT the fields below are to be 0, with
   * CACHALOT_POLICY_PYTORCH thrift, borrow and streams. */
  int32_t policy;
  /** 1: idle pages of the cache serve before any new one, so that no more is reserved than is needed. */
  int32_t thrift;
  /** CACHALOT_BORROW_*. */
  int32_t borrow;
  /** CACHALOT_STREAMS_*. */
  int32_t streams;
  /** Bytes of a page: a power of two, a multiple of the driver's granularity, at most 1 GiB. 0: 2 MiB, or
   * the granularity if that is more. With PyTorch's decisions it is the page of expandable segments, small
   * and large, and 0 means PyTorch's; with any other number the events are not PyTorch's any more. */
  uint64_t page_bytes;
  /**
   * How pinned memory is cached (pinned.h). NULL: the environment variable CACHALOT_PINNED_CONF, else as in
   * PyTorch. An option string, "" with all defaults: by a cache like that of a device, whose options these are.
   * `backend:cudaMallocAsync` and `expandable_segments:True` are refused.
   */
  const char* pinned_config;
  /** CACHALOT_TEXTS_*: the words of out-of-memory and other errors, of warnings and of the memory summary. */
  int32_t texts;
  int32_t reserved_2;
} cachalot_allocator_options;

/** What a request may say beyond size and stream. Zero means default in every field but size. */
typedef struct cachalot_request {
  /** sizeof(cachalot_request), set by the caller. */
  size_t struct_size;
  /** Bytes. */
  uint64_t size;
  cachalot_stream stream;
  /** The stream that PyTorch would call the thread's current one, if has_current_stream is 1; else
   * stream counts. */
  cachalot_stream current_stream;
  int32_t device;
  int32_t has_current_stream;
  /** Not 0: the block shall begin at this address, a multiple of 512 inside cached memory (R50;
   * since 2.13). */
  cachalot_address at;
} cachalot_request;

/** What is known of a live block. */
typedef struct cachalot_block {
  /** sizeof(cachalot_block), set by the caller. */
  size_t struct_size;
  cachalot_address address;
  /** Bytes of the block, and what was requested. */
  uint64_t size;
  uint64_t requested;
  cachalot_stream stream;
  cachalot_pool_id pool;
  int32_t device;
  /** 1: the request went to the driver because caching is off; 0: a block of the cache. */
  int32_t uncached;
  /** 1: the source of its pool gave its memory (cachalot_pool_options::source), so nothing is known of
   * that but its address; 0: the driver did, so blocks of the host driver can be read and written. */
  int32_t from_source;
  int32_t reserved_0;
} cachalot_block;

/** Where a device's memory is. Bytes. */
typedef struct cachalot_device_totals {
  /** sizeof(cachalot_device_totals), set by the caller. */
  size_t struct_size;
  /** What the device has, and what of it is in use, by whomever. */
  uint64_t total;
  uint64_t used;
  /** What the management library says of this process; 0 where it does not know. */
  uint64_t used_by_process;
  /** What this allocator has obtained. */
  uint64_t reserved;
  /** used - reserved: other processes, contexts, libraries, other allocators. "nvidia-smi shows
   * more" is here. */
  uint64_t outside;
} cachalot_device_totals;

/** The options in force, as numbers. Read, change and write back to set options without a string.
 */
typedef struct cachalot_settings {
  /** sizeof(cachalot_settings), set by the caller. */
  size_t struct_size;
  /** Bytes; UINT64_MAX: unlimited. */
  uint64_t max_split_size;
  /** Bytes. */
  uint64_t max_non_split_rounding_size;
  /** Bytes. */
  uint64_t large_segment_size;
  /** 0: off; else between 0 and 1. */
  double garbage_collection_threshold;
  /** What the option says; the limit in force is cachalot_memory_fraction. */
  double per_process_memory_fraction;
  /** Divisions for sizes from 2^i MiB to below 2^(i+1) MiB; the first and last slot are open. 0:
   * off. */
  uint64_t roundup_power2_divisions[16];
  /** Requests of more bytes are not rounded by divisions; UINT64_MAX: all are. */
  uint64_t roundup_bypass_threshold;
  /** Flags, 0 or 1. */
  int32_t expandable_segments;
  int32_t release_lock_on_cudamalloc;
  int32_t graph_capture_record_stream_reuse;
  int32_t throw_on_cudamalloc_oom;
  /** Of pinned memory (pinned.h). */
  int32_t pinned_use_background_threads;
  int32_t pinned_use_cuda_host_register;
  int32_t pinned_free_catch_all;
  int32_t reserved_0;
  uint64_t pinned_num_register_threads;
  /** MiB. */
  uint64_t pinned_reserve_segment_size_mb;
  /** Bytes; UINT64_MAX: unset. */
  uint64_t pinned_max_round_threshold;
  uint64_t pinned_max_cached_size;
} cachalot_settings;

/**
 * Makes an allocator. Nothing is obtained from the driver yet.
 *
 * @param options  NULL: all defaults.
 * @return CACHALOT_OK; CACHALOT_ERROR_INVALID_ARGUMENT for an option string that is not acceptable;
 *         CACHALOT_ERROR_NOT_SUPPORTED for an option that the driver cannot serve;
 *         CACHALOT_ERROR_DRIVER_UNAVAILABLE. Any thread.
 */
CACHALOT_API cachalot_status cachalot_allocator_create(const cachalot_allocator_options* options,
                                                       cachalot_allocator** out_allocator,
                                                       cachalot_error* error);

/**
 * Gives all memory back and ends the allocator.
 *
 * @param allocator  NULL: nothing happens. No other call may be under way.
 * @return CACHALOT_OK, or CACHALOT_ERROR_INVALID_STATE while blocks are live, or memory of other
 * processes is open (their number is in the message): then nothing has happened and the allocator is
 * still there.
 */
CACHALOT_API cachalot_status cachalot_allocator_destroy(cachalot_allocator* allocator,
                                                        cachalot_error* error);

/**
 * Like cachalot_allocator_destroy, but live blocks are freed too: for each device that has some,
 * all its work is waited for first. Memory of other processes is closed, and other processes see the
 * end of what is shared with them. Addresses must not be used afterwards.
 */
CACHALOT_API cachalot_status cachalot_allocator_destroy_all(cachalot_allocator* allocator,
                                                            cachalot_error* error);

/** The allocator's driver; borrowed. NULL gives NULL. */
CACHALOT_API cachalot_driver* cachalot_allocator_driver(const cachalot_allocator* allocator);

/** CACHALOT_RELEASE_2_11 or CACHALOT_RELEASE_2_15; 0 for NULL. */
CACHALOT_API int32_t cachalot_allocator_release(const cachalot_allocator* allocator);

/** "native" or "cudaMallocAsync", as the option `backend` chose; lives as long as the library. NULL
 * gives "". Any thread. */
CACHALOT_API const char* cachalot_allocator_backend(const cachalot_allocator* allocator);

/* ---- Blocks -------------------------------------------------------------------------------------
 */

/**
 * Hands out a block (PyTorch's tensor allocation).
 *
 * @param size    Bytes. 0 gives address 0 and does nothing else; 2^60 and more fail at once.
 * @param device  0 to cachalot_driver_device_count() - 1.
 * @param stream  The stream that will use the block: it is not waited for between blocks of one
 * stream.
 * @param out_address  The block's first byte. Give it back with cachalot_free.
 * @return CACHALOT_OK; CACHALOT_ERROR_OUT_OF_MEMORY with all numbers in error;
 * CACHALOT_ERROR_DRIVER for an error that the driver reported now or left pending. After a failure
 * the allocator is as before, but for its counters and for cached memory that was given back on the
 * way.
 */
CACHALOT_API cachalot_status cachalot_allocate(cachalot_allocator* allocator, uint64_t size,
                                               int32_t device, cachalot_stream stream,
                                               cachalot_address* out_address,
                                               cachalot_error* error);

/** Like cachalot_allocate, with all that a request may say. CACHALOT_ERROR_NOT_SUPPORTED for `at`
 * under 2.11. */
CACHALOT_API cachalot_status cachalot_allocate_with(cachalot_allocator* allocator,
                                                    const cachalot_request* request,
                                                    cachalot_address* out_address,
                                                    cachalot_error* error);

/**
 * Gives a block back to the cache. It is reused at once on its own stream; after
 * cachalot_record_stream only when the work recorded there is done. Makes no driver call unless
 * streams were recorded (under backend:cudaMallocAsync each free is one). Any thread, also one that never used a device.
 *
 * @param address  As it was handed out. 0 does nothing.
 * @return CACHALOT_OK, or CACHALOT_ERROR_INVALID_ARGUMENT for an address that is not a live block
 * (freed already, foreign, in the middle of one): nothing has changed.
 */
CACHALOT_API cachalot_status cachalot_free(cachalot_allocator* allocator, cachalot_address address,
                                           cachalot_error* error);

/** Like cachalot_free, made while current_stream is the thread's current stream (matters during
 * captures only). */
CACHALOT_API cachalot_status cachalot_free_on_stream(cachalot_allocator* allocator,
                                                     cachalot_address address,
                                                     cachalot_stream current_stream,
                                                     cachalot_error* error);

/**
 * Says that work on another stream uses a block: after its free the block stays out of use until
 * the work that is queued on that stream by then is done. Its own stream is ignored.
 * CACHALOT_STREAM_ALL stands for all streams, and is never ignored.
 *
 * @param address  0 and foreign addresses are ignored, as in the reference (foreign ones are
 *                 CACHALOT_ERROR_INVALID_STATE under backend:cudaMallocAsync).
 * @param stream   Of the block's device.
 */
CACHALOT_API cachalot_status cachalot_record_stream(cachalot_allocator* allocator,
                                                    cachalot_address address,
                                                    cachalot_stream stream, cachalot_error* error);

/** Like cachalot_record_stream, made while current_stream is the thread's current stream. */
CACHALOT_API cachalot_status cachalot_record_stream_on_stream(cachalot_allocator* allocator,
                                                              cachalot_address address,
                                                              cachalot_stream stream,
                                                              cachalot_stream current_stream,
                                                              cachalot_error* error);

/** What is known of a live block. CACHALOT_ERROR_INVALID_ARGUMENT for any other address. */
CACHALOT_API cachalot_status cachalot_get_block(cachalot_allocator* allocator,
                                                cachalot_address address, cachalot_block* out_block,
                                                cachalot_error* error);

/**
 * The segment of a live block: its first byte and its size in bytes. CACHALOT_ERROR_INVALID_STATE
 * for blocks of expandable segments and of an allocator without caching, as in the reference.
 */
CACHALOT_API cachalot_status cachalot_base_allocation(cachalot_allocator* allocator,
                                                      cachalot_address address,
                                                      cachalot_address* out_base,
                                                      uint64_t* out_size, cachalot_error* error);

/* ---- The cache ----------------------------------------------------------------------------------
 */

/** Gives all cached memory of all devices back to the driver, after waiting for blocks freed with
 * recorded streams. */
CACHALOT_API cachalot_status cachalot_empty_cache(cachalot_allocator* allocator,
                                                  cachalot_error* error);

/** The same for one device. */
CACHALOT_API cachalot_status cachalot_empty_device_cache(cachalot_allocator* allocator,
                                                         int32_t device, cachalot_error* error);

/** The same, made while current_stream is the thread's current stream. */
CACHALOT_API cachalot_status cachalot_empty_device_cache_on_stream(cachalot_allocator* allocator,
                                                                   int32_t device,
                                                                   cachalot_stream current_stream,
                                                                   cachalot_error* error);

/**
 * Lets go of a device's context, which the caller is about to end (cuDevicePrimaryCtxReset, cudaDeviceReset; Numba's
 * cuda.close()). Waits for blocks freed with recorded streams, gives the device's cached memory and all cached pinned
 * memory back, destroys the events that are kept for later frees, since a driver may end the process at one whose
 * context has ended, and gives the reference to the primary context back. The next call for the device takes the
 * context that there is then.
 *
 * What is live on the device ends with the context, and so do pinned blocks that were obtained in it: they must have
 * been freed, but this does not look for them. No other call for the device may be under way until the context has
 * ended. Peer access has to be enabled again (cachalot_enable_peer_access).
 *
 * @return CACHALOT_OK; CACHALOT_ERROR_INVALID_ARGUMENT for a device that the driver does not have;
 * CACHALOT_ERROR_INVALID_STATE while a capture may be under way on the device; CACHALOT_ERROR_NOT_SUPPORTED under
 * backend:cudaMallocAsync; CACHALOT_ERROR_DRIVER where the driver refused to wait or to take memory back.
 */
CACHALOT_API cachalot_status cachalot_release_context(cachalot_allocator* allocator, int32_t device,
                                                      cachalot_error* error);

/**
 * The largest cached block in bytes. Under backend:cudaMallocAsync the largest that can be
 * allocated: by trial on stream 0, halving from the lesser of limit and free memory.
 *
 * @param at_least  Where to start from; 0: the device's free memory counts as one block. Ignored by
 *                  backend:cudaMallocAsync.
 */
CACHALOT_API cachalot_status cachalot_largest_block(cachalot_allocator* allocator, int32_t device,
                                                    uint64_t at_least, uint64_t* out_size,
                                                    cachalot_error* error);

/** The same, made while current_stream is the thread's current stream (matters to
 * backend:cudaMallocAsync only). */
CACHALOT_API cachalot_status cachalot_largest_block_on_stream(cachalot_allocator* allocator,
                                                              int32_t device, uint64_t at_least,
                                                              cachalot_stream current_stream,
                                                              uint64_t* out_size,
                                                              cachalot_error* error);

/** Switches caching off (0) or on (1) for later requests. A block is freed the way it was made. */
CACHALOT_API cachalot_status cachalot_set_caching_enabled(cachalot_allocator* allocator,
                                                          int32_t enabled, cachalot_error* error);

/** 1 while requests are cached (R73); 0 otherwise and for NULL. */
CACHALOT_API int32_t cachalot_is_caching_enabled(const cachalot_allocator* allocator);

/* ---- Limits -------------------------------------------------------------------------------------
 */

/**
 * Limits what the allocator may obtain from a device. Releases nothing.
 *
 * @param fraction  Of the device's total memory, 0 to 1; 1: no limit.
 */
CACHALOT_API cachalot_status cachalot_set_memory_fraction(cachalot_allocator* allocator,
                                                          int32_t device, double fraction,
                                                          cachalot_error* error);

/** The fraction in force (limit over total); 1 without a limit. */
CACHALOT_API cachalot_status cachalot_memory_fraction(cachalot_allocator* allocator, int32_t device,
                                                      double* out_fraction, cachalot_error* error);

/** The same limit in bytes; UINT64_MAX: none. */
CACHALOT_API cachalot_status cachalot_set_memory_limit(cachalot_allocator* allocator,
                                                       int32_t device, uint64_t bytes,
                                                       cachalot_error* error);

/** The limit in force in bytes; UINT64_MAX: none. */
CACHALOT_API cachalot_status cachalot_memory_limit(cachalot_allocator* allocator, int32_t device,
                                                   uint64_t* out_bytes, cachalot_error* error);

/* ---- Settings -----------------------------------------------------------------------------------
 */

/**
 * Changes options at run time, by string. As in the reference, options that the string does not
 * name are kept or reset (docs/config.md), the change applies to the next request, and a string
 * with an error has applied what stands before the error.
 */
CACHALOT_API cachalot_status cachalot_configure(cachalot_allocator* allocator, const char* config,
                                                cachalot_error* error);

/** The last option string, word for word. Text like snprintf: *out_length is its full length
 * without the NUL. */
CACHALOT_API cachalot_status cachalot_get_config(cachalot_allocator* allocator, char* buffer,
                                                 size_t capacity, size_t* out_length,
                                                 cachalot_error* error);

/** The options in force. */
CACHALOT_API cachalot_status cachalot_get_settings(cachalot_allocator* allocator,
                                                   cachalot_settings* out_settings,
                                                   cachalot_error* error);

/** Sets all options at once. A value out of its range is CACHALOT_ERROR_INVALID_ARGUMENT and
 * changes nothing. */
CACHALOT_API cachalot_status cachalot_set_settings(cachalot_allocator* allocator,
                                                   const cachalot_settings* settings,
                                                   cachalot_error* error);

/**
 * Sets the options that the string names and leaves all others as they are, whatever other threads set
 * meanwhile (cachalot_configure resets some). The grammar, the checks and their texts are those of
 * cachalot_configure; a list that is named is replaced as a whole. cachalot_get_config goes on to give
 * the string of cachalot_configure; cachalot_get_settings gives what is in force.
 *
 * @param config  "max_split_size_mb:64,roundup_power2_divisions:4". Copied. "" changes nothing.
 * @return CACHALOT_OK; CACHALOT_ERROR_INVALID_ARGUMENT for a string that is not acceptable, or not
 * together with the other options, CACHALOT_ERROR_INVALID_STATE for another backend,
 * CACHALOT_ERROR_NOT_SUPPORTED for an option that the driver cannot serve: nothing has changed. Any
 * thread.
 */
CACHALOT_API cachalot_status cachalot_update_config(cachalot_allocator* allocator,
                                                    const char* config, cachalot_error* error);

/* ---- One setting at a time ----------------------------------------------------------------------
 *
 * Each function sets one field of cachalot_settings and leaves all others as they are at that moment, so
 * that threads that set different fields do not undo each other's changes. The change applies to the next
 * request; blocks that exist stay as they are. A value that is not acceptable, also one that does not go
 * with the other fields, is CACHALOT_ERROR_INVALID_ARGUMENT with the reference's text: nothing has changed.
 * Any thread. */

/**
 * Blocks of this size and more are kept whole.
 *
 * @param bytes At least the large segment size; UINT64_MAX: unlimited.
 */
CACHALOT_API cachalot_status cachalot_set_max_split_size(cachalot_allocator* allocator,
                                                         uint64_t bytes, cachalot_error* error);

/**
 * How much larger a cached block may be for a request of max_split_size and more.
 *
 * @param bytes At least the large segment size.
 */
CACHALOT_API cachalot_status cachalot_set_max_non_split_rounding_size(cachalot_allocator* allocator,
                                                                      uint64_t bytes,
                                                                      cachalot_error* error);

/**
 * The segment size of requests from 1 to 10 MiB, and the page size of new large expandable
 * segments.
 *
 * @param bytes A multiple of 1 MiB above 10 MiB, at most max_split_size.
 * max_non_split_rounding_size goes with it where it has the old value, which is its default.
 */
CACHALOT_API cachalot_status cachalot_set_large_segment_size(cachalot_allocator* allocator,
                                                             uint64_t bytes, cachalot_error* error);

/**
 * From which share of the memory limit on cached segments are collected.
 *
 * @param fraction Between 0 and 1; 0: off.
 */
CACHALOT_API cachalot_status cachalot_set_garbage_collection_threshold(
    cachalot_allocator* allocator, double fraction, cachalot_error* error);

/**
 * What throw_on_cudamalloc_oom compares with.
 *
 * @param fraction Of the device, 0 to 1. The limit in force stays: cachalot_set_memory_fraction
 * changes that.
 */
CACHALOT_API cachalot_status cachalot_set_per_process_memory_fraction(cachalot_allocator* allocator,
                                                                      double fraction,
                                                                      cachalot_error* error);

/**
 * Requests of more bytes are not rounded by divisions.
 *
 * @param bytes UINT64_MAX: all are.
 */
CACHALOT_API cachalot_status cachalot_set_roundup_bypass_threshold(cachalot_allocator* allocator,
                                                                   uint64_t bytes,
                                                                   cachalot_error* error);

/**
 * Whether new segments are made of pages.
 *
 * @param enabled 0 or 1. CACHALOT_ERROR_NOT_SUPPORTED for 1 where the driver has no virtual
 * memory.
 */
CACHALOT_API cachalot_status cachalot_set_expandable_segments(cachalot_allocator* allocator,
                                                              int32_t enabled,
                                                              cachalot_error* error);

/**
 * Whether other threads go on while the driver allocates.
 *
 * @param enabled 0 or 1.
 */
CACHALOT_API cachalot_status cachalot_set_release_lock_on_cudamalloc(cachalot_allocator* allocator,
                                                                     int32_t enabled,
                                                                     cachalot_error* error);

/**
 * Whether blocks freed during a capture are reused in it.
 *
 * @param enabled 0 or 1.
 */
CACHALOT_API cachalot_status cachalot_set_graph_capture_record_stream_reuse(
    cachalot_allocator* allocator, int32_t enabled, cachalot_error* error);

/**
 * Whether requests beyond per_process_memory_fraction are refused before the driver is asked.
 *
 * @param enabled 0 or 1. Since 2.12: under 2.11 1 is an unknown key.
 */
CACHALOT_API cachalot_status cachalot_set_throw_on_cudamalloc_oom(cachalot_allocator* allocator,
                                                                  int32_t enabled,
                                                                  cachalot_error* error);

/**
 * Completes frees of pinned memory in a thread of its own (pinned.h).
 *
 * @param enabled 0 or 1.
 */
CACHALOT_API cachalot_status cachalot_set_pinned_use_background_threads(
    cachalot_allocator* allocator, int32_t enabled, cachalot_error* error);

/**
 * Obtains pinned memory by registering ordinary memory (pinned.h).
 *
 * @param enabled 0 or 1.
 */
CACHALOT_API cachalot_status cachalot_set_pinned_use_cuda_host_register(
    cachalot_allocator* allocator, int32_t enabled, cachalot_error* error);

/**
 * Of pinned memory: kept, and without effect, since a free loses nothing here (U24).
 *
 * @param enabled 0 or 1. Since 2.12: under 2.11 1 is an unknown key.
 */
CACHALOT_API cachalot_status cachalot_set_pinned_free_catch_all(cachalot_allocator* allocator,
                                                                int32_t enabled,
                                                                cachalot_error* error);

/**
 * How many threads touch ordinary memory before it is registered as pinned memory.
 *
 * @param threads A power of two, 1 to 128.
 */
CACHALOT_API cachalot_status cachalot_set_pinned_num_register_threads(cachalot_allocator* allocator,
                                                                      uint64_t threads,
                                                                      cachalot_error* error);

/**
 * One region for pinned blocks, read at the first request that needs memory (pinned.h).
 *
 * @param megabytes MiB; 0: off.
 */
CACHALOT_API cachalot_status cachalot_set_pinned_reserve_segment_size_mb(
    cachalot_allocator* allocator, uint64_t megabytes, cachalot_error* error);

/**
 * Pinned blocks above it are not rounded up to a power of two.
 *
 * @param bytes UINT64_MAX: unset. Since 2.13.
 */
CACHALOT_API cachalot_status cachalot_set_pinned_max_round_threshold(cachalot_allocator* allocator,
                                                                     uint64_t bytes,
                                                                     cachalot_error* error);

/**
 * Pinned blocks above it go back to the driver when they are freed.
 *
 * @param bytes UINT64_MAX: unset. Since 2.13.
 */
CACHALOT_API cachalot_status cachalot_set_pinned_max_cached_size(cachalot_allocator* allocator,
                                                                 uint64_t bytes,
                                                                 cachalot_error* error);

/**
 * How many steps requests are rounded in between two powers of two.
 *
 * @param divisions  Powers of two, or 0: off. For sizes from 2^i MiB to below 2^(i+1) MiB; the first
 *                   and last slot are open. Copied.
 * @param count      16; or 1: the same for all sizes.
 */
CACHALOT_API cachalot_status cachalot_set_roundup_power2_divisions(cachalot_allocator* allocator,
                                                                   const uint64_t* divisions,
                                                                   size_t count,
                                                                   cachalot_error* error);

/* ---- Devices ------------------------------------------------------------------------------------
 */

/** Lets device use peer's memory, that of its expandable segments included, present and future. */
CACHALOT_API cachalot_status cachalot_enable_peer_access(cachalot_allocator* allocator,
                                                         int32_t device, int32_t peer,
                                                         cachalot_error* error);

/**
 * Copies between devices, or within one, on a stream; the host does not wait. The devices need no access to each
 * other. By PyTorch's rule (core 23.5) the call is the driver's for peers only where one of the devices has
 * expandable segments and cachalot_enable_peer_access was not called for the two: that lets to_device read what is
 * from_device's.
 *
 * @param to, from   Memory of the devices, also of others than this allocator; or pinned host memory, with the
 *                   device of the stream.
 * @param size       Bytes; 0: nothing happens.
 * @param stream     Of to_device.
 * @return CACHALOT_OK; CACHALOT_ERROR_INVALID_ARGUMENT for an unknown device, an address 0 or
 *         CACHALOT_STREAM_ALL; CACHALOT_ERROR_NOT_SUPPORTED for a custom driver without copies;
 *         CACHALOT_ERROR_DRIVER. Any thread.
 */
CACHALOT_API cachalot_status cachalot_copy(cachalot_allocator* allocator, cachalot_address to,
                                           int32_t to_device, cachalot_address from,
                                           int32_t from_device, uint64_t size,
                                           cachalot_stream stream, cachalot_error* error);

/** Where a device's memory is. */
CACHALOT_API cachalot_status cachalot_get_device_totals(cachalot_allocator* allocator,
                                                        int32_t device,
                                                        cachalot_device_totals* out_totals,
                                                        cachalot_error* error);

/**
 * The auditor: walks everything and compares lists, indexes and counters; with
 * CACHALOT_DEBUG_RED_ZONES it also looks behind every live block, and waits for their streams.
 *
 * @return CACHALOT_OK; CACHALOT_ERROR_INTERNAL with the first thing that is wrong;
 * CACHALOT_ERROR_INVALID_STATE with the first block that was written beyond its end. Holds each
 * device's lock while it looks at it.
 */
CACHALOT_API cachalot_status cachalot_check(cachalot_allocator* allocator, cachalot_error* error);

#ifdef __cplusplus
}
#endif

#endif /* CACHALOT_ALLOCATOR_H_ */
