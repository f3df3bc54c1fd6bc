// SPDX-License-Identifier: MIT OR Apache-2.0
// Our own declarations of structs of the CUDA driver's interface that hooks are given, beside those of
// core/device/cuda_api.h. tests/toolkit compares them with the real cuda.h.
#pragma once

#include <cstddef>

#include "device/cuda_api.h"

namespace cachalot::proxy {

using cuda::AccessDescriptor;
using cuda::AllocationHandle;
using cuda::AllocationProperties;
using cuda::Context;
using cuda::DeviceAddress;
using cuda::DeviceOrdinal;
using cuda::EventHandle;
using cuda::Graph;
using cuda::GraphEdge;
using cuda::GraphNode;
using cuda::MemoryLocation;
using cuda::MemoryPool;
using cuda::Result;
using cuda::StreamHandle;
using Array = struct ArrayObject*;
using MipmappedArray = struct MipmappedArrayObject*;
using GreenContext = struct GreenContextObject*;
using ArrayMapping = struct ArrayMappingObject;
using ExecutionAffinity = struct ExecutionAffinityObject;
using ContextParameters = struct ContextParametersObject;
using CigCaptureParameters = struct CigCaptureParametersObject*;
using RecaptureCallback = Result (*)(void*, GraphNode, const struct NodeParameters*,
                                     const struct NodeParameters*, int);

inline constexpr Result kInvalidValue = 1;
inline constexpr Result kFunctionNotFound = 500;
inline constexpr Result kUnknownError = 999;

struct ArrayDescriptor {
  size_t width;
  size_t height;
  int format;
  unsigned channels;
};

struct Array3dDescriptor {
  size_t width;
  size_t height;
  size_t depth;
  int format;
  unsigned channels;
  unsigned flags;
};

struct IpcMemoryHandle {
  char reserved[64];
};

struct PoolPointerData {
  unsigned char reserved[64];
};

}  // namespace cachalot::proxy
