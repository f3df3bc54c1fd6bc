// SPDX-License-Identifier: MIT OR Apache-2.0
#include <utility>

#include "model.h"

namespace cachalot::policy_model {

std::optional<Fault> fault_of(const std::string& name) {
  static constexpr std::pair<const char*, Fault> kNames[] = {
      {"no_tick", Fault::kNoTick},
      {"earlier_stamp", Fault::kEarlierStamp},
      {"kept_stamps", Fault::kKeptStamps},
      {"no_look_at_events", Fault::kNoLookAtEvents},
      {"highest_of_equal", Fault::kHighestOfEqual},
      {"new_pages_first", Fault::kNewPagesFirst},
      {"lends_too_early", Fault::kLendsTooEarly},
      {"no_retry", Fault::kNoRetry},
      {"by_all_pages", Fault::kByAllPages},
      {"page_beyond_limit", Fault::kPageBeyondLimit},
      {"latest_first", Fault::kLatestFirst},
      {"always_from_the_back", Fault::kAlwaysFromTheBack},
      {"no_thrift", Fault::kNoThrift},
      {"no_soft_limit", Fault::kNoSoftLimit},
      {"waits_below_limit", Fault::kWaitsBelowLimit},
      {"kept_ranges", Fault::kKeptRanges},
      {"no_host_wait", Fault::kNoHostWait},
      {"unmaps_too_early", Fault::kUnmapsTooEarly},
      {"stamps_stay_behind", Fault::kStampsStayBehind},
      {"holes_wait_forever", Fault::kHolesWaitForever},
      {"no_wait", Fault::kNoWait},
      {"waits_again", Fault::kWaitsAgain},
      {"covers_one", Fault::kCoversOne},
      {"borrows_in_capture", Fault::kBorrowsInCapture},
      {"moves_pinned", Fault::kMovesPinned},
      {"releases_pinned", Fault::kReleasesPinned},
      {"stamp_of_ended", Fault::kStampOfEnded},
      {"use_of_ended", Fault::kUseOfEnded},
      {"miscount", Fault::kMiscount},
  };
  for (const auto& [known, fault] : kNames)
    if (name == known) return fault;
  return {};
}

}  // namespace cachalot::policy_model
