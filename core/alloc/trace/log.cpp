// SPDX-License-Identifier: MIT OR Apache-2.0
#include "alloc/trace/log.h"

#include <new>

namespace cachalot {
namespace {

constexpr size_t kMostWarnings = 1000;  // different ones; callers name some of the reasons

}  // namespace

// Without a sink the text is dropped; where texts are costly, callers ask is_open() first.
void Log::warn(const std::string& text) const {
  if (sink_) sink_(LogLevel::kWarning, text.c_str());
}

void Log::warn_once(const std::string& key, const std::string& text) {
  {
    // The sink is the caller's code, which may take its time: it runs without the lock.
    std::lock_guard guard(lock_);
    if (warned_.size() == kMostWarnings || !warned_.insert(key).second) return;
  }
  warn(text);
}

// Leaves the remark out where there is no memory for it: it comes in the midst of changes, which must
// not fail.
void Log::differ(const char* defect, std::string_view text) const {
  if (!sink_) return;
  std::string line;
  try {
    line = std::string("differs from PyTorch: ") + defect + ": " + std::string(text);
  } catch (const std::bad_alloc&) {
    return;
  }
  sink_(LogLevel::kDifference, line.c_str());
}

void Log::report_damage(const std::string& text) const {
  if (sink_) sink_(LogLevel::kDamage, text.c_str());
}

void Log::advise(const std::string& text) const {
  if (sink_) sink_(LogLevel::kAdvice, text.c_str());
}

}  // namespace cachalot
