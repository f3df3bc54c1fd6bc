// SPDX-License-Identifier: MIT OR Apache-2.0
// Streams as a recording names them (docs/trace-format.md).
#pragma once

#include <cstdint>

#include "device/device.h"
#include "driver_types.h"

namespace cachalot::proxy {

// Which stream a call means by 0: each function has a form for both.
enum class DefaultStream : uint8_t { kLegacy, kPerThread };

// The system's number of this thread.
uint64_t this_thread_id();
// In a child that was forked: its thread is not the parent's.
void forget_thread_ids();

inline Stream stream_name(StreamHandle handle, DefaultStream default_stream) {
  constexpr uint64_t kLegacyHandle = 1;
  constexpr uint64_t kPerThreadHandle = 2;
  constexpr Stream kPerThreadStreams = Stream{1} << 63;
  const auto number = reinterpret_cast<uint64_t>(handle);
  const bool is_per_thread =
      number == kPerThreadHandle || (number == 0 && default_stream == DefaultStream::kPerThread);
  if (is_per_thread) return kPerThreadStreams + this_thread_id();
  return number == kLegacyHandle ? 0 : number;
}

// A handle that means the stream to every function.
inline StreamHandle driver_handle(StreamHandle handle, DefaultStream default_stream) {
  constexpr uint64_t kPerThreadHandle = 2;
  const bool is_per_thread = handle == nullptr && default_stream == DefaultStream::kPerThread;
  return is_per_thread ? reinterpret_cast<StreamHandle>(kPerThreadHandle) : handle;
}

// Asks the driver.
bool is_captured(StreamHandle handle, DefaultStream default_stream);

}  // namespace cachalot::proxy
