// SPDX-License-Identifier: MIT OR Apache-2.0
// Lines on their way to a function of the caller's, many at a time.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "replay/trace_file.h"

namespace cachalot {

// One thread at a time. No function throws. After a write that failed all lines are lost.
class LineBuffer {
 public:
  // Throws std::bad_alloc.
  explicit LineBuffer(WriteBytes write);

  // Whole lines. False: they are lost.
  bool append(std::string_view lines) noexcept;
  // Writes what is held. False: it is lost.
  bool flush() noexcept;

  // Lines, and bytes that were written.
  uint64_t lost() const { return lost_; }
  uint64_t bytes() const { return bytes_; }

 private:
  bool write_out(std::string_view lines) noexcept;

  const WriteBytes write_;
  std::string held_;
  uint64_t bytes_ = 0;
  uint64_t lost_ = 0;
  bool has_failed_ = false;
};

}  // namespace cachalot
