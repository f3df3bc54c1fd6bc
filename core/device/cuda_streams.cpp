// SPDX-License-Identifier: MIT OR Apache-2.0
#include "device/cuda_streams.h"

#include "base/thread_number.h"

namespace cachalot::cuda {
namespace {

// No address and no handle has it.
constexpr Stream kThreadBit = Stream{1} << 63;

Stream this_thread() { return kThreadBit | this_thread_number(); }

}  // namespace

Stream number_of(Stream handle) { return handle == kPerThreadStream ? this_thread() : handle; }

Stream handle_named(Stream number) {
  return (number & kThreadBit) != 0 ? kPerThreadStream : number;
}

bool is_of_another_thread(Stream number) {
  return (number & kThreadBit) != 0 && number != this_thread();
}

StreamHandle handle_of(Stream number) {
  if ((number & kThreadBit) != 0)
    number = number == this_thread() ? kPerThreadStream : kLegacyStream;
  return reinterpret_cast<StreamHandle>(number);
}

}  // namespace cachalot::cuda
