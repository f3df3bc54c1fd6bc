// SPDX-License-Identifier: MIT OR Apache-2.0
// Reserve classes: names for streams, by which options say how much address space an expandable
// segment of such a stream reserves (R34, R65, R67).
#pragma once

#include <map>
#include <string>

#include "alloc/config/settings.h"
#include "base/mutex.h"
#include "device/device.h"

namespace cachalot {

// Owns the classes of an allocator's streams. Any thread.
class ReserveClasses {
 public:
  // Empty: the stream has no class.
  std::string of(Stream stream) const;
  void set(Stream stream, const std::string& name);

 private:
  mutable Mutex lock_{LockRank::kReserves};
  std::map<Stream, std::string> names_;  // none is empty
};

// R65, R67: what a class gets on a device of so many bytes.
ReserveDecision decide_reserve(const Settings& settings, const std::string& name, uint64_t total);

}  // namespace cachalot
