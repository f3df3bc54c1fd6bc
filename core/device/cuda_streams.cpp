// SPDX-License-Identifier: MIT OR Apache-2.0
#include "device/cuda_streams.h"

#include "base/assert.h"
#include "base/thread_number.h"

namespace cachalot::cuda {
namespace {

// No address and no handle has it, and kAllStreams alone has it without being of a thread.
constexpr Stream kThreadBit = Stream{1} << 63;

bool is_of_thread(Stream number) { return (number & kThreadBit) != 0 && number != kAllStreams; }

Stream this_thread() { return kThreadBit | this_thread_number(); }

}  // namespace

Stream number_of(Stream handle) { return handle == kPerThreadStream ? this_thread() : handle; }

Stream handle_named(Stream number) { return is_of_thread(number) ? kPerThreadStream : number; }

bool is_of_another_thread(Stream number) { return is_of_thread(number) && number != this_thread(); }

StreamHandle handle_of(Stream number) {
  CACHALOT_ASSERT(1, number != kAllStreams);
  if (is_of_thread(number)) number = number == this_thread() ? kPerThreadStream : kLegacyStream;
  return reinterpret_cast<StreamHandle>(number);
}

}  // namespace cachalot::cuda
