// SPDX-License-Identifier: MIT OR Apache-2.0
#include "guard.h"

#include <exception>
#include <new>
#include <stdexcept>

#include "base/assert.h"
#include "base/text.h"

namespace cachalot::capi {
namespace {

static_assert(static_cast<int32_t>(Status::kInternal) == CACHALOT_ERROR_INTERNAL);
static_assert(static_cast<int32_t>(Status::kOutOfMemory) == CACHALOT_ERROR_OUT_OF_MEMORY);

constexpr std::string_view kEllipsis = "...";

// The longest part of `text` that fits `size` bytes without cutting a UTF-8 sequence.
std::string_view whole_characters(std::string_view text, size_t size) {
  if (text.size() <= size) return text;
  while (size > 0 && (static_cast<unsigned char>(text[size]) & 0xC0) == 0x80) size--;
  return text.substr(0, size);
}

void copy_message(char* message, size_t capacity, std::string_view text) {
  if (capacity == 0) return;
  const bool fits = text.size() < capacity;
  const std::string_view end = fits ? "" : kEllipsis.substr(0, std::min<size_t>(capacity - 1, 3));
  const std::string_view head = whole_characters(text, capacity - 1 - end.size());
  std::memcpy(message, head.data(), head.size());
  std::memcpy(message + head.size(), end.data(), end.size());
  message[head.size() + end.size()] = '\0';
}

void copy_numbers(cachalot_error* record, const OutOfMemory& numbers) {
  record->requested = numbers.requested;
  record->segment_size = numbers.segment_size;
  record->device_free = numbers.device_free;
  record->device_total = numbers.device_total;
  record->limit = numbers.limit;
  record->allocated = numbers.allocated;
  record->reserved = numbers.reserved;
  record->private_pools_free = numbers.private_pools_free;
  record->largest_free_block = numbers.largest_free_block;
  record->stream = numbers.stream;
  record->device = numbers.device;
}

// Writes no more than the caller's struct_size says, and needs no memory: there may be none.
cachalot_status report(cachalot_error* error, const cachalot_error& record,
                       std::string_view message) {
  CACHALOT_ASSERT(1, record.status != CACHALOT_OK);
  if (error != nullptr) {
    constexpr size_t kHead = offsetof(cachalot_error, message);
    const size_t known = std::min(error->struct_size, sizeof(cachalot_error));
    const size_t own = std::min(known, sizeof(size_t));
    std::memcpy(reinterpret_cast<char*>(error) + own, reinterpret_cast<const char*>(&record) + own,
                std::min(known, kHead) - own);
    if (known > kHead) copy_message(error->message, known - kHead, message);
  }
  return static_cast<cachalot_status>(record.status);
}

cachalot_status report(cachalot_error* error, const Error& reason) {
  cachalot_error record = CACHALOT_ERROR_INIT;
  record.status = static_cast<int32_t>(reason.status());
  record.driver_code = reason.driver_code();
  copy_numbers(&record, reason.numbers());
  return report(error, record, reason.message());
}

cachalot_status report(cachalot_error* error, cachalot_status status, std::string_view message) {
  cachalot_error record = CACHALOT_ERROR_INIT;
  record.status = status;
  return report(error, record, message);
}

cachalot_status report_no_memory(cachalot_error* error) {
  return report(error, CACHALOT_ERROR_OUT_OF_HOST_MEMORY, "out of host memory");
}

}  // namespace

cachalot_status report_current_exception(cachalot_error* error) noexcept {
  CACHALOT_ASSERT(1, std::current_exception());
  try {
    throw;
  } catch (const Error& reason) {
    return report(error, reason);
  } catch (const std::bad_alloc&) {
    return report_no_memory(error);
  } catch (const std::length_error&) {
    return report_no_memory(error);
  } catch (const std::exception& reason) {
    return report(error, CACHALOT_ERROR_INTERNAL, reason.what());
  } catch (...) {
    return report(error, CACHALOT_ERROR_INTERNAL, "an exception of unknown type");
  }
}

void throw_null(const char* name) { throw_invalid_argument(format("%s is NULL", name)); }

void throw_struct_size(const char* name, size_t given, size_t least) {
  throw_invalid_argument(
      format("%s->struct_size is %zu, which is less than %zu", name, given, least));
}

void write_text(char* buffer, size_t capacity, size_t* out_length, std::string_view text) {
  if (capacity > 0) {
    require(buffer, "buffer");
    const size_t length = std::min(text.size(), capacity - 1);
    std::memcpy(buffer, text.data(), length);
    buffer[length] = '\0';
  }
  if (out_length != nullptr) *out_length = text.size();
}

}  // namespace cachalot::capi
