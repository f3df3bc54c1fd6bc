// SPDX-License-Identifier: MIT OR Apache-2.0
// A trace that is written while what it records goes on: any thread appends lines, without a system call or
// a lock, and the file is a whole trace at any time, also after its process was killed.
//
// Note [Lines in a mapped file]
// Rationale: a program can be killed at any moment, and what it did until then is what its user wants to see. A
// write for each line would cost more than the call that is recorded; a buffer would be lost.
// Approach: the file is mapped. A thread reserves the bytes of its lines by one addition, copies all but the
// first, and stores the first one last. Room that nobody has written to is zero, and a zero byte at the begin
// of a line ends a trace (docs/trace-format.md). The room is allocated in the file system before it is mapped:
// a store into a page of a full disk would kill the program.
// The descriptor is the program's as well, and it may close it and have the same number for a file of its own.
// So the file is asked for its identity before it is lengthened or cut.
// Limitations: a line that a thread has not finished hides those behind it until it has. If somebody cuts the file
// short while the program runs, the program dies.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/mutex.h"

namespace cachalot {

class RecordingFile {
 public:
  // Makes the file. An older file of this name stays as it is, and the new file then has a number behind its
  // name, ".2" and so on. Throws Error(kIo).
  explicit RecordingFile(const std::string& path);
  // Without close(): what was written stays, and room behind it.
  ~RecordingFile();
  RecordingFile(const RecordingFile&) = delete;
  RecordingFile& operator=(const RecordingFile&) = delete;

  const std::string& path() const { return path_; }

  // Appends whole lines, each with its line break, or none of them. At most kMostAppended bytes. False: there
  // is no room, or the file is closed; the lines count as lost. All lines behind the first lost one are lost too.
  static constexpr size_t kMostAppended = size_t{1} << 20;
  bool append(std::string_view lines);
  uint64_t lost() const { return lost_.load(std::memory_order_relaxed); }
  // Bytes so far, lost ones included; 0 if it is closed.
  uint64_t size() const;

  // Appends the last line, for which there always is room, and cuts the file behind it. Later lines are lost.
  void close(std::string_view last_line);

 private:
  static constexpr size_t kMostLastLine = 64;

  bool has_room(uint64_t end);
  void lose(uint64_t begin, std::string_view lines);
  bool extend();
  bool allocate(uint64_t begin, uint64_t size);
  bool is_own_file() const;
  void store(uint64_t begin, std::string_view lines);

  std::string path_;
  int file_ = -1;
  uint64_t device_ = 0;  // the file's identity
  uint64_t inode_ = 0;
  char* memory_ = nullptr;         // address space for all that can be written
  uint64_t address_space_ = 0;     // bytes of it
  std::atomic<uint64_t> end_{0};   // of what has been reserved
  std::atomic<uint64_t> room_{0};  // bytes that are mapped
  std::atomic<uint64_t> lost_{0};
  std::atomic<uint64_t> first_lost_{
      UINT64_MAX};  // where the first lines that found no room would stand
  Mutex extending_{LockRank::kRecordingFile};
};

}  // namespace cachalot
