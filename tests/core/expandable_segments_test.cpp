// SPDX-License-Identifier: MIT OR Apache-2.0
#include "alloc/native/expandable_segments.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "alloc/heap/block_pool.h"
#include "alloc/heap/page_table.h"
#include "base/units.h"
#include "device/sim_driver.h"

namespace cachalot {
namespace {

class SegmentsThatGrow : public testing::Test {
 protected:
  std::unique_ptr<Segment> make(Stream stream, uint64_t pages) {
    auto segment = std::make_unique<Segment>();
    EXPECT_EQ(driver_.reserve(0, pages * 2 * MiB, &segment->address), kSuccess);
    segment->size = pages * 2 * MiB;
    segment->stream = stream;
    segment->pool = &pool_;
    segment->pages =
        std::make_unique<PageTable>(driver_, types_, log_, 0, segment->address, 2 * MiB, pages);
    segments_.reserve_one();
    segments_.add(segment.get());
    return segment;
  }

  SimDriver driver_;
  Log log_{nullptr};
  Rules rules_;
  HandleTypes types_{driver_, rules_, false, log_};
  BlockPool pool_{true, nullptr};
  ExpandableSegments segments_;
};

TEST_F(SegmentsThatGrow, AreToldInTheOrderOfTheirCreation) {
  const auto first = make(1, 4);
  const auto second = make(2, 8);
  ASSERT_EQ(segments_.rows().size(), 2u);
  EXPECT_EQ(segments_.rows()[0].stream, 1u);
  EXPECT_EQ(segments_.totals(), (std::pair<uint64_t, uint64_t>{24 * MiB, 2}));
  segments_.remove(first.get());
  EXPECT_EQ(segments_.rows()[0].stream, 2u);
  EXPECT_EQ(segments_.totals(), (std::pair<uint64_t, uint64_t>{16 * MiB, 1}));
}

// [exp 8.10]
TEST_F(SegmentsThatGrow, AreNotToldOfTheDefaultStreamButCounted) {
  const auto segment = make(0, 4);
  EXPECT_TRUE(segments_.rows().empty());
  EXPECT_EQ(segments_.totals().second, 1u);
}

// [core 23.4]
TEST_F(SegmentsThatGrow, GiveAPeerAccessOnce) {
  segments_.add_peer(1);
  segments_.add_peer(1);
  segments_.add_peer(2);
  EXPECT_EQ(segments_.peers(), (std::vector<int>{1, 2}));
}

}  // namespace
}  // namespace cachalot
