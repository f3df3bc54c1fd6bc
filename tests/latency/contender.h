/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What the benchmark of latency asks of an allocator: a shared library with these functions, each behind
 * a prefix (cachalot_latency.c; c10_plugin.cpp of the oracle). Device 0, simulated. */
#ifndef TESTS_LATENCY_CONTENDER_H_
#define TESTS_LATENCY_CONTENDER_H_

#include <stdint.h>
#include <sys/types.h>

typedef void* (*contender_alloc)(ssize_t size, int device, void* stream);
typedef void (*contender_free)(void* address, ssize_t size, int device, void* stream);
typedef void (*contender_set_latency)(uint64_t nanoseconds); /* of the driver's malloc and free */
typedef void (*contender_call)(void);                        /* snapshot, trim, read_stats */

#endif
