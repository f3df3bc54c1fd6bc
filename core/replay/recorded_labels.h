// SPDX-License-Identifier: MIT OR Apache-2.0
// The labels of a recording: their numbers, and which of them its file tells of.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "alloc/trace/history.h"

namespace cachalot {

// One thread at a time.
class RecordedLabels {
 public:
  // The number of the calling thread's labels; kNoContext: it has none. Throws std::bad_alloc.
  ContextId of_thread();
  // The line that tells of the label, if the file does not have it yet; else "". Throws std::bad_alloc.
  std::string line_to_write(ContextId label);
  // A next file tells of none.
  void begin_file();

 private:
  struct Label {
    std::string text;
    bool is_told;
  };

  ContextId number_of(const std::string& text);

  std::unordered_map<std::string, ContextId> numbers_;
  std::vector<Label> labels_;  // by number - 1
  // Of the event before: a thread's text is the same object until the thread changes its labels.
  std::shared_ptr<const std::string> last_text_;
  ContextId last_ = kNoContext;
};

}  // namespace cachalot
