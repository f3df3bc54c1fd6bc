// SPDX-License-Identifier: MIT OR Apache-2.0
// Streams as scripts name them.
#pragma once
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>

#include <cstdint>
#include <functional>
#include <string>

namespace oracle {

// Of device 0; 0 is the default stream.
c10::cuda::CUDAStream stream_of(uint64_t handle);

// What a routing accepts: every stream ("") or none ("never"), or the one that is named.
std::function<bool(cudaStream_t)> routed_streams(const std::string& word);

}  // namespace oracle
