// SPDX-License-Identifier: MIT OR Apache-2.0
// One run of a script: what it has made so far, and how the allocator is set up for it.
#pragma once
#include <c10/core/Allocator.h>
#include <c10/cuda/CUDACachingAllocator.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

namespace oracle {

namespace cca = c10::cuda::CUDACachingAllocator;

struct Run {
  // Live blocks by their id: of tensors, and of the raw entry points.
  std::unordered_map<long, c10::DataPtr> live;
  std::unordered_map<long, void*> raw;
  // The address that an id had last.
  std::unordered_map<long, void*> last;
  // What the free-memory callback will free when it runs next.
  std::vector<long> armed;

  std::map<std::string, std::shared_ptr<cca::AllocatorState>> checkpoints;
  std::map<long, std::shared_ptr<void>> imported;

  size_t total = size_t{80} << 30;
  uint64_t seed = 1;
  int devices = 1;
  bool device_lines = true;

  // Whether the backend is PyTorch's own and not cudaMallocAsync.
  bool native = true;
  bool ready = false;

  // Sets the allocator up, once; a failure is written and ends the process.
  void start();

  // The pointer of a live tensor; null for any other id.
  const c10::DataPtr* find(long id) const;
};

// There is one, since PyTorch's callbacks carry no data.
extern Run run;

}  // namespace oracle
