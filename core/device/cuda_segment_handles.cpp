// SPDX-License-Identifier: MIT OR Apache-2.0
#include "device/cuda_segment_handles.h"

#include <cstring>

namespace cachalot {

DriverCode CudaSegmentHandles::get(int device, Address address, ShareableHandle* handle) {
  cuda::IpcHandle got;
  const cuda::Result code = cuda::on(
      library_, contexts_, device, [&] { return library_.ipc->cuIpcGetMemHandle(&got, address); });
  static_assert(sizeof got.reserved == sizeof handle->bytes);
  if (code == 0) std::memcpy(handle->bytes, got.reserved, sizeof handle->bytes);
  return code;
}

DriverCode CudaSegmentHandles::open(int device, const ShareableHandle& handle, Address* address) {
  cuda::IpcHandle in;
  std::memcpy(in.reserved, handle.bytes, sizeof in.reserved);
  cuda::DeviceAddress got = 0;
  const cuda::Result code = cuda::on(library_, contexts_, device, [&] {
    return library_.ipc->cuIpcOpenMemHandle(&got, in, cuda::kIpcLazyPeerAccess);
  });
  if (code == 0) *address = got;
  return code;
}

DriverCode CudaSegmentHandles::close(int device, Address address) {
  return cuda::on(library_, contexts_, device,
                  [&] { return library_.ipc->cuIpcCloseMemHandle(address); });
}

}  // namespace cachalot
