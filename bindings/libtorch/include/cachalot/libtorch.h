/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/**
 * @file libtorch.h
 * cachalot as the allocator of libtorch's CUDA memory, for programs in any language and without Python: C++,
 * Rust (tch), Java (DJL), C# (TorchSharp).
 *
 * @code
 * cachalot_allocator* allocator = NULL;
 * cachalot_allocator_create(NULL, &allocator, &error);
 * if (cachalot_libtorch_install(allocator, 0, &error) != CACHALOT_OK) ... error.message ...
 * ... tensors, whose memory is cachalot's; cachalot_get_stats, cachalot_trim and all others with `allocator` ...
 * @endcode
 *
 * Nothing is linked against libtorch: its functions are found by their symbols in the libraries that the process has
 * loaded, also where a language's package has loaded them for itself alone (RTLD_LOCAL). libtorch 2.7.1, 2.11 and 2.15
 * were tried; another one serves if it has the same symbols, which are looked for before anything is changed.
 *
 * This library and the program have to use one copy of cachalot, the shared library: an allocator of another copy may
 * be of another version, and its labels and tenants are not seen here.
 *
 * The conventions are those of cachalot.h. Any thread may call a function, also several at once; while
 * cachalot_libtorch_install runs, no other thread may use libtorch's CUDA.
 */
#ifndef CACHALOT_LIBTORCH_H_
#define CACHALOT_LIBTORCH_H_

#include "cachalot/cachalot.h"

#ifdef __cplusplus
extern "C" {
#endif

/** A flag of cachalot_libtorch_install: the allocator has to make the decisions of the release that is loaded
 * (cachalot_allocator_options::release). */
#define CACHALOT_LIBTORCH_SAME_RELEASE 0x1u
/** Another flag: the allocator's driver may be another one than `cuda`, for tests without a GPU. libtorch's kernels
 * cannot use its memory. The driver `sim`, which has none, stays an error. */
#define CACHALOT_LIBTORCH_ANY_DRIVER 0x2u

/** The libtorch of this process. */
typedef struct cachalot_libtorch_info {
  /** sizeof(cachalot_libtorch_info), set by the caller. */
  size_t struct_size;
  /** The three numbers of its version; 0.0.0 where it does not tell them. */
  int32_t major;
  int32_t minor;
  int32_t patch;
  /** Its release for cachalot_allocator_options::release; 0, the default there, where cachalot has no such release. */
  int32_t release;
  /** The path of its CUDA library; lives as long as the process. */
  const char* library;
} cachalot_libtorch_info;

/**
 * Finds the libtorch that is loaded, which stays loaded then, and changes nothing else.
 *
 * @param out_info  What was found; may be NULL.
 * @return CACHALOT_OK; CACHALOT_ERROR_INVALID_ARGUMENT for a struct_size that is too small;
 * CACHALOT_ERROR_INVALID_STATE where no libtorch is loaded, none with CUDA, or two;
 * CACHALOT_ERROR_NOT_SUPPORTED for one that lacks a symbol, which the message names;
 * CACHALOT_ERROR_OUT_OF_HOST_MEMORY.
 */
CACHALOT_API cachalot_status cachalot_libtorch_find(cachalot_libtorch_info* out_info,
                                                    cachalot_error* error);

/**
 * Makes an allocator the one of libtorch's CUDA memory, on all devices, for the rest of the process. libtorch has no
 * way back from its first use of CUDA, so this call must come before, and there is no function that takes it back.
 *
 * Tensors, streams, `record_stream`, CUDA graphs and their pools work as with libtorch's own allocator. An out of
 * memory is libtorch's own exception c10::OutOfMemoryError with libtorch's own text; any other failure is a c10::Error.
 * What libtorch asks when the process ends is still answered.
 *
 * Several GPUs: where libtorch enables access between two of them, that is for memory of cudaMalloc. Expandable
 * segments need cachalot_enable_peer_access as well, for each GPU that reaches another's tensors.
 *
 * With CACHALOT_DISABLE=1 in the environment nothing is installed, a line on the standard error output says so, and
 * the call is CACHALOT_OK.
 *
 * @param allocator  A live one of this copy of cachalot. Its driver has to have libtorch's devices under libtorch's
 *                   numbers: the driver `cuda`. Borrowed: it must never be destroyed, since static objects of libtorch
 *                   free memory until the very end.
 * @param flags      0, or CACHALOT_LIBTORCH_... combined.
 * @return CACHALOT_OK; the errors of cachalot_libtorch_find; CACHALOT_ERROR_INVALID_ARGUMENT for no live allocator, an
 * unknown flag, a driver that is not `cuda` and not permitted, or an allocator that makes the decisions of another
 * release although CACHALOT_LIBTORCH_SAME_RELEASE is set; CACHALOT_ERROR_INVALID_STATE where libtorch uses CUDA already
 * or this function has succeeded before. After an error libtorch's allocator is the one that it was.
 */
CACHALOT_API cachalot_status cachalot_libtorch_install(cachalot_allocator* allocator,
                                                       uint32_t flags, cachalot_error* error);

#ifdef __cplusplus
}
#endif

#endif /* CACHALOT_LIBTORCH_H_ */
