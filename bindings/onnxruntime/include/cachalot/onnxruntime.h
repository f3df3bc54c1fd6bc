/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/**
 * @file onnxruntime.h
 * cachalot as the allocator of ONNX Runtime (ORT), for programs in any language.
 *
 * All sessions that were made with the entry `session.use_env_allocators` set to "1" use
 * - for **CPU memory** the allocator over the `host` driver that cachalot_ort_register was given;
 * - for **CUDA memory** that of cachalot_ort_register_cuda;
 * - for **pinned memory**, out of which the CUDA provider copies, that of cachalot_ort_register_pinned.
 *
 * A wrapper that can give the CUDA provider's options `gpu_external_alloc`, `gpu_external_free` and
 * `gpu_external_empty_cache`, as Python's, finds functions for these here too.
 *
 * @code
 * cachalot_ort_options options = {.struct_size = sizeof options, .allocator = allocator};
 * cachalot_ort_allocator* registered = NULL;
 * if (cachalot_ort_register(&options, &registered, &error) != CACHALOT_OK) ... error.message ...
 * ... sessions, with session.use_env_allocators; all of them closed ...
 * cachalot_ort_unregister(registered, &error);
 * @endcode
 *
 * Nothing is linked against ORT: the one that the process has loaded is looked for, whatever its name,
 * also where a language's package has loaded it for itself alone (RTLD_LOCAL). A program that
 * contains ORT has to export OrtGetApiBase (-rdynamic). ORT 1.17 or newer.
 *
 * This library and the program have to use one copy of cachalot, the shared library: a tenant that
 * is begun in another copy is not seen here.
 *
 * The conventions are those of cachalot.h. All functions may be called from any thread.
 */
#ifndef CACHALOT_ONNXRUNTIME_H_
#define CACHALOT_ONNXRUNTIME_H_

#include "cachalot/cachalot.h"

