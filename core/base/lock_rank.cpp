// SPDX-License-Identifier: MIT OR Apache-2.0
#include "base/lock_rank.h"

#include <array>
#include <cstdarg>
#include <cstdio>

namespace cachalot {

#if CACHALOT_ASSERT_LEVEL > 0

namespace {

struct HeldLock {
  const RankedLock* lock;
  LockRank rank;
  bool is_passed_over;
};

// The calling thread's, the last that was taken at the end.
class HeldLocks {
 public:
  void add(const HeldLock& taken) {
    CACHALOT_ASSERT(1, count_ < rows_.size());
    rows_[count_++] = taken;
  }
  // Seldom another one than the last.
  void remove(const RankedLock* lock) {
    HeldLock* const found = find(lock);
    CACHALOT_ASSERT(1, found != nullptr);
    count_--;
    for (HeldLock* row = found; row != &rows_[count_]; row++) *row = row[1];
  }
  HeldLock* find(const RankedLock* lock) {
    for (size_t i = count_; i-- > 0;) {
      if (rows_[i].lock == lock) return &rows_[i];
    }
    return nullptr;
  }
  // A lock of the present call that has to be taken after one of this rank, or null.
  const HeldLock* not_before(LockRank rank) const {
    for (size_t i = first_; i < count_; i++) {
      if (rows_[i].rank >= rank && !rows_[i].is_passed_over) return &rows_[i];
    }
    return nullptr;
  }

  bool has_none_of_scope() const { return count_ == first_; }
  size_t begin_scope() {
    const size_t outer = first_;
    first_ = count_;
    return outer;
  }
  void end_scope(size_t outer) {
    CACHALOT_ASSERT(1, has_none_of_scope());  // a call gives back what it takes
    first_ = outer;
  }

 private:
  static constexpr size_t kMost = 32;

  std::array<HeldLock, kMost> rows_{};
  size_t count_ = 0;
  size_t first_ = 0;  // of the present call
};

constinit thread_local HeldLocks held_locks;

#define CACHALOT_LOCK_RANK_TEXT(name, text) text,
constexpr const char* kLockTexts[] = {CACHALOT_LOCK_RANKS(CACHALOT_LOCK_RANK_TEXT)};
#undef CACHALOT_LOCK_RANK_TEXT

const char* lock_text(LockRank rank) { return kLockTexts[static_cast<size_t>(rank)]; }

[[noreturn, gnu::format(printf, 4, 5)]] void fail_lock(const char* file, int line,
                                                       const char* function, const char* pattern,
                                                       ...) {
  std::array<char, 200> text;
  va_list arguments;
  va_start(arguments, pattern);
  std::vsnprintf(text.data(), text.size(), pattern, arguments);
  va_end(arguments);
  assertion_failed(file, line, function, text.data());
}

}  // namespace

RankedLock::~RankedLock() { CACHALOT_ASSERT(1, !is_held()); }

bool RankedLock::is_held() const { return held_locks.find(this) != nullptr; }

void RankedLock::assert_held(const char* file, int line, const char* function) const {
  if (!is_held()) fail_lock(file, line, function, "lock \"%s\" is not held", lock_text(rank_));
}

void RankedLock::set_passed_over(bool is_passed_over) const {
  assert_held();
  held_locks.find(this)->is_passed_over = is_passed_over;
}

void RankedLock::before_waiting() const {
  if (is_held())
    fail_lock(__FILE__, __LINE__, __func__, "lock \"%s\" is taken by its holder", lock_text(rank_));
  if (const HeldLock* held = held_locks.not_before(rank_)) {
    fail_lock(__FILE__, __LINE__, __func__, "lock order: \"%s\" is taken while \"%s\" is held",
              lock_text(rank_), lock_text(held->rank));
  }
}

void RankedLock::taken() const { held_locks.add({this, rank_, false}); }

void RankedLock::before_unlock() const {
  assert_held();
  held_locks.remove(this);
}

bool holds_no_lock() { return held_locks.has_none_of_scope(); }

size_t LockScope::begin() { return held_locks.begin_scope(); }

void LockScope::end(size_t outer) { held_locks.end_scope(outer); }

#endif

}  // namespace cachalot
