// SPDX-License-Identifier: MIT OR Apache-2.0
// The files that an out-of-memory error of one allocator leaves in a folder.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "alloc/allocator.h"
#include "alloc/trace/log.h"
#include "base/mutex.h"

namespace cachalot::capi {

// Any thread. Made after the core, and gone before it.
class OomDump {
 public:
  OomDump(Allocator& core, LogSink log) : core_(core), log_(std::move(log)) {}
  ~OomDump() { stop(); }
  OomDump(const OomDump&) = delete;
  OomDump& operator=(const OomDump&) = delete;

  static constexpr uint64_t kUsualEvents = 10000;
  // events: that are kept for it; 0: none. In the place of an earlier folder. Throws Error; nothing has changed then.
  void start(const std::string& folder, uint64_t events);
  void stop();

 private:
  class Writer;
  struct Observers {
    uint64_t failures = 0;  // ids
    uint64_t events = 0;    // 0: none
  };

  Observers attach(const std::shared_ptr<Writer>& writer, bool with_events);
  void detach(const Observers& observers);

  Allocator& core_;
  const LogSink log_;
  Mutex lock_{LockRank::kRecorders};
  Observers observers_;  // no failures: there is no folder
};

}  // namespace cachalot::capi
