// SPDX-License-Identifier: MIT OR Apache-2.0
// The recording of one process: its file, which is made with the first line, and its clock.
#pragma once

#include <array>
#include <atomic>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "base/error.h"
#include "clock.h"
#include "driver_types.h"
#include "replay/event_line.h"
#include "replay/recording_files.h"
#include "replay/trace.h"
#include "replay/trace_header.h"

namespace cachalot::proxy {

class Recording {
 public:
  // path: %p in it is the process. parent: 0, or the process that this one was forked from. list: a file
  // to which the path is appended; "": none. keep: bytes that may be kept; 0: all.
  Recording(std::string path, std::string list, int64_t parent, uint64_t keep);

  // Lines that no other one comes between.
  template <size_t kCount>
  void append(const std::array<EventLine, kCount>& lines) {
    if (!is_open()) return;
    std::array<char, kCount * kMaxEventLine> text;
    char* end = text.data();
    for (const EventLine& line : lines) end = write_event_line(end, line);
    files_->append({text.data(), static_cast<size_t>(end - text.data())});
  }

  // A line that is no event, with its line break.
  void append_comment(std::string_view line) {
    if (is_open()) files_->append(line);
  }

  // Whether it may take only so many bytes. Then nobody appends during begin_next_file().
  bool is_bounded() const { return keep_ != 0; }
  // Whether it has half of them, so that the next half may take the place of the one before. Asked by those who may append.
  bool is_full() const { return files_ != nullptr && files_->is_full(); }
  // See RecordingFiles.
  template <class Begin>
  void begin_next_file(Begin begin) {
    try {
      files_->begin_next_file(format_trace_header(header(time_us(now_ns()))), begin);
    } catch (const Error& error) {
      remark("is recorded no longer", error);
    }
  }

  // Microseconds since 1970 at a moment of now_ns().
  int64_t time_us(int64_t time_ns) const { return start_us_ + (time_ns - start_ns_) / 1000; }
  int64_t pid() const { return pid_; }

  // The recording ends as it should.
  void finish();

 private:
  bool is_open() {
    if (!is_ready_.load(std::memory_order_acquire)) std::call_once(opened_, [this] { open(); });
    return files_ != nullptr;
  }
  void open();
  void remark(const char* what, const std::exception& error) const;
  TraceHeader header(int64_t start_us) const;

  const std::string path_;
  const std::string list_;
  const int64_t pid_;
  const int64_t parent_;
  const uint64_t keep_;
  const int64_t start_us_;
  const int64_t start_ns_;
  std::once_flag opened_;
  std::atomic<bool> is_ready_{false};
  std::unique_ptr<RecordingFiles> files_;  // null: the first cannot be made
};

}  // namespace cachalot::proxy
