// SPDX-License-Identifier: MIT OR Apache-2.0
// What every object behind an opaque type of the C interface begins with: two words that tell what
// it is, of which copy of the library, and whether this process may use it. guard.h's require()
// takes no object without them.
//
// Note [Marks]
// Rationale: a process can hold several copies of the library (one static inside of a plugin, one
// shared), and a process that was forked holds locks that nobody will give back and a driver that
// does not work. A handle that is not ours to use must be refused, for next to nothing on a hit.
// Approach: a handle's first word is the mark of its copy plus its kind. The mark of what cannot
// be used in a forked child lies in a page that the kernel clears in children, so that there no
// handle of the parent's has it. One comparison finds all; only who is refused is told why, by the
// second word, which is the same in all copies.
// Limitations: where the kernel has no such pages (before Linux 4.14) a fork is not noticed. What
// was destroyed is recognised as long as nothing else has taken its memory.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "guard.h"

namespace cachalot::capi {

// Added to marks and written into handles, so that numbers are never used again for another kind.
enum class HandleKind : uint64_t {
  kDriver = 1,
  kAllocator = 2,
  kSnapshot = 3,
  kTrace = 4,
  kReplay = 5,
  kReport = 6,
  kTenant = 7,
  kCheckpoint = 8,
  kCheckpointChanges = 9,
  kSharedBlock = 10,
  kOpenedBlock = 11,
};

// Whether the objects are nothing but data, which a forked child can read like everything else.
constexpr bool is_data(HandleKind kind) {
  switch (kind) {
    case HandleKind::kDriver:
    case HandleKind::kAllocator:
    case HandleKind::kTenant:
    case HandleKind::kSharedBlock:
    case HandleKind::kOpenedBlock:
      return false;
    case HandleKind::kSnapshot:
    case HandleKind::kTrace:
    case HandleKind::kReplay:
    case HandleKind::kReport:
    case HandleKind::kCheckpoint:
    case HandleKind::kCheckpointChanges:
      break;
  }
  return true;
}

#if defined(__x86_64__)
inline constexpr size_t kLargestPage = 4096;
#else
inline constexpr size_t kLargestPage = 64 * 1024;
#endif

// A page that nothing else has a part of, for the mark of this process. Being page-aligned, marks
// leave room for the kind.
struct alignas(kLargestPage) MarkPage {
  std::atomic<uint64_t> mark;  // 0: not given yet
};
extern constinit MarkPage mark_page;

inline uint64_t mark_of(HandleKind kind) {
  const auto number = static_cast<uint64_t>(kind);
  return is_data(kind) ? reinterpret_cast<uint64_t>(&mark_page) + number
                       : mark_page.mark.load(std::memory_order_relaxed) + number;
}

// The same, for an object that is being made: gives this process its mark, if it has none.
uint64_t new_mark(HandleKind kind);

class HandleBase {
 public:
  HandleBase(const HandleBase&) = delete;
  HandleBase& operator=(const HandleBase&) = delete;

 protected:
  explicit HandleBase(HandleKind kind);
  ~HandleBase();

  bool has_mark(uint64_t mark) const { return mark_ == mark; }
  // Says what is wrong with the object, which is not a live one of this kind, copy and process.
  [[noreturn, gnu::cold]] void refuse(HandleKind expected, const char* name) const;

 private:
  uint64_t mark_;
  uint64_t kind_;  // the same in each copy of the library
};

template <HandleKind kKind>
class Handle : private HandleBase {
 public:
  bool is_live() const { return has_mark(mark_of(kKind)); }
  void require_live(const char* name) const {
    if (!is_live()) [[unlikely]]
      refuse(kKind, name);
  }

  using IsHandle = void;

 protected:
  Handle() : HandleBase(kKind) {}
};

template <class T>
concept MarkedHandle = requires {
  typename T::IsHandle;
};

// The object behind a handle; throws where there is none that may be used.
template <MarkedHandle T>
inline T& require(T* handle, const char* name) {
  if (handle == nullptr) throw_null(name);
  handle->require_live(name);
  return *handle;
}

// For functions that have no status to answer with.
template <MarkedHandle T>
inline T* live_or_null(T* handle) {
  return handle != nullptr && handle->is_live() ? handle : nullptr;
}

}  // namespace cachalot::capi
