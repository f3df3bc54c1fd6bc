// SPDX-License-Identifier: MIT OR Apache-2.0
// The kinds of driver calls that the simulated driver can count, delay and let fail.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

namespace cachalot {

// One bit each, so that kinds can be added up.
enum class SimCall : uint32_t {
  kAllocate = 0x1,
  kFree = 0x2,
  kReserve = 0x4,
  kUnreserve = 0x8,
  kCreate = 0x10,
  kRelease = 0x20,
  kMap = 0x40,
  kUnmap = 0x80,
  kSetAccess = 0x100,
  kExport = 0x200,
  kImport = 0x400,
  kEventCreate = 0x800,
  kEventRecord = 0x1000,
  kEventQuery = 0x2000,
  kEventSynchronize = 0x4000,
  kSynchronize = 0x8000,
  kCaptureInfo = 0x10000,
  kEnablePeer = 0x20000,
  kMemoryInfo = 0x40000,
  kFabricState = 0x80000,
  kPoolAllocate = 0x100000,
  kPoolFree = 0x200000,
  kPoolTrim = 0x400000,
  kPoolAttribute = 0x800000,
  kPoolSetAccess = 0x1000000,
  kStreamCreate = 0x2000000,
  kStreamWait = 0x4000000,
  kHostAllocate = 0x8000000,
  kHostFree = 0x10000000,
  kCopy = 0x20000000,
};

inline constexpr size_t kSimCallCount = 30;
inline constexpr uint32_t kAllSimCalls = (uint32_t{1} << kSimCallCount) - 1;

constexpr size_t sim_call_index(SimCall call) {
  return static_cast<size_t>(std::countr_zero(static_cast<uint32_t>(call)));
}
constexpr bool includes(uint32_t calls, SimCall call) {
  return (calls & static_cast<uint32_t>(call)) != 0;
}

}  // namespace cachalot
