// SPDX-License-Identifier: MIT OR Apache-2.0
// The declarations that `cachalot measure` has of the driver against the real ones: compiling is the test.
#include <cuda.h>

#include <cstddef>

#include "measure/driver_functions.h"
#include "shape.h"

namespace driver = cachalot::cli::driver;

namespace cachalot_test {

template <>
inline constexpr bool kAreOne<std::remove_pointer_t<driver::Context>, CUctx_st> = true;
template <>
inline constexpr bool kAreOne<std::remove_pointer_t<driver::Stream>, CUstream_st> = true;
template <>
inline constexpr bool kAreOne<driver::AllocationProperty, CUmemAllocationProp> = true;
template <>
inline constexpr bool kAreOne<driver::AccessDescription, CUmemAccessDesc> = true;

#define SAME_FUNCTION(name, symbol, ...) \
  static_assert(same_shape<__VA_ARGS__, decltype(::name)>(), #name " is declared otherwise");
namespace declared {
using namespace cachalot::cli::driver;
CACHALOT_MEASURED_FUNCTIONS(SAME_FUNCTION)
}  // namespace declared
#undef SAME_FUNCTION

}  // namespace cachalot_test

SAME_SIZE(driver::AllocationProperty, CUmemAllocationProp);
SAME_FIELD(driver::AllocationProperty, type, CUmemAllocationProp, type);
SAME_FIELD(driver::AllocationProperty, handle_types, CUmemAllocationProp, requestedHandleTypes);
SAME_FIELD(driver::AllocationProperty, location, CUmemAllocationProp, location);
SAME_FIELD(driver::AllocationProperty, win32_metadata, CUmemAllocationProp, win32HandleMetaData);

SAME_SIZE(driver::AccessDescription, CUmemAccessDesc);
SAME_FIELD(driver::AccessDescription, location, CUmemAccessDesc, location);
SAME_FIELD(driver::AccessDescription, flags, CUmemAccessDesc, flags);

static_assert(driver::kPinned == static_cast<int>(CU_MEM_ALLOCATION_TYPE_PINNED));
static_assert(driver::kDeviceLocation == static_cast<int>(CU_MEM_LOCATION_TYPE_DEVICE));
static_assert(driver::kReadWrite == static_cast<int>(CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
