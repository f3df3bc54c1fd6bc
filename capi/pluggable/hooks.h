// SPDX-License-Identifier: MIT OR Apache-2.0
// What PyTorch calls of an allocator of others' (CUDAPluggableAllocator), over the one allocator of the library that
// these functions are a part of.
//
// The contract has no way to report an error. Where PyTorch is in the process and its frames let
// exceptions through, a call that fails throws PyTorch's own exception; else it says why on stderr.
//
// The contract keeps captures and other routings apart no more than it tells their begin and end, so
// each routing is marked as a capture too; a mark has an effect only on streams that are being
// captured (R10).
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <utility>

#include "cachalot/cachalot.h"

// PyTorch's own types, whose names are a part of those of its functions.
struct CUstream_st;

namespace cachalot::pluggable {

using Stream = CUstream_st*;
using PoolId = std::pair<unsigned long long, unsigned long long>;
using Filter = std::function<bool(Stream)>;

// The one allocator; null: there is none yet. Apart from what making it needs, so that a call reads one word.
extern constinit std::atomic<cachalot_allocator*> only_allocator;

// Of each library with these functions: the one allocator, where a call finds none yet.
cachalot_status find_or_make_allocator(cachalot_allocator** out, cachalot_error* error);

// One line on the standard error output.
void print(const char* message);

extern "C" {

CACHALOT_API void* cachalot_pluggable_alloc(size_t size, int device, Stream stream);

// The same without an exception, and without a word if memory is short: the allocation function for
// a MemPool, whose owner, PyTorch's native allocator, takes NULL for out of memory and has its own
// ways out.
CACHALOT_API void* cachalot_pluggable_try_alloc(size_t size, int device, Stream stream);

CACHALOT_API void cachalot_pluggable_free(void* pointer, size_t size, int device, Stream stream);

// Makes the allocator now, so that a wrong option shows at once.
CACHALOT_API void cachalot_pluggable_init(int device_count);

CACHALOT_API void cachalot_pluggable_reset(void);

CACHALOT_API void cachalot_pluggable_memory_fraction(double fraction, int device);

CACHALOT_API void* cachalot_pluggable_base_alloc(void* pointer, size_t* size);

CACHALOT_API void cachalot_pluggable_record_stream(void* pointer, Stream stream);

CACHALOT_API void cachalot_pluggable_begin_allocate_to_pool(int device, PoolId id, Filter filter);

CACHALOT_API void cachalot_pluggable_end_allocate_to_pool(int device, PoolId id);

CACHALOT_API void cachalot_pluggable_release_pool(int device, PoolId id);

}  // extern "C"

}  // namespace cachalot::pluggable
