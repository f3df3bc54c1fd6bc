// SPDX-License-Identifier: MIT OR Apache-2.0
// The recording of one process: its file, which is made with the first line, and its clock.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "driver_types.h"
#include "replay/event_line.h"
#include "replay/recording_file.h"
#include "replay/trace.h"

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
    file_->append({text.data(), static_cast<size_t>(end - text.data())});
  }

  // A line that is no event, with its line break.
  void append_comment(std::string_view line) {
    if (is_open()) file_->append(line);
  }

  // Whether it may take only so many bytes. Then nobody appends during begin_next_file().
  bool is_bounded() const { return keep_ != 0; }
  // Whether it has half of them, so that the next half may take the place of the one before. Asked by those who may append.
  bool is_full() const;
  // The file is kept beside, under its name with ".before", and a new one takes its place.
  // begin: appends what a reader has to know from the start.
  template <class Begin>
  void begin_next_file(Begin begin) {
    if (!set_file_aside()) return;
    append_file_number();
    begin();
    begin_bytes_ = file_->size();
  }

  // Microseconds since 1970 at a moment of now_ns().
  int64_t time_us(int64_t time_ns) const { return start_us_ + (time_ns - start_ns_) / 1000; }
  int64_t pid() const { return pid_; }

  // The recording ends as it should.
  void finish();

 private:
  bool is_open() {
    if (!is_ready_.load(std::memory_order_acquire)) std::call_once(opened_, [this] { open(); });
    return file_ != nullptr;
  }
  void open();
  void make_file(const std::string& path, int64_t start_us);
  bool set_file_aside();
  void append_file_number();
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
  std::unique_ptr<RecordingFile> file_;  // null: it cannot be made
  uint64_t file_number_ = 1;             // of those of this process
  uint64_t begin_bytes_ = 0;             // of it, which tell what was there before
};

}  // namespace cachalot::proxy
