// SPDX-License-Identifier: MIT OR Apache-2.0
// Which handles and structs of ours are those of cuda.h.
#pragma once

#include <cuda.h>

#include "device/cuda_api.h"
#include "shape.h"

namespace cachalot_test {

namespace cuda = cachalot::cuda;

ARE_ONE(std::remove_pointer_t<cuda::Context>, CUctx_st);
ARE_ONE(std::remove_pointer_t<cuda::StreamHandle>, CUstream_st);
ARE_ONE(std::remove_pointer_t<cuda::EventHandle>, CUevent_st);
ARE_ONE(std::remove_pointer_t<cuda::Graph>, CUgraph_st);
ARE_ONE(std::remove_pointer_t<cuda::GraphNode>, CUgraphNode_st);
ARE_ONE(std::remove_pointer_t<cuda::MemoryPool>, CUmemPoolHandle_st);
ARE_ONE(cuda::AllocationProperties, CUmemAllocationProp);
ARE_ONE(cuda::AccessDescriptor, CUmemAccessDesc);
ARE_ONE(cuda::IpcHandle, CUipcMemHandle);
ARE_ONE(cuda::Uuid, CUuuid);
ARE_ONE(cuda::GraphEdge, CUgraphEdgeData);

}  // namespace cachalot_test
