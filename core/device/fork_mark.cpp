// SPDX-License-Identifier: MIT OR Apache-2.0
#include "device/fork_mark.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>

namespace cachalot {
namespace {

constexpr size_t kPageSize = 4096;

}  // namespace

ForkMark::ForkMark() : process_(getpid()) {
  void* const page =
      mmap(nullptr, kPageSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return;
  if (madvise(page, kPageSize, MADV_WIPEONFORK) != 0) {
    munmap(page, kPageSize);
    return;
  }
  page_ = static_cast<char*>(page);
  *page_ = 1;
}

ForkMark::~ForkMark() {
  if (page_ != nullptr) munmap(const_cast<char*>(page_), kPageSize);
}

bool ForkMark::is_other_process() const { return getpid() != process_; }

}  // namespace cachalot
