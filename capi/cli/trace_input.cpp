// SPDX-License-Identifier: MIT OR Apache-2.0
#include "trace_input.h"

#include <algorithm>
#include <cstring>
#include <string_view>
#include <utility>

#include "failure.h"
#include "nsight_export.h"
#include "rmm_log.h"
#include "torch_snapshot.h"

namespace cachalot::cli {
namespace {

constexpr std::string_view kPickleMagic = "\x80";  // PROTO, of protocols 2 and later
constexpr size_t kReadAhead = std::max(kRmmHeader.size(), kSqliteMagic.size());
constexpr size_t kReadBytes = size_t{1} << 20;
constexpr uint64_t kMostConverted = uint64_t{2} << 30;
// A small file can unpack to a large one, and what is converted is in memory.
constexpr uint64_t kMostUnpacked = 64;  // times as large as the file
constexpr uint64_t kAlwaysUnpacked = uint64_t{32} << 20;

}  // namespace

TraceInput::TraceInput(const std::string& path, int64_t process) : input_(path) {
  text_.resize(kReadAhead);
  size_t held = 0;
  while (held < kReadAhead) {
    const size_t count = input_.read(text_.data() + held, kReadAhead - held);
    if (count == 0) break;
    held += count;
  }
  text_.resize(held);
  convert(path, process);
}

void TraceInput::convert(const std::string& path, int64_t process) {
  if (begins_with(kPickleMagic)) {
    read_all();
    text_ = trace_of_snapshot(std::move(text_));
  } else if (begins_with(kRmmHeader)) {
    read_all();
    text_ = trace_of_rmm_log(text_);
  } else if (begins_with(kSqliteMagic)) {
    if (!input_.is_plain_file())
      throw Failure("a report of Nsight Systems has to be a file that is not packed");
    text_ = trace_of_nsight_export(path, process);
  } else {
    return;
  }
  is_whole_ = true;
}

void TraceInput::read_all() {
  while (true) {
    const size_t held = text_.size();
    text_.resize(held + kReadBytes);
    const size_t count = input_.read(text_.data() + held, kReadBytes);
    text_.resize(held + count);
    if (count == 0) return;
    if (text_.size() > kMostConverted) throw Failure("more than 2 GiB cannot be converted");
    if (text_.size() > kAlwaysUnpacked + kMostUnpacked * input_.packed_bytes_read())
      throw Failure("it is more than 64 times as large as its file: unpack it first");
  }
}

size_t TraceInput::read(void* buffer, size_t capacity) {
  if (given_ == text_.size()) return is_whole_ ? 0 : input_.read(buffer, capacity);
  const size_t count = std::min(capacity, text_.size() - given_);
  std::memcpy(buffer, text_.data() + given_, count);
  given_ += count;
  return count;
}

}  // namespace cachalot::cli
