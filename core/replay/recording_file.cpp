// SPDX-License-Identifier: MIT OR Apache-2.0
#include "replay/recording_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <tuple>
#include <utility>

#include "base/assert.h"
#include "base/error.h"

namespace cachalot {
namespace {

constexpr uint64_t kChunk = uint64_t{1} << 20;
constexpr uint64_t kMostAddressSpace = uint64_t{1} << 36;
constexpr uint64_t kLeastAddressSpace = uint64_t{1} << 26;
constexpr int kPopulateWrite = 23;               // MADV_POPULATE_WRITE, which older headers lack
constexpr uint64_t kClosed = uint64_t{1} << 62;  // more than can be reserved

[[noreturn]] void fail(const std::string& path, const char* what) {
  throw Error(Status::kIo, path + ": cannot " + what + ": " + std::strerror(errno));
}

// Gives the file, and its path.
std::pair<int, std::string> make_file(const std::string& path) {
  constexpr int kMostOfOneName = 10000;
  std::string name = path;
  for (int i = 2;; i++) {
    const int file = open(name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (file >= 0) return {file, name};
    if (errno != EEXIST || i > kMostOfOneName) fail(name, "be made");
    name = path + "." + std::to_string(i);
  }
}

// Away from the numbers that programs close or reuse.
int move_high(int file) {
  constexpr int kHigh = 900;
  const int moved = fcntl(file, F_DUPFD_CLOEXEC, kHigh);
  if (moved < 0) return file;
  ::close(file);
  return moved;
}

uint64_t most_address_space() {
  rlimit limit{};
  const bool is_limited = getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
  return is_limited ? std::min<uint64_t>(kMostAddressSpace, limit.rlim_cur / 8) : kMostAddressSpace;
}

// A small part of what the process may have.
char* reserve_addresses(uint64_t* size) {
  for (*size = most_address_space() / kChunk * kChunk; *size >= kLeastAddressSpace; *size /= 2) {
    void* const memory =
        mmap(nullptr, *size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) continue;
    madvise(memory, *size, MADV_DONTFORK);
    return static_cast<char*>(memory);
  }
  return nullptr;
}

// To make a file longer than the process's limit ends the process.
uint64_t most_file_bytes() {
  rlimit limit{};
  const bool is_limited = getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
  return is_limited ? limit.rlim_cur : UINT64_MAX;
}

}  // namespace

RecordingFile::RecordingFile(const std::string& path) {
  std::tie(file_, path_) = make_file(path);
  file_ = move_high(file_);
  struct stat info {};
  fstat(file_, &info);
  device_ = info.st_dev;
  inode_ = info.st_ino;
  memory_ = reserve_addresses(&address_space_);
  if (memory_ != nullptr && extend()) return;
  const int code = errno;
  if (memory_ != nullptr) munmap(memory_, address_space_);
  ::close(file_);
  unlink(path_.c_str());
  errno = code;
  fail(path_, "be mapped");
}

RecordingFile::~RecordingFile() {
  munmap(memory_, address_space_);
  ::close(file_);
}

bool RecordingFile::append(std::string_view lines) {
  CACHALOT_ASSERT(1, !lines.empty() && lines.size() <= kMostAppended && lines.back() == '\n');
  const uint64_t begin = end_.fetch_add(lines.size(), std::memory_order_relaxed);
  if (first_lost_.load(std::memory_order_relaxed) < begin) {
    lose(begin, lines);
    return false;
  }
  // The last line needs room of its own.
  if (!has_room(begin + lines.size() + kMostLastLine)) {
    lose(begin, lines);
    return false;
  }
  store(begin, lines);
  return true;
}

void RecordingFile::lose(uint64_t begin, std::string_view lines) {
  lost_.fetch_add(static_cast<uint64_t>(std::count(lines.begin(), lines.end(), '\n')),
                  std::memory_order_relaxed);
  uint64_t first = first_lost_.load(std::memory_order_relaxed);
  while (begin < first && !first_lost_.compare_exchange_weak(first, begin)) {
  }
}

// A reader that sees the first byte sees the others. (LLVM's C++ library 16 has no std::atomic_ref.)
void RecordingFile::store(uint64_t begin, std::string_view lines) {
  char* const out = memory_ + begin;
  std::memcpy(out + 1, lines.data() + 1, lines.size() - 1);
  __atomic_store_n(out, lines.front(), __ATOMIC_RELEASE);
}

bool RecordingFile::has_room(uint64_t end) {
  if (end <= room_.load(std::memory_order_acquire)) return true;
  if (end > address_space_) return false;
  const std::lock_guard guard(extending_);
  while (room_.load(std::memory_order_relaxed) < end)
    if (!extend()) return false;
  return true;
}

// By one chunk. Pages before the last two leave this process's memory; the system keeps what is in them.
bool RecordingFile::extend() {
  const uint64_t room = room_.load(std::memory_order_relaxed);
  if (room + kChunk > std::min(address_space_, most_file_bytes())) {
    errno = EFBIG;
    return false;
  }
  if (!is_own_file() || !allocate(room, kChunk)) return false;
  void* const chunk = mmap(memory_ + room, kChunk, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
                           file_, static_cast<off_t>(room));
  if (chunk == MAP_FAILED) return false;
  madvise(chunk, kChunk, MADV_DONTFORK);
  // All pages at once cost a third of one fault each. Systems before Linux 5.14 do not know it.
  madvise(chunk, kChunk, kPopulateWrite);
  if (room >= 2 * kChunk) madvise(memory_ + room - 2 * kChunk, kChunk, MADV_DONTNEED);
  room_.store(room + kChunk, std::memory_order_release);
  return true;
}

bool RecordingFile::allocate(uint64_t begin, uint64_t size) {
  int code = 0;
  do code = posix_fallocate(file_, static_cast<off_t>(begin), static_cast<off_t>(size));
  while (code == EINTR);
  errno = code;
  return code == 0;
}

bool RecordingFile::is_own_file() const {
  struct stat info {};
  return fstat(file_, &info) == 0 && info.st_dev == device_ && info.st_ino == inode_;
}

uint64_t RecordingFile::size() const {
  const uint64_t end = end_.load(std::memory_order_relaxed);
  return end < kClosed ? end : 0;
}

// What others have reserved lies before the last line, so they may still write it. Where one of them is about to
// make room, there is none for the last line, and the file stays as it is.
void RecordingFile::close(std::string_view last_line) {
  CACHALOT_ASSERT(1, last_line.size() <= kMostLastLine && last_line.back() == '\n');
  const uint64_t reserved = end_.exchange(kClosed);
  if (reserved >= kClosed) return;
  const uint64_t begin = std::min(reserved, first_lost_.load());
  const uint64_t end = begin + last_line.size();
  if (end > room_.load(std::memory_order_acquire)) return;
  store(begin, last_line);
  if (!is_own_file()) return;
  // Nobody can be told if it fails, and the file is as good with room at its end.
  [[maybe_unused]] const int code = ftruncate(file_, static_cast<off_t>(end));
}

}  // namespace cachalot
