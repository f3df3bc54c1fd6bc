// SPDX-License-Identifier: MIT OR Apache-2.0
#include "replay/stream_choice.h"

#include <algorithm>
#include <tuple>

#include "base/assert.h"

namespace cachalot {
namespace {

// Made-up streams lie where no handle of a real one does: addresses are higher, small handles
// lower.
constexpr Stream kFirstMadeUpStream = 0xf000000;
constexpr Stream kMadeUpStreamStep = 0x1000;

// The streams of one device, filled in the order of the completions.
class Streams {
 public:
  // The first stream that does not hold a later request.
  Stream choose(const LateFree& late) {
    CACHALOT_ASSERT(1, !late.is_with_previous || previous_ < last_requested_.size());
    size_t number = late.is_with_previous ? previous_ : 0;
    while (number < last_requested_.size() && last_requested_[number] > late.requested) number++;
    if (number == last_requested_.size()) last_requested_.push_back(0);
    last_requested_[number] = late.requested;
    previous_ = number;
    return kFirstMadeUpStream + kMadeUpStreamStep * number;
  }

  size_t count() const { return last_requested_.size(); }

 private:
  std::vector<uint32_t> last_requested_;
  size_t previous_ = 0;
};

}  // namespace

bool choose_streams(std::vector<LateFree>* late_frees) {
  std::sort(late_frees->begin(), late_frees->end(), [](const LateFree& a, const LateFree& b) {
    return std::tie(a.device, a.completed, a.requested) <
           std::tie(b.device, b.completed, b.requested);
  });
  Streams streams;
  int device = 0;
  bool are_enough = true;
  for (LateFree& late : *late_frees) {
    if (late.device != device) streams = {};
    device = late.device;
    if (are_enough) late.stream = streams.choose(late);
    are_enough = are_enough && streams.count() <= kMaxMadeUpStreams;
  }
  std::sort(late_frees->begin(), late_frees->end(),
            [](const LateFree& a, const LateFree& b) { return a.requested < b.requested; });
  return are_enough;
}

}  // namespace cachalot
