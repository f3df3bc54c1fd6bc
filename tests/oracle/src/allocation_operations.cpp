// SPDX-License-Identifier: MIT OR Apache-2.0
// The words that allocate, use and free blocks.
#include <c10/cuda/CUDACachingAllocator.h>

#include <utility>

#include "../../hex_digits.h"
#include "operations.h"
#include "output.h"
#include "release.h"
#include "run.h"
#include "streams.h"

namespace oracle {
namespace {

void use_stream(uint64_t handle) { c10::cuda::setCurrentCUDAStream(stream_of(handle)); }

void current(Arguments& arguments) { use_stream(arguments.hex()); }

// An id in use frees its old block after the new allocation.
void keep(long id, c10::DataPtr block) {
  line("R " + hex(block.get()));
  run.last[id] = block.get();
  run.live.erase(id);
  run.live.emplace(id, std::move(block));
}

void allocate(Arguments& arguments) {
  const long id = arguments.id();
  const auto size = arguments.number<size_t>();
  use_stream(arguments.hex());
  keep(id, cca::get()->allocate(size));
}

void allocate_raw(Arguments& arguments) {
  const long id = arguments.id();
  const auto size = arguments.number<size_t>();
  void* address = cca::raw_alloc_with_stream(size, reinterpret_cast<cudaStream_t>(arguments.hex()));
  line("R " + hex(address));
  run.raw[id] = run.last[id] = address;
}

#if SINCE(13)
void allocate_at(Arguments& arguments) {
  const long id = arguments.id();
  const auto size = arguments.number<size_t>();
  const uint64_t stream = arguments.hex();
  const long reference = arguments.id();
  const long offset = arguments.number<long>();
  use_stream(stream);
  keep(id, cca::allocateWithAddress(size, static_cast<char*>(run.last[reference]) + offset));
}
#endif

void free_block(Arguments& arguments) {
  const long id = arguments.id();
  run.live.erase(id);
  auto it = run.raw.find(id);
  if (it == run.raw.end()) return;
  void* address = it->second;
  run.raw.erase(it);
  cca::raw_delete(address);
}

void free_address(Arguments& arguments) {
  cca::raw_delete(reinterpret_cast<void*>(arguments.hex()));
}

void record_stream(Arguments& arguments) {
  const c10::DataPtr* block = run.find(arguments.id());
  const uint64_t stream = arguments.hex();
  if (block) cca::recordStream(*block, stream_of(stream));
}

#if SINCE(14)
void annotate(Arguments& arguments) {
  const c10::DataPtr* block = run.find(arguments.id());
  if (block) cca::annotateMemory(block->get(), arguments.rest());
}

void annotate_address(Arguments& arguments) {
  void* address = reinterpret_cast<void*>(arguments.hex());
  cca::annotateMemory(address, arguments.rest());
}
#endif

void arm_callback(Arguments& arguments) {
  while (auto id = arguments.next_number<long>()) run.armed.push_back(*id);
}

void empty_cache(Arguments&) { cca::emptyCache(); }

void import_block(Arguments& arguments) {
  const long id = arguments.id();
  const c10::DataPtr* block = run.find(id);
  if (!block) return;
  run.imported[id] = cca::getIpcDevPtr(cca::shareIpcHandle(block->get()).handle);
  line("# imported " + hex(run.imported[id].get()));
}

// The bytes are "0363ab..." as `share` prints them; "-" for none at all.
void open_bytes(Arguments& arguments) {
  const long id = arguments.id();
  run.imported[id] = cca::getIpcDevPtr(cachalot_test::of_hex_digits(arguments.rest()));
  line("# imported " + hex(run.imported[id].get()));
}

void close_import(Arguments& arguments) { run.imported.erase(arguments.id()); }

}  // namespace

void add_allocation_operations(Operations& operations) {
  operations.insert({{"a", allocate},
                     {"raw", allocate_raw},
                     {"f", free_block},
                     {"delete", free_address},
                     {"r", record_stream},
                     {"current", current},
                     {"callback", arm_callback},
                     {"empty", empty_cache},
                     {"import", import_block},
                     {"open", open_bytes},
                     {"import_close", close_import}});
#if SINCE(13)
  operations.insert({{"at", allocate_at}});
#endif
#if SINCE(14)
  operations.insert({{"annotate", annotate}, {"annotate_at", annotate_address}});
#endif
}

}  // namespace oracle
