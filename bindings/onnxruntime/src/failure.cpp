// SPDX-License-Identifier: MIT OR Apache-2.0
#include "failure.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>

#include "cachalot/onnxruntime.h"
#include "error.h"

namespace cachalot::ort {
namespace {

struct Failure {
  cachalot_error error = CACHALOT_ERROR_INIT;
  std::string report;
};

thread_local std::unique_ptr<Failure> last;

std::string report_text(cachalot_allocator* allocator, uint64_t size, const Place& place) {
  cachalot_report_options options{};
  options.struct_size = sizeof options;
  options.device = place.device;
  options.size = size;
  options.stream = place.stream;
  cachalot_report* report = nullptr;
  if (cachalot_report_create(allocator, &options, &report, nullptr) != CACHALOT_OK) return {};
  const std::unique_ptr<cachalot_report, void (*)(cachalot_report*)> owner(
      report, [](cachalot_report* ended) { cachalot_report_destroy(ended); });
  size_t length = 0;
  if (cachalot_report_text(report, nullptr, 0, &length, nullptr) != CACHALOT_OK) return {};
  std::string text(length, '\0');
  cachalot_report_text(report, text.data(), length + 1, &length, nullptr);
  return text;
}

// Of a device, or of a cache of pinned memory, whose memory is the machine's.
bool is_out_of_memory(int32_t status) {
  return status == CACHALOT_ERROR_OUT_OF_MEMORY || status == CACHALOT_ERROR_OUT_OF_HOST_MEMORY;
}

}  // namespace

void remember_failure(cachalot_allocator* allocator, uint64_t size, const Place& place,
                      const cachalot_error& error) noexcept {
  last.reset();
  try {
    auto failure = std::make_unique<Failure>();
    failure->error = error;
    if (allocator != nullptr && is_out_of_memory(error.status))
      failure->report = report_text(allocator, size, place);
    last = std::move(failure);
  } catch (...) {
    // Without memory for it the caller still has ORT's own words.
  }
}

}  // namespace cachalot::ort

using cachalot::ort::last;

cachalot_status cachalot_ort_last_failure(cachalot_error* out_failure, char* buffer,
                                          size_t capacity, size_t* out_length) {
  if (last == nullptr) return CACHALOT_ERROR_INVALID_STATE;
  if (buffer == nullptr && capacity > 0) return CACHALOT_ERROR_INVALID_ARGUMENT;
  cachalot::copy_error(last->error, out_failure);
  if (out_length != nullptr) *out_length = last->report.size();
  if (capacity > 0) {
    const size_t size = std::min(capacity - 1, last->report.size());
    std::memcpy(buffer, last->report.data(), size);
    buffer[size] = '\0';
  }
  return CACHALOT_OK;
}

void cachalot_ort_forget_failure(void) { last.reset(); }
