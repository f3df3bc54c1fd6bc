// SPDX-License-Identifier: MIT OR Apache-2.0
#include "alloc/backend/shared_settings.h"

#include <cinttypes>
#include <string_view>

#include "base/text.h"
#include "base/units.h"

namespace cachalot {

// The reference gives the first of these warnings once a process, and the others each time
// (R33, R34).
void SharedSettings::warn(const std::string& text) {
  constexpr std::string_view kLimits = "pinned_max_round_threshold_mb (";
  if (text.starts_with(kLimits)) {
    log_.warn_once(std::string(kLimits), text);
  } else {
    log_.warn(text);
  }
}

void SharedSettings::advise_of(const Settings& changed) {
  mutex_.assert_held();
  const bool is_trap = changed.expandable_segments && changed.max_split_size != kUnlimited;
  // Without a sink the advice would be lost, and a later sink would not get it: so it does not
  // count as given.
  if (!is_trap || rules_.mend_split_limit || changed.is_backend_async || has_advised_ ||
      !log_.is_open())
    return;
  has_advised_ = true;
  const std::string text =
      format("max_split_size_mb:%" PRIu64
             " with expandable_segments:True can reserve memory without bound%s: "
             "leave max_split_size_mb out, or set CACHALOT_MEND_SPLIT_LIMIT",
             changed.max_split_size / MiB, rules_.wording().split_limit_issue);
  log_.advise(text);
}

}  // namespace cachalot
