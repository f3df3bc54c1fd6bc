/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/**
 * @file cachalot.h
 * cachalot: PyTorch's CUDA caching allocator for every program that is not PyTorch.
 *
 * @code
 * cachalot_allocator* allocator = NULL;
 * cachalot_address address = 0;
 * cachalot_error error = CACHALOT_ERROR_INIT;
 * if (cachalot_allocator_create(NULL, &allocator, &error) == CACHALOT_OK &&
 *     cachalot_allocate(allocator, 1 << 20, 0, 0, &address, &error) == CACHALOT_OK) {
 *   ... use 1 MiB at `address` on the default stream of device 0 ...
 *   cachalot_free(allocator, address, NULL);
 * } else {
 *   fprintf(stderr, "%s\n", error.message);
 * }
 * cachalot_allocator_destroy(allocator, NULL);
 * @endcode
 *
 * The parts, each in a header of its own:
 *
 * | header        | subject                                                             |
 * | ------------- | ------------------------------------------------------------------- |
 * | status.h      | versions, statuses, the error record                                |
 * | driver.h      | where memory comes from: cuda, host, sim, or functions of yours     |
 * | sim.h         | the simulated device under your control                             |
 * | allocator.h   | the allocator: blocks, cache, limits, settings                      |
 * | stats.h       | statistics and the memory summary                                   |
 * | history.h     | history, contexts, labels, observers                                |
 * | recorder.h    | recordings while the program runs; files of an out-of-memory error  |
 * | snapshot.h    | segments and blocks at one moment                                   |
 * | pool.h        | private pools, captures, expandable segments                        |
 * | sleep.h       | pools whose memory goes back and comes back at the same addresses    |
 * | share.h       | blocks of one process in another                                    |
 * | pinned.h      | pinned host memory                                                  |
 * | policy.h      | the serving policy, memory that stays in place, the end of streams  |
 * | tenant.h      | several users of one allocator: guarantees, limits, pressure        |
 * | trim.h        | idle memory given back to the driver                                |
 * | report.h      | who holds what, and what is in the way of a request                 |
 * | metrics.h     | statistics for Prometheus                                           |
 * | trace.h       | recorded runs and their replay                                      |
 *
 * Not included here: cuda.h, wrappers for CUDA's own types of streams and addresses, and text.h,
 * which gives texts in one call.
 *
 * Conventions, everywhere:
 * - A function that can fail returns a cachalot_status and takes a `cachalot_error*` last, which
 * may be NULL.
 * - A failed call has changed nothing, except where its text says so. Results are written on
 * success only.
 * - Handles are opaque. What a function gives through `out_...` belongs to the caller, unless it
 * says borrowed.
 * - Transparent structs begin with `size_t struct_size`, set by the caller to sizeof(the struct).
 * They only grow at their end: a shorter one from an older caller is read as if the rest were zero,
 * and never written beyond its size. A size that is shorter than that of version 0.1 is
 * CACHALOT_ERROR_INVALID_ARGUMENT. Fields named reserved_0 are to be 0.
 * - Zero means default. A struct whose fields are all zero, but for struct_size, is valid.
 * - NULL for a handle, an out pointer or a needed argument is CACHALOT_ERROR_INVALID_ARGUMENT.
 * - Callbacks come with a user_data pointer, and where ownership passes with a destroy function
 * that is called exactly once. They must not throw.
 * - There is no process-wide state: two allocators know nothing of each other. Only a thread's
 * labels and its metadata text belong to the thread.
 *
 * Rule ids in the texts (R31, U3) are those of docs/behaviour.md.
 */
#ifndef CACHALOT_CACHALOT_H_
#define CACHALOT_CACHALOT_H_

#include "cachalot/allocator.h"
#include "cachalot/checkpoint.h"
#include "cachalot/driver.h"
#include "cachalot/history.h"
#include "cachalot/metrics.h"
#include "cachalot/pinned.h"
#include "cachalot/policy.h"
#include "cachalot/pool.h"
#include "cachalot/recorder.h"
#include "cachalot/report.h"
#include "cachalot/share.h"
#include "cachalot/sim.h"
#include "cachalot/sleep.h"
#include "cachalot/snapshot.h"
#include "cachalot/stats.h"
#include "cachalot/status.h"
#include "cachalot/tenant.h"
#include "cachalot/trace.h"
#include "cachalot/trim.h"

#endif /* CACHALOT_CACHALOT_H_ */
