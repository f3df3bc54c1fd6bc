// SPDX-License-Identifier: MIT OR Apache-2.0
// What this version does not have yet: arguments are checked as they will be, then the answer is
// NOT_SUPPORTED.
#include "cachalot/unsupported.h"

#include "core_of.h"
#include "values.h"

namespace cachalot::capi {
namespace {

void check_device(const Allocator& core, int32_t device, const char* name = "device") {
  if (device < 0 || device >= core.device_count())
    throw_invalid_argument(
        format("%s is %d: the driver has %d", name, device, core.device_count()));
}

[[noreturn]] void throw_unsupported(const char* what) {
  throw_not_supported(format("this version has no %s", what));
}

}  // namespace
}  // namespace cachalot::capi

using namespace cachalot;
using namespace cachalot::capi;

cachalot_status cachalot_share(cachalot_allocator* allocator, cachalot_address address,
                               void* buffer, size_t capacity, size_t* out_size,
                               uint64_t* out_offset, cachalot_error* error) {
  return guard(error, [&] {
    core_of(allocator).block(address);
    if (capacity > 0 && buffer == nullptr) throw_null("buffer");
    require(out_size, "out_size");
    require(out_offset, "out_offset");
    throw_unsupported("sharing between processes");
  });
}

cachalot_status cachalot_open_shared(cachalot_allocator* allocator, int32_t device,
                                     const void* shared, size_t size, cachalot_address* out_address,
                                     cachalot_error* error) {
  return guard(error, [&] {
    check_device(core_of(allocator), device);
    if (shared == nullptr) throw_null("shared");
    if (size == 0) throw_invalid_argument("size is 0");
    require(out_address, "out_address");
    throw_unsupported("sharing between processes");
  });
}

cachalot_status cachalot_copy(cachalot_allocator* allocator, cachalot_address to, int32_t to_device,
                              cachalot_address from, int32_t from_device, uint64_t size,
                              cachalot_stream, cachalot_error* error) {
  return guard(error, [&] {
    const Allocator& core = core_of(allocator);
    check_device(core, to_device, "to_device");
    check_device(core, from_device, "from_device");
    if (size > 0 && to == 0) throw_invalid_argument("to is 0");
    if (size > 0 && from == 0) throw_invalid_argument("from is 0");
    throw_unsupported("copies between devices");
  });
}
