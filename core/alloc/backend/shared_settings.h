// SPDX-License-Identifier: MIT OR Apache-2.0
// The settings in force, which all devices of an allocator share, and what the log says about them.
#pragma once

#include <mutex>
#include <string>

#include "alloc/config/options.h"
#include "alloc/config/rules.h"
#include "alloc/config/settings.h"
#include "alloc/trace/log.h"
#include "base/mutex.h"

namespace cachalot {

// Owns the settings and their lock. Each device works with a copy, so that a request takes no lock
// for them; a thread that changes them keeps the lock until all devices have the new copy, so no
// two changes mix.
class SharedSettings {
 public:
  // `rules` and `log` outlive the settings.
  SharedSettings(const Rules& rules, Log& log) : rules_(rules), log_(log) {}

  [[nodiscard]] std::unique_lock<Mutex> lock() { return std::unique_lock(mutex_); }
  // pre: the lock.
  Settings& current() {
    mutex_.assert_held();
    return current_;
  }

  // Where the parser of option strings leaves its warnings. For as long as the settings live.
  WarningSink warnings() {
    return [this](const std::string& text) { warn(text); };
  }
  // Warns once where the options in force harm each other (U22). pre: the lock.
  void advise_of(const Settings& changed);

 private:
  void warn(const std::string& text);

  const Rules& rules_;
  Log& log_;
  Mutex mutex_{LockRank::kSettings};
  Settings current_;
  bool has_advised_ = false;
};

}  // namespace cachalot
