// SPDX-License-Identifier: MIT OR Apache-2.0
// Fills a block with a pattern that depends on the block's number, and compares it later. Even words
// are the number itself, so that a mismatch tells whose bytes were found.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace gpu {

struct Mismatch {
  uint64_t word;
  uint32_t block;
  uint32_t expected;
  uint32_t found;
  uint32_t reserved;
};

inline constexpr uint32_t kMismatchRows = 64;

// Lies in device memory; begins as zeros.
struct MismatchReport {
  unsigned long long words;  // how many words differed
  uint32_t rows;             // how many wanted a row; the first kMismatchRows have one
  uint32_t reserved;
  Mismatch first[kMismatchRows];
};

// address and bytes are multiples of 4; the last words are filled too. Kernels are only queued.
cudaError_t fill_pattern(uint64_t address, uint64_t bytes, uint32_t block, cudaStream_t stream);
cudaError_t verify_pattern(uint64_t address, uint64_t bytes, uint32_t block, MismatchReport* report,
                           cudaStream_t stream);

// Reads all of it, 16 bytes at a time, as fast as the memory gives them. The sum of the words goes to
// `sum`, in device memory, so that the reads cannot be left out.
cudaError_t read_all(uint64_t address, uint64_t bytes, uint64_t* sum, cudaStream_t stream);

// Keeps a stream busy, so that what is queued behind comes late.
cudaError_t hold_stream(uint64_t microseconds, cudaStream_t stream);

}  // namespace gpu
