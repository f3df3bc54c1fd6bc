/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/**
 * @file policy.h
 * Whose decisions an allocator makes: PyTorch's, or those of cachalot's serving policy, which serves the
 * same requests from less memory (docs/policy.md). And what programs tell an allocator that moves memory:
 * what others have registered, and which streams end.
 */
#ifndef CACHALOT_POLICY_H_
#define CACHALOT_POLICY_H_

#include "cachalot/allocator.h"

#ifdef __cplusplus
extern "C" {
#endif

/** A policy with its options, as cachalot_allocator_options and cachalot_replay_options have them. */
typedef struct cachalot_policy {
  /** sizeof(cachalot_policy), set by the caller. */
  size_t struct_size;
  /** CACHALOT_POLICY_PYTORCH or CACHALOT_POLICY_SERVING. */
  int32_t policy;
  /** 1: idle pages serve before any new one. */
  int32_t thrift;
  /** CACHALOT_BORROW_*. */
  int32_t borrow;
  /** CACHALOT_STREAMS_*. */
  int32_t streams;
  /** Bytes of a page. 0: the policy's choice. */
  uint64_t page_bytes;
} cachalot_policy;

/** What the policy has done on a device. But for pinned_bytes, sums since the allocator was made, which
 * nothing resets; 0 where PyTorch's decisions are made. */
typedef struct cachalot_policy_stats {
  /** sizeof(cachalot_policy_stats), set by the caller. */
  size_t struct_size;
  /** Pages obtained from the driver. */
  uint64_t pages_created;
  /** Pages that went from cached blocks to where they were missing. */
  uint64_t pages_moved;
  /** Pages given back to the driver. Those that it still gives are pages_created - pages_released. */
  uint64_t pages_released;
  /** Requests served by a cached block of another stream. */
  uint64_t blocks_borrowed;
  /** How often a stream was made to wait for another, on the device. */
  uint64_t stream_waits;
  /** How often a call waited for a stream or the device. */
  uint64_t host_waits;
  /** Bytes of pages and plain segments that are pinned now (cachalot_pin), under either policy. */
  uint64_t pinned_bytes;
} cachalot_policy_stats;

/**
 * Reads a policy as the environment variable CACHALOT_POLICY has it: "pytorch", or "serving" and any of
 * its options: "serving,thrift,page=8MiB,borrow=at_limit,streams=announced" (docs/policy.md lists them).
 *
 * @param text        Sizes are whole numbers with B, KiB, MiB, GiB or TiB; without a unit: bytes.
 * @param out_policy  What the text does not name is 0.
 * @return CACHALOT_OK, or CACHALOT_ERROR_INVALID_ARGUMENT with what was expected. Any thread.
 */
CACHALOT_API cachalot_status cachalot_policy_read(const char* text, cachalot_policy* out_policy,
                                                  cachalot_error* error);

/** The policy in force, which lasts as long as its allocator; page_bytes is 0 where pages are as PyTorch has
 * them. Any thread. */
CACHALOT_API cachalot_status cachalot_get_policy(cachalot_allocator* allocator,
                                                 cachalot_policy* out_policy,
                                                 cachalot_error* error);

/** What it has done on a device. Waits for a miss that is under way there, as statistics do. Any thread. */
CACHALOT_API cachalot_status cachalot_get_policy_stats(cachalot_allocator* allocator,
                                                       int32_t device,
                                                       cachalot_policy_stats* out_stats,
                                                       cachalot_error* error);

/**
 * Keeps a part of a live block where it is: until it is unpinned, the segment or the pages under it are
 * neither given back to the driver nor moved, also after the block was freed. Blocks come and go there as
 * before. For memory that others have registered: RDMA (nixl, UCX, MPI), dma-buf, NCCL's user buffers,
 * handles given to other processes. Under either policy; a limit or an emptied cache does not lift it.
 *
 * @param address  Within a live block of the cache.
 * @param size     Bytes from there on, not beyond the block; above 0.
 * @return CACHALOT_OK: the part is pinned once more. CACHALOT_ERROR_INVALID_ARGUMENT for a part that does
 * not lie in one live block, also of a block that bypassed the cache; CACHALOT_ERROR_NOT_SUPPORTED under
 * backend:cudaMallocAsync. Any thread.
 */
CACHALOT_API cachalot_status cachalot_pin(cachalot_allocator* allocator, cachalot_address address,
                                          uint64_t size, cachalot_error* error);

/**
 * Ends one pin of exactly this part.
 *
 * @param address  As it was pinned; the block may have been freed since.
 * @param size     As it was pinned.
 * @return CACHALOT_OK, or CACHALOT_ERROR_INVALID_ARGUMENT for a part that is not pinned. Any thread.
 */
CACHALOT_API cachalot_status cachalot_unpin(cachalot_allocator* allocator, cachalot_address address,
                                            uint64_t size, cachalot_error* error);

/**
 * Tells that a stream is about to be destroyed and that no more work comes of it. Waits for its work; then
 * nothing waits for the stream any more: no borrower, and no free of a block that it had or was recorded
 * for (cachalot_record_stream). With CACHALOT_STREAMS_ANNOUNCED call it before the stream is destroyed: a
 * borrower of its memory would wait for it by its handle. The handle may stand for a new stream afterwards.
 * With PyTorch's decisions nothing happens.
 *
 * @return CACHALOT_OK; CACHALOT_ERROR_INVALID_ARGUMENT for CACHALOT_STREAM_ALL;
 * CACHALOT_ERROR_INVALID_STATE while a capture may be under way on the device;
 * CACHALOT_ERROR_DRIVER where the work has failed: then nothing has changed. Any thread.
 */
CACHALOT_API cachalot_status cachalot_stream_ended(cachalot_allocator* allocator, int32_t device,
                                                   cachalot_stream stream, cachalot_error* error);

#ifdef __cplusplus
}
#endif

#endif /* CACHALOT_POLICY_H_ */
