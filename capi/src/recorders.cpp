// SPDX-License-Identifier: MIT OR Apache-2.0
#include "recorders.h"

#include <unistd.h>

#include <mutex>
#include <utility>

#include "alloc/config/rules.h"
#include "base/error.h"
#include "base/system_time.h"
#include "base/text.h"
#include "cachalot/status.h"

namespace cachalot::capi {

TraceHeader trace_header_of(Allocator& core) {
  TraceHeader header;
  header.recorder = std::string("cachalot ") + cachalot_version();
  header.torch = release_name(core.rules().release);
  header.config = core.settings().config;
  header.warm_up = 0;
  // Unlike the free memory it is told without a context.
  uint64_t total = 0;
  if (core.driver().total_memory(0, &total) == kSuccess) header.device_total = total;
  header.pid = getpid();
  header.start_us = microseconds_since_1970();
  return header;
}

Recorders::~Recorders() {
  while (!recorders_.empty()) stop(recorders_.begin()->first);
}

uint64_t Recorders::start(RecorderOptions options) {
  std::string workload = std::move(options.header.workload);
  options.header = trace_header_of(core_);
  options.header.workload = std::move(workload);
  options.path = path_of_process(options.path, options.header.pid);
  options.describe = core_.contexts().describe;
  options.warn = [this](const std::string& text) {
    if (log_) log_(LogLevel::kWarning, text.c_str());
  };
  const auto recorder = std::make_shared<HistoryRecorder>(std::move(options));
  try {
    return attach(recorder);
  } catch (...) {
    // A recording that has not begun leaves no file.
    if (const std::string path = recorder->stats().path; !path.empty()) unlink(path.c_str());
    throw;
  }
}

uint64_t Recorders::attach(const std::shared_ptr<HistoryRecorder>& recorder) {
  const uint64_t id =
      core_.observe_trace([recorder](const TraceEntry& entry) { recorder->see(entry); },
                          [&](const Snapshot& rows) { recorder->begin(rows); });
  try {
    const std::lock_guard guard(lock_);
    recorders_.emplace(id, recorder);
  } catch (...) {
    core_.detach(id);
    throw;
  }
  return id;
}

// Behind the detachment it sees no event.
bool Recorders::stop(uint64_t id) {
  std::shared_ptr<HistoryRecorder> recorder;
  {
    const std::lock_guard guard(lock_);
    const auto found = recorders_.find(id);
    if (found == recorders_.end()) return false;
    recorder = std::move(found->second);
    recorders_.erase(found);
  }
  core_.detach(id);
  recorder->finish();
  return true;
}

std::shared_ptr<HistoryRecorder> Recorders::get(uint64_t id) const {
  const std::lock_guard guard(lock_);
  const auto found = recorders_.find(id);
  if (found == recorders_.end())
    throw_invalid_argument(
        format("no recorder has the id %llu", static_cast<unsigned long long>(id)));
  return found->second;
}

}  // namespace cachalot::capi
