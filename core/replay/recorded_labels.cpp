// SPDX-License-Identifier: MIT OR Apache-2.0
#include "replay/recorded_labels.h"

#include <utility>

#include "alloc/trace/contexts.h"
#include "base/assert.h"
#include "replay/trace_comment.h"

namespace cachalot {
namespace {

// Of those that come later a recording says "(other)", as the statistics of labels do.
constexpr size_t kMostRecordedLabels = 100000;
constexpr const char* kOtherRecordedLabels = "(other)";

}  // namespace

ContextId RecordedLabels::of_thread() {
  const std::shared_ptr<const std::string>& text = current_labels();
  if (!text) return kNoContext;
  if (text != last_text_) {
    last_ = number_of(*text);
    last_text_ = text;
  }
  return last_;
}

ContextId RecordedLabels::number_of(const std::string& text) {
  const bool is_full = labels_.size() >= kMostRecordedLabels && !numbers_.contains(text);
  const auto [place, is_new] =
      numbers_.try_emplace(is_full ? kOtherRecordedLabels : text, labels_.size() + 1);
  if (is_new) labels_.push_back({place->first, false});
  return place->second;
}

std::string RecordedLabels::line_to_write(ContextId label) {
  CACHALOT_ASSERT(1, label != kNoContext && label <= labels_.size());
  auto& [text, is_told] = labels_[label - 1];
  return std::exchange(is_told, true) ? "" : format_label_comment(label, text);
}

void RecordedLabels::begin_file() {
  for (Label& label : labels_) label.is_told = false;
}

}  // namespace cachalot
