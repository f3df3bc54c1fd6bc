// SPDX-License-Identifier: MIT OR Apache-2.0
#include "streams.h"

namespace oracle {

c10::cuda::CUDAStream stream_of(uint64_t handle) {
  if (!handle) return c10::cuda::getDefaultCUDAStream(0);
  return c10::cuda::getStreamFromExternal(reinterpret_cast<cudaStream_t>(handle), 0);
}

std::function<bool(cudaStream_t)> routed_streams(const std::string& word) {
  if (word.empty()) return [](cudaStream_t) { return true; };
  if (word == "never") return [](cudaStream_t) { return false; };
  const uint64_t handle = std::stoull(word, nullptr, 16);
  return [handle](cudaStream_t stream) { return reinterpret_cast<uint64_t>(stream) == handle; };
}

}  // namespace oracle
