// SPDX-License-Identifier: MIT OR Apache-2.0
// ORT's table of functions over the memory of one cachalot allocator.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include "gate.h"
#include "memory.h"
#include "runtime.h"

namespace cachalot::ort {

// ORT keeps the address of the table for as long as any session lives that was made with it, and
// tells nobody when that ends: so one is never destroyed, only closed.
class Table : public OrtAllocator {
 public:
  // Takes over the memory info, which ORT asks for as long as it has the table.
  Table(const Runtime& runtime, std::unique_ptr<Memory> memory, int32_t device,
        OrtMemoryInfo* info);

  Gate& gate() { return gate_; }
  const Gate& gate() const { return gate_; }
  const Runtime& runtime() const { return runtime_; }
  const OrtMemoryInfo* info() const { return info_; }
  int32_t device() const { return device_; }

  // From here on requests say the stream that the memory is used on.
  void follow_streams();

  uint64_t requests() const { return requests_.load(std::memory_order_relaxed); }
  uint64_t reserves() const { return reserves_.load(std::memory_order_relaxed); }
  uint64_t failures() const { return failures_.load(std::memory_order_relaxed); }

  // Fills a list of ORT's with its names for statistics.
  void add_stats(OrtKeyValuePairs* out) const;

  // NULL or an exception on failure, as the caller can bear it.
  void* allocate(size_t size, cachalot_stream stream, const void* caller);
  void* reserve(size_t size, const void* caller);
  void free(void* pointer);

 private:
  cachalot_status request(size_t size, cachalot_stream stream, cachalot_address* out,
                          cachalot_error* error);

  const Runtime runtime_;
  const std::unique_ptr<Memory> memory_;
  const int32_t device_;
  OrtMemoryInfo* const info_;
  mutable Gate gate_;  // statistics are read behind it too
  std::atomic<uint64_t> requests_{0};
  std::atomic<uint64_t> reserves_{0};
  std::atomic<uint64_t> failures_{0};
  std::atomic<uint64_t> largest_{0};
};

}  // namespace cachalot::ort
