// SPDX-License-Identifier: MIT OR Apache-2.0
#include "device/memory_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <utility>

namespace cachalot {
namespace {

// No process may change the size, nor allow it again.
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
constexpr char kMagic[8] = {'c', 'a', 'c', 'h', 'a', 'l', 'o', 't'};

// What a handle's bytes are. The number of the file tells it from one that got its descriptor later.
struct FilePlace {
  char magic[sizeof kMagic];
  int32_t process;
  int32_t descriptor;
  uint64_t file_system;
  uint64_t file;
  uint64_t size;
};
static_assert(sizeof(FilePlace) <= sizeof(ShareableHandle));

// Opens nothing but looks at what is there, so that a number that belongs to a device or a pipe by now does no harm.
bool is_place(int path_only, const FilePlace& place) {
  struct stat status = {};
  return ::fstat(path_only, &status) == 0 && S_ISREG(status.st_mode) &&
         status.st_dev == place.file_system && status.st_ino == place.file;
}

Descriptor open_place(const FilePlace& place) {
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%d/fd/%d", place.process, place.descriptor);
  const Descriptor path_only(::open(path, O_PATH | O_CLOEXEC));
  if (!path_only.is_open() || !is_place(path_only.number(), place)) return {};
  std::snprintf(path, sizeof path, "/proc/self/fd/%d", path_only.number());
  return Descriptor(::open(path, O_RDWR | O_CLOEXEC));
}

}  // namespace

// Closes a descriptor that is not of such a file.
MemoryFile::MemoryFile(Descriptor descriptor) : descriptor_(std::move(descriptor)) {
  struct stat status = {};
  if (is_open() && ::fstat(descriptor_.number(), &status) == 0 && status.st_size > 0)
    size_ = static_cast<uint64_t>(status.st_size);
  if (is_open() && !is_sound()) descriptor_ = {};
}

// Without the seals a process that shrinks the file would end others that touch it.
bool MemoryFile::is_sound() const {
  return size_ > 0 && (::fcntl(descriptor_.number(), F_GET_SEALS) & kSeals) == kSeals;
}

MemoryFile MemoryFile::create(uint64_t size) {
  Descriptor descriptor(::memfd_create("cachalot", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!descriptor.is_open() || size > INT64_MAX ||
      ::ftruncate(descriptor.number(), static_cast<off_t>(size)) != 0 ||
      ::fcntl(descriptor.number(), F_ADD_SEALS, kSeals) != 0)
    return {};
  return MemoryFile(std::move(descriptor));
}

MemoryFile MemoryFile::duplicate(int descriptor) {
  return MemoryFile(Descriptor(::fcntl(descriptor, F_DUPFD_CLOEXEC, 0)));
}

MemoryFile MemoryFile::open(const ShareableHandle& handle) {
  FilePlace place;
  std::memcpy(&place, handle.bytes, sizeof place);
  if (std::memcmp(place.magic, kMagic, sizeof kMagic) != 0 || place.process <= 0) return {};
  MemoryFile file(open_place(place));
  return file.is_open() && file.size() == place.size ? std::move(file) : MemoryFile();
}

ShareableHandle MemoryFile::handle() const {
  FilePlace place = {};
  struct stat status = {};
  ::fstat(descriptor_.number(), &status);
  std::memcpy(place.magic, kMagic, sizeof kMagic);
  place.process = ::getpid();
  place.descriptor = descriptor_.number();
  place.file_system = status.st_dev;
  place.file = status.st_ino;
  place.size = size_;
  ShareableHandle handle;
  std::memcpy(handle.bytes, &place, sizeof place);
  return handle;
}

int MemoryFile::new_descriptor() const { return ::fcntl(descriptor_.number(), F_DUPFD_CLOEXEC, 0); }

Address MemoryFile::map(Address at, int protection) const {
  const int flags = MAP_SHARED | MAP_NORESERVE | (at != 0 ? MAP_FIXED : 0);
  void* const memory =
      ::mmap(reinterpret_cast<void*>(at), size_, protection, flags, descriptor_.number(), 0);
  return memory == MAP_FAILED ? 0 : reinterpret_cast<Address>(memory);
}

}  // namespace cachalot
