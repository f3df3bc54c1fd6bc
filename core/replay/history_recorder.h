// SPDX-License-Identifier: MIT OR Apache-2.0
// Writes the events of an allocator as a trace of format 2 while it runs (docs/trace-format.md).
//
// The recorder observes the allocator. At its start it gets the live blocks as rows, and sees each event from that
// moment on.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "alloc/trace/contexts.h"
#include "alloc/trace/history.h"
#include "alloc/trace/snapshot.h"
#include "base/mutex.h"
#include "replay/event_line.h"
#include "replay/line_buffer.h"
#include "replay/recorded_labels.h"
#include "replay/recording_files.h"
#include "replay/trace.h"

namespace cachalot {

// What stands in the field `context` of an event. The numbers are those of CACHALOT_RECORD_*.
enum class RecordedContexts : int32_t {
  kLabels,   // the label of the thread
  kHistory,  // the context that the history keeps
  kNone,
};

struct RecorderOptions {
  std::string path;  // "": lines go to `write`
  WriteBytes write;
  uint64_t keep = 0;  // bytes of files; 0: all
  RecordedContexts contexts = RecordedContexts::kLabels;
  // Explains the contexts of the history. Called without a lock.
  std::function<std::string(ContextId)> describe;
  TraceHeader header;
  // Gets one line if lines are lost, under the locks that see() is called with.
  std::function<void(const std::string&)> warn;
};

struct RecorderStats {
  uint64_t events;
  uint64_t lost;
  uint64_t bytes;
  std::string path;
};

// A block that is live when a file begins.
struct LiveLine {
  EventLine line;  // with the action kLiveAtBegin
  bool is_freed;   // its free waits for other streams
};
std::vector<LiveLine> live_lines(const Snapshot& rows, bool with_contexts);
// Calls see(line) for each of them, and for the frees that wait, which stand behind all blocks.
template <class See>
void for_each_live_line(const std::vector<LiveLine>& live, See see) {
  for (const LiveLine& block : live) see(block.line);
  for (const LiveLine& block : live) {
    if (!block.is_freed) continue;
    EventLine free_request = block.line;
    free_request.action = Action::kFreeRequested;
    free_request.context = kNoContext;
    see(free_request);
  }
}

// Any thread, but for the destructor.
class HistoryRecorder {
 public:
  // Makes the file. Throws Error(kIo).
  explicit HistoryRecorder(RecorderOptions options);
  HistoryRecorder(const HistoryRecorder&) = delete;
  HistoryRecorder& operator=(const HistoryRecorder&) = delete;

  // Before the first event of the rows' device. Throws std::bad_alloc.
  void begin(const Snapshot& rows);
  void see(const TraceEntry& entry) noexcept;

  // The lines so far are with the system, or with the caller's function. Throws Error(kIo) if lines are lost.
  void flush();
  // The last line. What comes later is dropped.
  void finish() noexcept;

  RecorderStats stats() const;

 private:
  // A block is found by its device and address.
  using BlockKey = std::pair<uint64_t, Address>;
  struct BlockKeyHash {
    size_t operator()(const BlockKey& key) const {
      return (key.first ^ key.second) * 0x9e3779b97f4a7c15u >> 16;
    }
  };

  void append(std::string_view lines);
  void append_line(const EventLine& line);
  void append_event(const EventLine& line);
  ContextId context_of(const TraceEntry& entry);
  ContextId label_of_thread();
  // Before the first event with it.
  void tell_label(ContextId label);
  void note_live(const EventLine& line);
  void begin_next_file(int64_t now_us);
  std::string header_text(int64_t start_us) const;
  void write(const TraceEntry& entry);
  void tell_contexts();
  uint64_t lost() const;
  void warn(const std::string& why) noexcept;

  const RecorderOptions options_;
  mutable Mutex lock_{LockRank::kHistoryRecorder};
  // One of the two.
  std::unique_ptr<RecordingFiles> files_;
  std::unique_ptr<LineBuffer> buffer_;
  bool has_ended_ = false;
  bool has_given_up_ = false;  // there was no memory for an event: those behind it are lost, too
  bool has_warned_ = false;
  uint64_t events_ = 0;
  uint64_t given_up_ = 0;  // of them

  RecordedLabels labels_;
  // Contexts of the history that this file does not explain yet, and those that it does.
  std::unordered_set<ContextId> untold_;
  std::unordered_set<ContextId> told_;
  // Where a next file may begin.
  std::unordered_map<BlockKey, LiveLine, BlockKeyHash> live_;
};

}  // namespace cachalot
