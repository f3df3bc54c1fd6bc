// SPDX-License-Identifier: MIT OR Apache-2.0
// The words that differed from their pattern, counted on the device and read at the end.
#pragma once

#include <algorithm>
#include <cinttypes>
#include <cstdio>

#include "check.h"
#include "pattern_kernels.h"

namespace gpu {

class Mismatches {
 public:
  Mismatches() {
    void* memory = nullptr;
    CHECK_CUDA(cudaMalloc(&memory, sizeof(MismatchReport)));
    report_ = static_cast<MismatchReport*>(memory);
    CHECK_CUDA(cudaMemset(report_, 0, sizeof(MismatchReport)));
    CHECK_CUDA(cudaDeviceSynchronize());
  }
  Mismatches(const Mismatches&) = delete;
  Mismatches& operator=(const Mismatches&) = delete;
  ~Mismatches() { cudaFree(report_); }

  MismatchReport* on_device() const { return report_; }

  // Waits for the device, prints the first mismatches and returns how many words differed.
  uint64_t print() const {
    MismatchReport report;
    CHECK_CUDA(cudaDeviceSynchronize());
    CHECK_CUDA(cudaMemcpy(&report, report_, sizeof report, cudaMemcpyDeviceToHost));
    const uint32_t rows = std::min(report.rows, kMismatchRows);
    for (uint32_t i = 0; i < rows; i++) print_row(report.first[i]);
    return report.words;
  }

 private:
  static void print_row(const Mismatch& row) {
    printf("  block %" PRIu32 ", byte %" PRIu64 ": expected 0x%08" PRIx32 ", found 0x%08" PRIx32,
           row.block, row.word * 4, row.expected, row.found);
    if (row.word % 2 == 0) printf(" (written by block %" PRIu32 ")", row.found);
    printf("\n");
  }

  MismatchReport* report_ = nullptr;
};

}  // namespace gpu
