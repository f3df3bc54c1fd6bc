// SPDX-License-Identifier: MIT OR Apache-2.0
// The lines that an allocator gives to its log. Without a sink it does not put them together.
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "base/mutex.h"

namespace cachalot {

// The numbers are those of CACHALOT_LOG_*.
enum class LogLevel : int32_t { kWarning = 1, kDifference = 2, kDamage = 3, kAdvice = 4 };

using LogSink = std::function<void(LogLevel level, const char* message)>;

// Owns the sink, and which warnings were given. Any thread. The sink runs on the thread that the
// line is about, with whatever locks that thread holds, so it must not call back.
class Log {
 public:
  explicit Log(LogSink sink) : sink_(std::move(sink)) {}

  bool is_open() const { return sink_ != nullptr; }
  void warn(const std::string& text) const;
  // Later texts with the same key are left out.
  void warn_once(const std::string& key, const std::string& text);
  // A remark that PyTorch does not make: options that would serve the caller better.
  void advise(const std::string& text) const;
  // A mended defect of the reference has just changed a decision.
  void differ(const char* defect, std::string_view text) const;
  // Memory was written where it must not be.
  void report_damage(const std::string& text) const;

 private:
  const LogSink sink_;
  mutable Mutex lock_{LockRank::kLog};
  std::set<std::string> warned_;
};

}  // namespace cachalot
