// SPDX-License-Identifier: MIT OR Apache-2.0
// Versions and the list of statuses.
#include "cachalot/status.h"

#include <algorithm>
#include <array>

#include "guard.h"
#include "values.h"

namespace cachalot::capi {
namespace {

constexpr cachalot_status_description describe(cachalot_status status, const char* name,
                                               const char* text) {
  return {sizeof(cachalot_status_description), status, 0, name, text};
}

constexpr std::array kStatuses{
    describe(CACHALOT_OK, "OK", "It worked."),
    describe(CACHALOT_ERROR_INVALID_ARGUMENT, "INVALID_ARGUMENT",
             "An argument, an address or an option string is not acceptable."),
    describe(CACHALOT_ERROR_INVALID_STATE, "INVALID_STATE",
             "The call does not fit the present state."),
    describe(CACHALOT_ERROR_NOT_SUPPORTED, "NOT_SUPPORTED",
             "The chosen release, driver or build has no such thing."),
    describe(CACHALOT_ERROR_OUT_OF_MEMORY, "OUT_OF_MEMORY",
             "The device has not enough memory, or a limit refuses it."),
    describe(CACHALOT_ERROR_OUT_OF_HOST_MEMORY, "OUT_OF_HOST_MEMORY",
             "The process has not enough ordinary memory for bookkeeping."),
    describe(CACHALOT_ERROR_DRIVER, "DRIVER", "The device driver reported an error."),
    describe(CACHALOT_ERROR_DRIVER_UNAVAILABLE, "DRIVER_UNAVAILABLE",
             "No device driver could be opened."),
    describe(CACHALOT_ERROR_CALLBACK, "CALLBACK", "A callback of the caller reported failure."),
    describe(CACHALOT_ERROR_IO, "IO", "Input could not be read or is not well formed."),
    describe(CACHALOT_ERROR_INTERNAL, "INTERNAL", "A defect of the library. Please report it."),
};

}  // namespace
}  // namespace cachalot::capi

using namespace cachalot::capi;

const char* cachalot_version(void) { return CACHALOT_VERSION_STRING; }

int32_t cachalot_version_number(void) { return CACHALOT_VERSION_NUMBER; }

const char* cachalot_status_name(int32_t status) {
  const auto found = std::find_if(kStatuses.begin(), kStatuses.end(),
                                  [&](const auto& row) { return row.status == status; });
  return found == kStatuses.end() ? "UNKNOWN" : found->name;
}

size_t cachalot_status_count(void) { return kStatuses.size(); }

cachalot_status cachalot_status_at(size_t index, cachalot_status_description* out) {
  return guard(nullptr, [&] { write_struct(out, row_at(kStatuses, index, "status")); });
}
