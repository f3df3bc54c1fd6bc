// SPDX-License-Identifier: MIT OR Apache-2.0
#include "device/cuda_copies.h"

#include "device/cuda_streams.h"

namespace cachalot {

DriverCode CudaCopies::copy(int device, Address to, Address from, uint64_t size, Stream stream) {
  return cuda::on(library_, contexts_, device,
                  [&] { return library_.cuMemcpyAsync(to, from, size, cuda::handle_of(stream)); });
}

DriverCode CudaCopies::copy_peer(int to_device, Address to, int from_device, Address from,
                                 uint64_t size, Stream stream) {
  cuda::Context to_context = nullptr;
  cuda::Context from_context = nullptr;
  if (const cuda::Result code = contexts_.get(to_device, &to_context)) return code;
  if (const cuda::Result code = contexts_.get(from_device, &from_context)) return code;
  return cuda::on(library_, contexts_, to_device, [&] {
    return library_.cuMemcpyPeerAsync(to, to_context, from, from_context, size,
                                      cuda::handle_of(stream));
  });
}

}  // namespace cachalot
