// SPDX-License-Identifier: MIT OR Apache-2.0
// What stream handles mean. Handle 2 is the per-thread default stream, another one on each thread,
// so memory that is cached under it on one thread must not be taken by another: each thread has a
// number of its own for it. All streams together have a number, and no handle.
#pragma once

#include "device/cuda_api.h"
#include "device/device.h"

namespace cachalot::cuda {

// The number that handle 2 has on the calling thread; any other handle as it is.
Stream number_of(Stream handle);

// The handle again.
Stream handle_named(Stream number);

// Whether it is the per-thread default stream of another thread than this one.
bool is_of_another_thread(Stream number);

// The driver's handle. A stream of another thread cannot be named here: the legacy stream stands
// in for it, which waits for what is queued on all threads' default streams (a wait too long, never
// too short). pre: not kAllStreams.
StreamHandle handle_of(Stream number);

}  // namespace cachalot::cuda
