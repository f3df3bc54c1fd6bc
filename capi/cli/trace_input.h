// SPDX-License-Identifier: MIT OR Apache-2.0
// A trace to read, from a file of any kind that is known: traces themselves, snapshots of PyTorch's, logs of RMM's,
// reports of Nsight Systems. They are told apart by their first bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "input.h"

namespace cachalot::cli {

class TraceInput {
 public:
  // process: whose memory a report of several is read for; 0: there is only one. Throws Failure, as read() does.
  explicit TraceInput(const std::string& path, int64_t process = 0);

  // The next bytes of the trace, up to capacity; 0 at the end.
  size_t read(void* buffer, size_t capacity);

  uint64_t packed_bytes_read() const { return input_.packed_bytes_read(); }
  uint64_t packed_size() const { return input_.packed_size(); }
  // What reading and unpacking took so far.
  double seconds() const { return input_.seconds(); }

 private:
  bool begins_with(std::string_view bytes) const { return text_.starts_with(bytes); }
  void convert(const std::string& path, int64_t process);
  void read_all();

  Input input_;
  std::string text_;  // what was read ahead, or the whole trace
  size_t given_ = 0;  // of it
  bool is_whole_ = false;
};

}  // namespace cachalot::cli
