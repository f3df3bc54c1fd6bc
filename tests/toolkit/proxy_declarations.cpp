// SPDX-License-Identifier: MIT OR Apache-2.0
// The proxy's declarations of the CUDA driver's functions against the real ones: compiling is the test.
#define __CUDA_API_VERSION_INTERNAL  // with the forms of old versions
#include <cuda.h>
#include <cudaTypedefs.h>

#include <cstddef>

#include "cuda_types.h"
#include "entry_points.h"

namespace proxy = cachalot::proxy;

namespace cachalot_test {

ARE_ONE(std::remove_pointer_t<proxy::Array>, CUarray_st);
ARE_ONE(std::remove_pointer_t<proxy::MipmappedArray>, CUmipmappedArray_st);
ARE_ONE(std::remove_pointer_t<proxy::GreenContext>, CUgreenCtx_st);
ARE_ONE(proxy::ArrayMapping, CUarrayMapInfo_st);
ARE_ONE(proxy::ExecutionAffinity, CUexecAffinityParam_st);
ARE_ONE(proxy::ContextParameters, CUctxCreateParams_st);
ARE_ONE(std::remove_pointer_t<proxy::CigCaptureParameters>, CUstreamCigCaptureParams);
ARE_ONE(proxy::NodeParameters, CUgraphNodeParams);
ARE_ONE(proxy::ArrayDescriptor, CUDA_ARRAY_DESCRIPTOR);
ARE_ONE(proxy::Array3dDescriptor, CUDA_ARRAY3D_DESCRIPTOR);
ARE_ONE(proxy::IpcMemoryHandle, CUipcMemHandle);
ARE_ONE(proxy::PoolPointerData, CUmemPoolPtrExportData);

#define SAME_FUNCTION(exported, name, version, ...)                                         \
  static_assert(                                                                            \
      same_shape<proxy::exported##_form, std::remove_pointer_t<PFN_##name##_v##version>>(), \
      #exported " is declared otherwise");
CACHALOT_HOOKED(SAME_FUNCTION)
CACHALOT_CALLED(SAME_FUNCTION)
#undef SAME_FUNCTION

}  // namespace cachalot_test

SAME_SIZE(proxy::ArrayDescriptor, CUDA_ARRAY_DESCRIPTOR);
SAME_FIELD(proxy::ArrayDescriptor, width, CUDA_ARRAY_DESCRIPTOR, Width);
SAME_FIELD(proxy::ArrayDescriptor, height, CUDA_ARRAY_DESCRIPTOR, Height);
SAME_FIELD(proxy::ArrayDescriptor, format, CUDA_ARRAY_DESCRIPTOR, Format);
SAME_FIELD(proxy::ArrayDescriptor, channels, CUDA_ARRAY_DESCRIPTOR, NumChannels);

SAME_SIZE(proxy::Array3dDescriptor, CUDA_ARRAY3D_DESCRIPTOR);
SAME_FIELD(proxy::Array3dDescriptor, width, CUDA_ARRAY3D_DESCRIPTOR, Width);
SAME_FIELD(proxy::Array3dDescriptor, height, CUDA_ARRAY3D_DESCRIPTOR, Height);
SAME_FIELD(proxy::Array3dDescriptor, depth, CUDA_ARRAY3D_DESCRIPTOR, Depth);
SAME_FIELD(proxy::Array3dDescriptor, format, CUDA_ARRAY3D_DESCRIPTOR, Format);
SAME_FIELD(proxy::Array3dDescriptor, channels, CUDA_ARRAY3D_DESCRIPTOR, NumChannels);
SAME_FIELD(proxy::Array3dDescriptor, flags, CUDA_ARRAY3D_DESCRIPTOR, Flags);

SAME_SIZE(proxy::IpcMemoryHandle, CUipcMemHandle);
SAME_SIZE(proxy::PoolPointerData, CUmemPoolPtrExportData);
