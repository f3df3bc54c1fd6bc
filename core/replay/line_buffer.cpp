// SPDX-License-Identifier: MIT OR Apache-2.0
#include "replay/line_buffer.h"

#include <algorithm>
#include <utility>

namespace cachalot {
namespace {

constexpr size_t kHeldBytes = size_t{64} << 10;

}  // namespace

LineBuffer::LineBuffer(WriteBytes write) : write_(std::move(write)) { held_.reserve(kHeldBytes); }

bool LineBuffer::append(std::string_view lines) noexcept {
  if (held_.size() + lines.size() > kHeldBytes) flush();
  if (has_failed_ || lines.size() > kHeldBytes) return write_out(lines);
  held_.append(lines);
  return true;
}

bool LineBuffer::flush() noexcept {
  const bool is_written = held_.empty() || write_out(held_);
  held_.clear();
  return is_written;
}

bool LineBuffer::write_out(std::string_view lines) noexcept {
  try {
    if (!has_failed_) write_(lines);
  } catch (...) {
    has_failed_ = true;
  }
  if (has_failed_)
    lost_ += static_cast<uint64_t>(std::count(lines.begin(), lines.end(), '\n'));
  else
    bytes_ += lines.size();
  return !has_failed_;
}

}  // namespace cachalot
