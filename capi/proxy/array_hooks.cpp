// SPDX-License-Identifier: MIT OR Apache-2.0
// Arrays: memory in an order of the driver's, for textures.
#include <algorithm>

#include "hooks.h"
#include "real_driver.h"
#include "recorded_call.h"

using namespace cachalot::proxy;

namespace {

// CU_AD_FORMAT_*. Those of several planes or of compressed blocks count as a byte a channel, which is close.
size_t bytes_of_format(int format) {
  switch (format) {
    case 0x02:  // UNSIGNED_INT16
    case 0x09:  // SIGNED_INT16
    case 0x10:  // HALF
      return 2;
    case 0x03:  // UNSIGNED_INT32
    case 0x0a:  // SIGNED_INT32
    case 0x20:  // FLOAT
      return 4;
    default:
      return 1;
  }
}

// A size of 0 means that the array does not have this dimension.
size_t bytes_of(size_t width, size_t height, size_t depth, int format, unsigned channels) {
  return width * std::max<size_t>(height, 1) * std::max<size_t>(depth, 1) *
         bytes_of_format(format) * std::max(channels, 1u);
}

Request array_request(size_t size) { return {.entry = 'y', .size = size, .is_cacheable = false}; }

constexpr Return kArrayReturn{.entry = 'y', .stream = {}};

Request request_of(const Array3dDescriptor& array) {
  return array_request(
      bytes_of(array.width, array.height, array.depth, array.format, array.channels));
}

// Each level is half as long, as wide and as deep as the one before.
Request request_of(const Array3dDescriptor& array, unsigned levels) {
  size_t bytes = 0;
  for (unsigned i = 0; i < std::min(levels, 32u); i++) {
    const auto half = [i](size_t size) { return size == 0 ? 0 : std::max<size_t>(size >> i, 1); };
    bytes += bytes_of(half(array.width), half(array.height), half(array.depth), array.format,
                      array.channels);
  }
  return array_request(bytes);
}

}  // namespace

Result cuArrayCreate_v2(Array* out, const ArrayDescriptor* array) {
  const auto call = [&] { return call_real(real().cuArrayCreate_v2, out, array); };
  if (array == nullptr) return call();
  return obtain(
      array_request(bytes_of(array->width, array->height, 0, array->format, array->channels)), out,
      call);
}

Result cuArray3DCreate_v2(Array* out, const Array3dDescriptor* array) {
  const auto call = [&] { return call_real(real().cuArray3DCreate_v2, out, array); };
  if (array == nullptr) return call();
  return obtain(request_of(*array), out, call);
}

Result cuArrayDestroy(Array array) {
  return give_back(array, kArrayReturn, [&] { return call_real(real().cuArrayDestroy, array); });
}

Result cuMipmappedArrayCreate(MipmappedArray* out, const Array3dDescriptor* array,
                              unsigned levels) {
  const auto call = [&] { return call_real(real().cuMipmappedArrayCreate, out, array, levels); };
  if (array == nullptr) return call();
  return obtain(request_of(*array, levels), out, call);
}

Result cuMipmappedArrayDestroy(MipmappedArray array) {
  return give_back(array, kArrayReturn,
                   [&] { return call_real(real().cuMipmappedArrayDestroy, array); });
}