#ifdef __cplusplus
extern "C" {
#endif

/** The oldest ORT that is served: the second number of its version. */
#define CACHALOT_ORT_OLDEST_API 17

/** @name Shared memory of sessions */
/** @{ */

/** ORT's table of an allocator's functions, from its header. */
struct OrtAllocator;

/** cachalot as registered with ORT's environment. */
typedef struct cachalot_ort_allocator cachalot_ort_allocator;

/** What is registered. Zero means default in every field but allocator. */
typedef struct cachalot_ort_options {
  /** sizeof(cachalot_ort_options), set by the caller. */
  size_t struct_size;
  /** Where ORT's memory comes from. Borrowed: it must live until cachalot_ort_unregister has
   * worked. */
  cachalot_allocator* allocator;
  /** A device of its driver. */
  int32_t device;
  int32_t reserved_0;
  /** The path of ORT's library, which is loaded if it is not yet; a copy at another path is another
   * ORT. NULL: the one that the process has loaded. */
  const char* library;
} cachalot_ort_options;

/** What has been asked of a registration so far. */
typedef struct cachalot_ort_info {
  /** sizeof(cachalot_ort_info), set by the caller. */
  size_t struct_size;
  /** ORT's version, for example "1.31.1", and the path of its library; they live as long as the
   * process. */
  const char* version;
  const char* library;
  /** Blocks that ORT has now. */
  uint64_t live_blocks;
  /** Requests for memory; how many of them were for weights (ORT's Reserve); how many failed. */
  uint64_t requests;
  uint64_t reserves;
  uint64_t failures;
} cachalot_ort_info;

/**
 * Makes an allocator the one that ORT's sessions share for CPU memory. Its driver has to be `host`.
 *
 * ORT's environment exists once a process and is counted. It is made here if need be, and kept until
 * cachalot_ort_unregister. Its first maker chooses its logger and thread pools, so a wrapper that
 * does should make it before. Sessions that exist already stay as they are, later ones use cachalot
 * if they are made with the entry `session.use_env_allocators` = "1". With
 * `session.use_device_allocator_for_initializers` = "1" weights are asked for by themselves; they go
 * to stream 1, runs to stream 0, so that weights share no segment with what a trim could give back.
 *
 * Requests are made on the thread that runs or makes a session, so they belong to that thread's
 * tenant (cachalot_tenant_begin) and labels. Only with ORT's parallel execution mode and RunAsync
 * they are made on threads of ORT's too, which have neither.
 *
 * A request that fails becomes an error of the run, with the message of cachalot_error in its text;
 * the session and its other runs go on. What failed, and a report, can be read on the same thread:
 * cachalot_ort_last_failure. (ORT's kernels write through what they get without a look at it: like
 * ORT's own arena, an allocator has to throw. It is thrown only where ORT's own code asks, that of
 * its providers' libraries (libonnxruntime_providers_*) included; to others, who go through
 * cachalot_ort_get_table, NULL is returned. An ORT that was built without exceptions ends the process
 * instead, as it does with its own arena.)
 *
 * With CACHALOT_DISABLE=1 in the environment nothing is registered, a line on the standard error output says so, and
 * the call is CACHALOT_OK and gives NULL. So it is with the two functions below.
 *
 * @param out_registered  Ended by cachalot_ort_unregister only.
 * @return CACHALOT_OK; CACHALOT_ERROR_INVALID_ARGUMENT for a driver other than `host`, a device that
 * it does not have, or a library that cannot be loaded; CACHALOT_ERROR_INVALID_STATE where no ORT is
 * loaded, several are, an allocator is registered already, or ORT refuses, in its words;
 * CACHALOT_ERROR_NOT_SUPPORTED for an ORT that is too old.
 */
CACHALOT_API cachalot_status cachalot_ort_register(const cachalot_ort_options* options,
                                                   cachalot_ort_allocator** out_registered,
                                                   cachalot_error* error);

/**
 * The same for the memory of a CUDA device, `options->device`, with any driver but `host`; one for
 * each device. ORT 1.23 or newer, which says for which stream it asks: a block is used again on its
 * own stream only. What ORT asks for without a stream counts for stream 0, weights for stream 1.
 *
 * @return As cachalot_ort_register; CACHALOT_ERROR_NOT_SUPPORTED for an ORT before 1.23.
 */
CACHALOT_API cachalot_status cachalot_ort_register_cuda(const cachalot_ort_options* options,
                                                        cachalot_ort_allocator** out_registered,
                                                        cachalot_error* error);

/**
 * The same for pinned host memory, which the CUDA provider copies out of and into: the pinned memory of
 * an allocator (pinned.h) whose driver has some, for the provider of the CUDA device `options->device`;
 * one for each device. ORT 1.23 or newer. Where ORT says the stream of a request, the block waits for
 * that stream once ORT has freed it. ORT's statistics have a limit only where the allocator has a
 * `pinned_config`.
 *
 * @return As cachalot_ort_register; CACHALOT_ERROR_NOT_SUPPORTED for an ORT before 1.23, and where the
 * allocator's driver has no pinned memory.
 */
CACHALOT_API cachalot_status cachalot_ort_register_pinned(const cachalot_ort_options* options,
                                                          cachalot_ort_allocator** out_registered,
                                                          cachalot_error* error);

/**
 * Takes the allocator back. Close all sessions that use it before: while one has memory this is
 * refused, and one that has none by chance gets none any more.
 *
 * @param registered  NULL: nothing happens. Not to be used afterwards.
 * @return CACHALOT_OK; CACHALOT_ERROR_INVALID_STATE while ORT has blocks (their number is in the
 * message), or where ORT refuses: then nothing has happened.
 */
CACHALOT_API cachalot_status cachalot_ort_unregister(cachalot_ort_allocator* registered,
                                                     cachalot_error* error);

/**
 * What ORT sees, for ORT's functions that take an allocator: tensors of the program's own can lie in
 * cachalot's memory too. Its Free is for what its Alloc and Reserve gave. NULL for NULL.
 *
 * @return Borrowed, until cachalot_ort_unregister; all that was made with it has to be freed before.
 */
CACHALOT_API struct OrtAllocator* cachalot_ort_get_table(cachalot_ort_allocator* registered);

/** What has been asked of it. */
CACHALOT_API cachalot_status cachalot_ort_get_info(const cachalot_ort_allocator* registered,
                                                   cachalot_ort_info* out_info,
                                                   cachalot_error* error);
/** @} */

/** @name Failures, of both kinds of memory */
/** @{ */

/**
 * The last request of ORT's on the calling thread that failed since cachalot_ort_forget_failure.
 *
 * @param out_failure  Gets the error of that request, with its numbers; may be NULL.
 * @param buffer       Gets the report (report.h) of that moment as text, like snprintf; may be NULL
 *                     with capacity 0. It is "" where the failure was no out of memory.
 * @param out_length   The full length without the NUL; may be NULL.
 * @return CACHALOT_OK; CACHALOT_ERROR_INVALID_STATE if there was none: nothing is written.
 */
CACHALOT_API cachalot_status cachalot_ort_last_failure(cachalot_error* out_failure, char* buffer,
                                                       size_t capacity, size_t* out_length);

/** Forgets it. To be called before a run whose failure will be asked for. */
CACHALOT_API void cachalot_ort_forget_failure(void);
/** @} */

/**
 * @name Functions for the CUDA provider's options
 *
 * The provider takes the functions as options of its own, each an address as a decimal number
 * (cachalot_ort_external_option_at lists them). Only Python's package passes them on to it: ORT's C
 * interface, and with it that of C, Java, Go and Rust, accepts these options and then leaves them out
 * (seen with 1.31.1). There cachalot_ort_register_cuda is what has an effect.
 *
 * They have no context, so one allocator a process serves them. They make no device current, and need
 * none to be.
 *
 * The provider frees a block when its work is queued, not when it is done, and relies on the order
 * of the stream. With these functions it runs all sessions on the default stream (0), and refuses one
 * of the program's own (`user_compute_stream`).
 */
/** @{ */

/**
 * Makes an allocator the one behind the three functions.
 *
 * @param allocator  Of any driver. Borrowed: it must live until cachalot_ort_external_unregister has
 *                   worked.
 * @param device     Where requests go of threads that have named none.
 * @param stream     And for which stream; 0 for the provider.
 * @return CACHALOT_OK; CACHALOT_ERROR_INVALID_ARGUMENT for a device that the driver does not have;
 * CACHALOT_ERROR_INVALID_STATE if there is one already.
 */
CACHALOT_API cachalot_status cachalot_ort_external_register(cachalot_allocator* allocator,
                                                            int32_t device, cachalot_stream stream,
                                                            cachalot_error* error);

/** Takes it back. CACHALOT_ERROR_INVALID_STATE while blocks are live (their number is in the
 * message) or if there is none. */
CACHALOT_API cachalot_status cachalot_ort_external_unregister(cachalot_error* error);

/** Device and stream of the calling thread's later requests, until cachalot_ort_external_unset_stream.
 */
CACHALOT_API void cachalot_ort_external_set_stream(int32_t device, cachalot_stream stream);
CACHALOT_API void cachalot_ort_external_unset_stream(void);

/**
 * `gpu_external_alloc`. Bytes; 0 gives NULL.
 *
 * @return NULL on failure, of which the provider makes an error of the run; see
 * cachalot_ort_last_failure.
 */
CACHALOT_API void* cachalot_ort_external_alloc(size_t size);

/** `gpu_external_free`. NULL does nothing; an address that is not live is reported on the standard
 * error output. */
CACHALOT_API void cachalot_ort_external_free(void* pointer);

/**
 * `gpu_external_empty_cache`: gives the cache of the thread's device back, all of it.
 *
 * The provider calls it after each free of what it had asked for by its Reserve: weights when a
 * session ends, but in the middle of runs too, for example each workspace in which cuDNN searches for
 * the best way to compute a convolution of a new shape. With ever new shapes all memory would come
 * from the driver again and again: leave this option out then, and call cachalot_trim.
 */
CACHALOT_API void cachalot_ort_external_empty_cache(void);

/**
 * The options of the CUDA provider, one after the other: name and value.
 *
 * @param index  0 to 2.
 * @param out_name, out_value  Live as long as the library.
 * @return CACHALOT_OK, or CACHALOT_ERROR_INVALID_ARGUMENT past the last.
 */
CACHALOT_API cachalot_status cachalot_ort_external_option_at(size_t index, const char** out_name,
                                                             const char** out_value);
/** @} */

#ifdef __cplusplus
}
#endif

#endif /* CACHALOT_ONNXRUNTIME_H_ */
