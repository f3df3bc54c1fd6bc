/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/**
 * @file trim.h
 * Giving idle memory back to the driver, so that several processes can share a device.
 *
 * There is no thread of ours: the caller trims when it likes, say once a second (docs/serving.md
 * has a loop). A process that never does is never slowed by it.
 */
#ifndef CACHALOT_TRIM_H_
#define CACHALOT_TRIM_H_

#include "cachalot/allocator.h"

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Gives whole free segments, and whole free pages of expandable segments, back to the driver,
 * longest idle first (ties: under 2.15 the segment that was obtained first, then the lower address;
 * under 2.11 the lower address), until no more than keep_bytes are reserved on the device or
 * nothing is left that has been idle for min_idle_ns. A segment goes as a whole, and so do the
 * pages of a free block, so less than keep_bytes can be left.
 *
 * Memory counts as idle from the first trim on that sees it free, until any part of it is handed
 * out. So the first trim with a min_idle_ns above 0 gives nothing back, and marks what it sees.
 *
 * Over the driver "cuda:cgroup" min_idle_ns counts as 0 while less than a sixteenth of the device's limit is left.
 *
 * Private pools are trimmed as cachalot_empty_cache empties them: once they were released, since
 * graphs rely on their addresses before. Memory of a pool with a source of its own goes back to
 * that source.
 *
 * Blocks that wait for other streams are not idle; those whose work is done by now become free
 * first, as before an allocation. Nothing is waited for, except that an expandable segment's pages
 * go after the work on its stream, and for what the driver's own free waits for. While a capture is
 * marked (cachalot_capture_begin; under 2.11 while requests are routed to a pool) nothing happens,
 * since driver calls could spoil it.
 *
 * It counts and shows in the history as segments given back by cachalot_empty_cache, but for
 * num_sync_all_streams: nothing is synchronised.
 *
 * Under backend:cudaMallocAsync the driver's pool of the device is trimmed to keep_bytes;
 * min_idle_ns has to be 0 there (CACHALOT_ERROR_NOT_SUPPORTED), as nobody knows how long memory was
 * idle.
 *
 * @param keep_bytes          Bytes that may stay reserved on the device, live blocks included; 0:
 *                            as few as possible.
 * @param min_idle_ns         Nanoseconds; 0: whatever is free goes.
 * @param out_released_bytes  What was given back; written on failure too. May be NULL.
 * @return CACHALOT_OK; CACHALOT_ERROR_INVALID_ARGUMENT for a device that the driver does not have;
 * CACHALOT_ERROR_DRIVER where the driver refused: what was given back until then stays given back,
 * and the rest stays cached. Any thread.
 */
CACHALOT_API cachalot_status cachalot_trim(cachalot_allocator* allocator, int32_t device,
                                           uint64_t keep_bytes, uint64_t min_idle_ns,
                                           uint64_t* out_released_bytes, cachalot_error* error);

/**
 * The same by the caller's clock, for simulations and tests.
 *
 * @param now_ns  Nanoseconds of a clock that never goes back; cachalot_trim takes CLOCK_MONOTONIC.
 *                All trims of an allocator should be by one clock. Memory that was marked later
 *                than that counts as idle for 0.
 */
CACHALOT_API cachalot_status cachalot_trim_at(cachalot_allocator* allocator, int32_t device,
                                              uint64_t keep_bytes, uint64_t min_idle_ns,
                                              uint64_t now_ns, uint64_t* out_released_bytes,
                                              cachalot_error* error);

#ifdef __cplusplus
}
#endif

#endif /* CACHALOT_TRIM_H_ */
