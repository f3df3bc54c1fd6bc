// SPDX-License-Identifier: MIT OR Apache-2.0
// The C interface of src/lib.rs, which says what each function asks for.
#pragma once

#include <cstddef>
#include <cstdint>

extern "C" {

struct cachalot_unwinder_modules;
struct cachalot_unwinder_cache;

// Where a library lies. All are addresses in this process, and sizes in bytes.
struct cachalot_unwinder_library {
  uint64_t base;
  uint64_t begin;
  uint64_t end;
  uint64_t index;  // .eh_frame_hdr
  uint64_t index_size;
  uint64_t frames;  // .eh_frame
  uint64_t frames_size;
};

cachalot_unwinder_modules* cachalot_unwinder_modules_new();
void cachalot_unwinder_modules_delete(cachalot_unwinder_modules* modules);
void cachalot_unwinder_modules_add(cachalot_unwinder_modules* modules,
                                   const cachalot_unwinder_library* library);

cachalot_unwinder_cache* cachalot_unwinder_cache_new();
void cachalot_unwinder_cache_delete(cachalot_unwinder_cache* cache);

// registers: of this thread: instruction pointer, stack pointer, frame pointer. Gives how many frames it stored:
// the address of the instruction pointer, then return addresses, the innermost first.
size_t cachalot_unwinder_walk(const cachalot_unwinder_modules* modules,
                              cachalot_unwinder_cache* cache, const uint64_t (*registers)[3],
                              uint64_t stack_end, uint64_t* frames, size_t most);

}  // extern "C"
