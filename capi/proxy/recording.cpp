// SPDX-License-Identifier: MIT OR Apache-2.0
#include "recording.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "base/text.h"
#include "cachalot/version.h"
#include "process_files.h"
#include "real_driver.h"

namespace cachalot::proxy {
namespace {

// The program and its arguments, with blanks between them. What is longer than a line may be is cut.
std::string command_line() {
  constexpr size_t kMostBytes = size_t{64} << 10;
  std::string text;
  const int file = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
  if (file < 0) return text;
  std::array<char, 4096> buffer;
  for (ssize_t count;
       text.size() < kMostBytes && (count = read(file, buffer.data(), buffer.size())) > 0;)
    text.append(buffer.data(), static_cast<size_t>(count));
  close(file);
  while (!text.empty() && text.back() == '\0') text.pop_back();
  std::replace(text.begin(), text.end(), '\0', ' ');
  return text;
}

uint64_t device_total() {
  DeviceOrdinal device = 0;
  size_t total = 0;
  const bool is_known = call_real(real().cuCtxGetDevice, &device) == 0 &&
                        call_real(real().cuDeviceTotalMem_v2, &total, device) == 0;
  return is_known ? total : 0;
}

int32_t driver_version() {
  int version = 0;
  return call_real(real().cuDriverGetVersion, &version) == 0 ? version : 0;
}

}  // namespace

Recording::Recording(std::string path, std::string list, int64_t parent, uint64_t keep)
    : path_(std::move(path)),
      list_(std::move(list)),
      pid_(getpid()),
      parent_(parent),
      keep_(keep),
      start_us_(nanoseconds_of(CLOCK_REALTIME) / 1000),
      start_ns_(now_ns()) {}

TraceHeader Recording::header(int64_t start_us) const {
  TraceHeader header;
  header.format = 2;
  header.recorder = std::string("cachalot ") + CACHALOT_VERSION_STRING;
  header.device_total = device_total();
  header.warm_up = 0;
  header.command = command_line();
  header.pid = pid_;
  header.parent = parent_;
  header.driver = driver_version();
  header.start_us = start_us;
  return header;
}

// A program that replaces itself (execve) has the process number of the one before it, so its file has
// a number behind its name.
void Recording::open() {
  try {
    files_ = std::make_unique<RecordingFiles>(path_of_process(path_, pid_), keep_,
                                              format_trace_header(header(start_us_)));
    append_line(list_, files_->path() + "\n");
  } catch (const std::exception& error) {
    remark("is not recorded", error);
  }
  is_ready_.store(true, std::memory_order_release);
}

void Recording::remark(const char* what, const std::exception& error) const {
  std::fprintf(stderr, "cachalot: process %lld %s: %s\n", static_cast<long long>(pid_), what,
               error.what());
}

void Recording::finish() {
  if (!is_ready_.load(std::memory_order_acquire) || files_ == nullptr) return;
  EventLine line{};
  line.action = Action::kRecordingEnd;
  line.size = files_->lost();
  line.time_us = time_us(now_ns());
  std::array<char, kMaxEventLine> text;
  char* const end = write_event_line(text.data(), line);
  files_->close({text.data(), static_cast<size_t>(end - text.data())});
}

}  // namespace cachalot::proxy
