/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/**
 * @file unsupported.h
 * What the reference has and this version does not: each function checks its arguments, changes
 * nothing and returns CACHALOT_ERROR_NOT_SUPPORTED.
 */
#ifndef CACHALOT_UNSUPPORTED_H_
#define CACHALOT_UNSUPPORTED_H_

#include "cachalot/allocator.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Writes what another process needs to open a block; *out_size is the number of bytes. */
CACHALOT_API cachalot_status cachalot_share(cachalot_allocator* allocator, cachalot_address address,
                                            void* buffer, size_t capacity, size_t* out_size,
                                            uint64_t* out_offset, cachalot_error* error);

/** Opens memory that another process shares. */
CACHALOT_API cachalot_status cachalot_open_shared(cachalot_allocator* allocator, int32_t device,
                                                  const void* shared, size_t size,
                                                  cachalot_address* out_address,
                                                  cachalot_error* error);

/** Copies between devices on a stream, over peer access where that is allowed. */
CACHALOT_API cachalot_status cachalot_copy(cachalot_allocator* allocator, cachalot_address to,
                                           int32_t to_device, cachalot_address from,
                                           int32_t from_device, uint64_t size,
                                           cachalot_stream stream, cachalot_error* error);

#ifdef __cplusplus
}
#endif

#endif /* CACHALOT_UNSUPPORTED_H_ */
