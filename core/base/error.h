// SPDX-License-Identifier: MIT OR Apache-2.0
// The one exception type of the core, and the statuses it carries.
//
// Exceptions are for what ends a call: bad arguments, driver errors, out of memory. Expected
// outcomes inside the allocator (no fitting block, a refused attempt) are return values. The C
// layer turns an Error into a cachalot_error; nothing else catches it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <string>
#include <utility>

#include "base/assert.h"

namespace cachalot {

// The numbers are those of cachalot_status.
enum class Status : int32_t {
  kOk = 0,
  kInvalidArgument = 1,
  kInvalidState = 2,
  kNotSupported = 3,
  kOutOfMemory = 10,
  kOutOfHostMemory = 11,
  kDriver = 20,
  kDriverUnavailable = 21,
  kCallback = 30,
  kIo = 40,
  kInternal = 90,
};

// What a request that failed as out of memory looked like. Bytes.
struct OutOfMemory {
  int32_t device = 0;
  uint64_t stream = 0;
  uint64_t requested = 0;
  uint64_t segment_size = 0;
  uint64_t device_free = 0;
  uint64_t device_total = 0;
  uint64_t limit = 0;  // 0: none
  uint64_t allocated = 0;
  uint64_t reserved = 0;
  uint64_t private_pools_free = 0;
  uint64_t largest_free_block = 0;

  bool operator==(const OutOfMemory&) const = default;
};

class Error : public std::exception {
 public:
  Error(Status status, std::string message) : status_(status), message_(std::move(message)) {
    CACHALOT_ASSERT(1, status != Status::kOk);
  }
  // pre: the driver's call has failed.
  Error(int32_t driver_code, std::string message)
      : status_(Status::kDriver), driver_code_(driver_code), message_(std::move(message)) {
    CACHALOT_ASSERT(1, driver_code != 0);
  }
  Error(const OutOfMemory& numbers, std::string message)
      : status_(Status::kOutOfMemory), message_(std::move(message)), numbers_(numbers) {}

  Status status() const { return status_; }
  int32_t driver_code() const { return driver_code_; }
  const std::string& message() const { return message_; }
  const OutOfMemory& numbers() const { return numbers_; }
  const char* what() const noexcept override { return message_.c_str(); }

 private:
  Status status_;
  int32_t driver_code_ = 0;
  std::string message_;
  OutOfMemory numbers_;
};

[[noreturn]] inline void throw_invalid_argument(std::string message) {
  throw Error(Status::kInvalidArgument, std::move(message));
}
[[noreturn]] inline void throw_invalid_state(std::string message) {
  throw Error(Status::kInvalidState, std::move(message));
}
[[noreturn]] inline void throw_not_supported(std::string message) {
  throw Error(Status::kNotSupported, std::move(message));
}

// Of a list, by the index that a caller gave.
void require_row(size_t index, size_t count, const char* name);

}  // namespace cachalot
