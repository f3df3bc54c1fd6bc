// SPDX-License-Identifier: MIT OR Apache-2.0
// The file of a recording, and those that follow it where the recording may take only so many bytes
// (docs/trace-format.md): the full one is kept beside, under its name with ".before".
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "replay/recording_file.h"

namespace cachalot {

// Any thread may append; nobody does while the next file begins.
class RecordingFiles {
 public:
  // keep: bytes that may be kept; 0: all. Throws Error(kIo).
  RecordingFiles(const std::string& path, uint64_t keep, std::string_view header);

  // Of the present file: see RecordingFile.
  const std::string& path() const { return path_; }

  // As RecordingFile has it.
  bool append(std::string_view lines);
  // Lines of the present file, and all since there is none.
  uint64_t lost() const { return lost_ + (file_ != nullptr ? file_->lost() : 0); }
  // Of all files so far.
  uint64_t bytes() const { return bytes_before_ + (file_ != nullptr ? file_->size() : 0); }

  bool is_bounded() const { return keep_ != 0; }
  // Whether the file has half of the bytes, so that the next one may take the place of the one before. A program
  // with very many blocks has a long begin, which counts as nothing: else each line would begin a file.
  bool is_full() const {
    return is_bounded() && file_ != nullptr && file_->size() > begin_bytes_ + keep_ / 2;
  }
  // begin: appends what a reader has to know from the start. Throws Error(kIo) if there can be no next file: what is
  // appended from then on is lost.
  template <class Begin>
  void begin_next_file(std::string_view header, Begin begin) {
    set_file_aside(header);
    begin();
    begin_bytes_ = file_->size();
  }

  // The last line; see RecordingFile.
  void close(std::string_view last_line);

 private:
  void set_file_aside(std::string_view header);
  void make_file(const std::string& path, std::string_view header);

  const uint64_t keep_;
  std::string path_;
  std::unique_ptr<RecordingFile> file_;  // null: the next one could not be made
  uint64_t file_number_ = 1;
  uint64_t begin_bytes_ = 0;   // of the file, which tell what was there before
  uint64_t bytes_before_ = 0;  // of the files before
  std::atomic<uint64_t> lost_{0};
};

}  // namespace cachalot
