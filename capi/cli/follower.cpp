// SPDX-License-Identifier: MIT OR Apache-2.0
#include "follower.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <fstream>
#include <sstream>
#include <vector>

#include "failure.h"
#include "run.h"

namespace cachalot::cli {
namespace {

constexpr size_t kLastBytes = size_t{64} << 10;
constexpr std::string_view kContinued = "# continued\n";

// The next word, as a hexadecimal number where it is one.
uint64_t next_number(std::istringstream* words) {
  std::string word;
  *words >> word;
  uint64_t number = 0;
  std::from_chars(word.data(), word.data() + word.size(), number, 16);
  return number;
}

std::string_view take_line(std::string_view* lines) {
  const size_t end = lines->find('\n') + 1;
  const std::string_view line = lines->substr(0, end);
  lines->remove_prefix(end);
  return line;
}

}  // namespace

RecordingFollower::RecordingFollower(std::string path, Failed failed)
    : path_(std::move(path)), failed_(std::move(failed)) {}

RecordingFollower::~RecordingFollower() { close(); }

void RecordingFollower::open() {
  file_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC);
  position_ = 0;
  header_.clear();
  events_in_file_ = 0;
  is_continued_ = false;
}

void RecordingFollower::close() {
  if (file_ >= 0) ::close(file_);
  file_ = -1;
}

void RecordingFollower::poll() {
  if (!is_running_) return;
  if (file_ < 0) open();
  if (file_ < 0) return;
  for (std::string lines = read_lines(); !lines.empty(); lines = read_lines()) {
    take(lines);
    if (!is_continued_) continue;
    close();
    open();
    if (file_ < 0) return;
    reader_.forget_live();  // the next file says what is live
  }
}

void RecordingFollower::end() {
  if (!is_running_) return;
  is_running_ = false;
  reader_.forget_live();
  pools_.clear();
  close();
}

// A process that has ended and that nobody has waited for yet has no memory.
bool RecordingFollower::process_exists() const {
  if (process_ == 0) return true;
  std::ifstream file("/proc/" + std::to_string(process_) + "/stat");
  std::string text;
  if (!std::getline(file, text)) return false;
  const size_t name_end = text.rfind(')');
  return name_end == std::string::npos || name_end + 2 >= text.size() ||
         std::strchr("ZXx", text[name_end + 2]) == nullptr;
}

std::string RecordingFollower::read_lines() {
  std::vector<char> buffer(size_t{1} << 20);
  const ssize_t count = pread(file_, buffer.data(), buffer.size(), static_cast<off_t>(position_));
  if (count <= 0) return {};
  // Behind the first line that begins with a zero byte, nothing is there yet.
  std::string_view text(buffer.data(), static_cast<size_t>(count));
  size_t end = 0;
  while (end < text.size() && text[end] != '\0') {
    const size_t line_end = text.find('\n', end);
    if (line_end == std::string_view::npos) break;
    // The system may copy the begin of a line before its end is there: that is zero then.
    if (text.substr(end, line_end - end).find('\0') != std::string_view::npos) break;
    end = line_end + 1;
  }
  position_ += end;
  return std::string(text.substr(0, end));
}

void RecordingFollower::take(std::string_view lines) {
  if (header_.empty()) take_header(take_line(&lines));
  std::string_view events = lines.substr(0, 0);
  const auto flush = [&](bool ends_with_failure) {
    if (!events.empty()) take_events(events, ends_with_failure);
    events = lines.substr(0, 0);
  };
  while (!lines.empty()) {
    const std::string_view line = take_line(&lines);
    events = {line.data() - events.size(), events.size() + line.size()};
    if (line.front() == '#') take_remark(line);
    if (line.front() == 'o') flush(true);
  }
  flush(false);
}

void RecordingFollower::take_header(std::string_view line) {
  header_ = line;
  const TraceHandle trace = parse_trace(header_);
  const cachalot_trace_info info = info_of(trace.get());
  if (process_ == 0) reader_ = RecordingReader(info.start_us);
  files_++;
  command_ = info.command;
  process_ = info.process_id;
}

void RecordingFollower::take_remark(std::string_view line) {
  if (line == kContinued) is_continued_ = true;
  std::istringstream words{std::string(line.substr(1))};
  std::string kind;
  words >> kind;
  if (kind == "device") {
    FollowedDevice& device = devices_[static_cast<int32_t>(next_number(&words))];
    words >> device.bus;
    if (device.used_at_begin == 0) device.used_at_begin = next_number(&words);
  } else if (kind == "file") {
    const uint64_t number = next_number(&words);
    missed_files_ += number - std::min(number, files_);
    files_ = number;
  } else if (kind == "pool") {
    const auto device = static_cast<int32_t>(next_number(&words));
    PoolBytes& pool = pools_[{device, next_number(&words)}];
    pool.reserved = next_number(&words);
    pool.used = next_number(&words);
  }
}

void RecordingFollower::take_events(std::string_view lines, bool ends_with_failure) {
  keep_last(lines);
  const TraceHandle trace = parse_trace(header_ + std::string(lines));
  const auto events = events_of(trace.get());
  for (const cachalot_trace_event& event : events) reader_.see(event);
  events_in_file_ += events.size();
  if (ends_with_failure) failed_(*this, events.back());
}

void RecordingFollower::keep_last(std::string_view lines) {
  last_lines_ += lines;
  if (last_lines_.size() < 2 * kLastBytes) return;
  last_lines_.erase(0, last_lines_.find('\n', last_lines_.size() - kLastBytes) + 1);
}

}  // namespace cachalot::cli
