// SPDX-License-Identifier: MIT OR Apache-2.0
// Writes what PyTorch's allocator tells of itself: statistics, segments, history, settings.
#pragma once
#include <c10/cuda/CUDACachingAllocator.h>

namespace oracle {

namespace cca = c10::cuda::CUDACachingAllocator;

// Device 0's statistics.
void report_statistics();
void report_segments(const cca::SnapshotInfo& snapshot);
// An entry of the history, as it happens.
void report_event(const cca::TraceEntry& entry);
// The ring of device 0.
void report_history(const cca::SnapshotInfo& snapshot);
void report_settings(const cca::AllocatorConfigInfo& config);

}  // namespace oracle
