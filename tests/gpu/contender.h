// SPDX-License-Identifier: MIT OR Apache-2.0
// An allocator that takes part in the benchmark.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <memory>
#include <string>

namespace gpu {

// Functions throw gpu::Failure. allocate and free are called from any thread.
class Contender {
 public:
  explicit Contender(std::string name) : name_(std::move(name)) {}
  Contender(const Contender&) = delete;
  Contender& operator=(const Contender&) = delete;
  virtual ~Contender() = default;

  const std::string& name() const { return name_; }

  // Before its turn, whatever others did meanwhile.
  virtual void begin_turn() {}
  virtual void* allocate(size_t size, cudaStream_t stream) = 0;
  virtual void free(void* address, cudaStream_t stream) = 0;
  // Gives all that is cached back to the driver.
  virtual void empty() = 0;
  // Without a cache each allocation is a miss.
  virtual bool has_cache() const { return true; }

 private:
  std::string name_;
};

// Follows PyTorch 2.11, the release that it is measured against. policy: as CACHALOT_POLICY has it.
std::unique_ptr<Contender> make_cachalot(const std::string& name, const std::string& config,
                                         const std::string& driver, const std::string& policy = "");
// PyTorch's own allocator, in the library made of torch_plugin.cpp. A process has one, so those with
// different options are the same one in turns, which is empty between them.
std::unique_ptr<Contender> make_torch(const std::string& name, const std::string& config,
                                      const std::string& library);
// cudaMallocAsync from the default pool, which keeps what is freed.
std::unique_ptr<Contender> make_stream_ordered();
// CUB's, with bins at each power of two and no limit of what it keeps. With its own defaults it does
// not cache above 2 MiB.
std::unique_ptr<Contender> make_cub();
// cudaMalloc and cudaFree.
std::unique_ptr<Contender> make_plain();
// The driver calls of a segment, and of an expandable one, without an allocator.
std::unique_ptr<Contender> make_driver_memory();
std::unique_ptr<Contender> make_driver_pages();

}  // namespace gpu
