// SPDX-License-Identifier: MIT OR Apache-2.0
// Reads the recording of a process while it is written (docs/trace-format.md).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "recording.h"

namespace cachalot::cli {

// A device as the process saw it first.
struct FollowedDevice {
  std::string bus;
  uint64_t used_at_begin = 0;  // by all programs, with this one's context
};

struct PoolBytes {
  uint64_t reserved = 0;
  uint64_t used = 0;
};

class RecordingFollower {
 public:
  // failed: is called at each request that the driver refused, when all before it has been read.
  using Failed = std::function<void(const RecordingFollower&, const cachalot_trace_event&)>;

  RecordingFollower(std::string path, Failed failed);
  ~RecordingFollower();
  RecordingFollower(const RecordingFollower&) = delete;
  RecordingFollower& operator=(const RecordingFollower&) = delete;

  // Reads what is new. Throws Failure for what is no recording.
  void poll();
  // The process has ended, or replaced itself by another program.
  void end();
  bool is_running() const { return is_running_ && process_exists(); }

  const std::string& path() const { return path_; }
  const std::string& command() const { return command_; }
  int64_t process() const { return process_; }
  const RecordingReader& reader() const { return reader_; }
  // By the process's own numbers of devices.
  const std::map<int32_t, FollowedDevice>& devices() const { return devices_; }
  // By device and handle; the device's own memory of graphs has none.
  const std::map<std::pair<int32_t, uint64_t>, PoolBytes>& pools() const { return pools_; }
  // Files that another one took the place of before they were read. What is live is known without them.
  uint64_t missed_files() const { return missed_files_; }
  // The last lines that were read.
  const std::string& last_lines() const { return last_lines_; }
  // Events of the present file.
  size_t events_in_file() const { return events_in_file_; }

 private:
  bool process_exists() const;
  void open();
  void close();
  // Whole lines that were written since; "" if there are none.
  std::string read_lines();
  void take(std::string_view lines);
  void take_header(std::string_view line);
  void take_remark(std::string_view line);
  void take_events(std::string_view lines, bool ends_with_failure);
  void keep_last(std::string_view lines);

  const std::string path_;
  const Failed failed_;
  int file_ = -1;
  uint64_t position_ = 0;
  bool is_continued_ = false;
  bool is_running_ = true;
  std::string header_;
  std::string command_;
  int64_t process_ = 0;
  size_t events_in_file_ = 0;
  uint64_t files_ = 0;  // begun, read or missed
  uint64_t missed_files_ = 0;
  RecordingReader reader_{0};
  std::map<int32_t, FollowedDevice> devices_;
  std::map<std::pair<int32_t, uint64_t>, PoolBytes> pools_;
  std::string last_lines_;
};

}  // namespace cachalot::cli
