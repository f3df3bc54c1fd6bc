// SPDX-License-Identifier: MIT OR Apache-2.0
#include "handle.h"

#include <sys/mman.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/text.h"

namespace cachalot::capi {

constinit MarkPage mark_page{};

namespace {

constexpr uint64_t kAnyKind = 0x746f6c6168636163;  // "cachalot"
constexpr int kGenerationShift = 48;               // above every address

std::atomic<uint64_t> last_generation{0};

// Refused by old kernels: then the mark stays in children too.
void clear_marks_on_fork() {
  const auto page_size = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  if (page_size <= sizeof mark_page) madvise(&mark_page, page_size, MADV_WIPEONFORK);
}

// Never a mark that a parent had: this process knows all numbers that its parents have taken.
void give_process_a_mark() {
  clear_marks_on_fork();
  const uint64_t generation = last_generation.fetch_add(1) + 1;
  CACHALOT_ASSERT(1, reinterpret_cast<uint64_t>(&mark_page) >> kGenerationShift == 0);
  const uint64_t mark = reinterpret_cast<uint64_t>(&mark_page) + (generation << kGenerationShift);
  uint64_t none = 0;
  mark_page.mark.compare_exchange_strong(none, mark);
}

uint64_t without_generation(uint64_t mark) { return mark << 16; }

const char* name_of(HandleKind kind) {
  switch (kind) {
    case HandleKind::kDriver:
      return "driver";
    case HandleKind::kAllocator:
      return "allocator";
    case HandleKind::kSnapshot:
      return "snapshot";
    case HandleKind::kTrace:
      return "trace";
    case HandleKind::kReplay:
      return "replay";
    case HandleKind::kReport:
      return "report";
    case HandleKind::kTenant:
      return "tenant";
    case HandleKind::kCheckpoint:
      return "checkpoint";
    case HandleKind::kCheckpointChanges:
      return "checkpoint's changes";
    case HandleKind::kSharedBlock:
      return "shared block";
    case HandleKind::kOpenedBlock:
      return "opened block";
  }
  return nullptr;
}

const char* article(const char* noun) { return *noun == 'a' ? "an" : "a"; }

}  // namespace

uint64_t new_mark(HandleKind kind) {
  if (!is_data(kind) && mark_page.mark.load() == 0) give_process_a_mark();
  return mark_of(kind);
}

HandleBase::HandleBase(HandleKind kind)
    : mark_(new_mark(kind)), kind_(kAnyKind + static_cast<uint64_t>(kind)) {}

HandleBase::~HandleBase() {
  CACHALOT_ASSERT(1, name_of(static_cast<HandleKind>(kind_ - kAnyKind)));  // not destroyed before
  // Of an object that is about to go: an ordinary store would be left out.
  *const_cast<volatile uint64_t*>(&mark_) = 0;
  *const_cast<volatile uint64_t*>(&kind_) = 0;
}

void HandleBase::refuse(HandleKind expected, const char* name) const {
  CACHALOT_ASSERT(1, mark_ != mark_of(expected));
  const char* const wanted = name_of(expected);
  const auto kind = static_cast<HandleKind>(kind_ - kAnyKind);
  const char* const found = name_of(kind);
  if (found == nullptr)
    throw_invalid_argument(format("%s is not %s %s: it was destroyed or never was one", name,
                                  article(wanted), wanted));
  if (kind != expected)
    throw_invalid_argument(
        format("%s is %s %s, not %s %s", name, article(found), found, article(wanted), wanted));
  const auto own = reinterpret_cast<uint64_t>(&mark_page);
  if (without_generation(mark_) == without_generation(own + static_cast<uint64_t>(expected))) {
    throw_invalid_state(format(
        "this %s was made before the process was forked, and cannot be used in the child", wanted));
  }
  throw_invalid_argument(format("this %s belongs to another copy of the library", wanted));
}

}  // namespace cachalot::capi
