// SPDX-License-Identifier: MIT OR Apache-2.0
#include "alloc/streams/captures.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "device/sim_driver.h"

namespace cachalot {
namespace {

class MarksOfCaptures : public testing::Test {
 protected:
  SimDriver driver_;
  Rules rules_;
  SlowPathFlags flags_;
  Captures captures_{driver_, rules_, 0, flags_};
};

TEST_F(MarksOfCaptures, StandUntilTheLastCaptureEnds) {
  captures_.begin();
  captures_.begin();
  captures_.end();
  EXPECT_TRUE(captures_.may_be_under_way());
  captures_.end();
  EXPECT_FALSE(captures_.may_be_under_way());
  EXPECT_TRUE(flags_.none());
}

TEST_F(MarksOfCaptures, CannotEndWithoutABegin) {
  EXPECT_THROW(captures_.end(), Error);
  captures_.begin();
  EXPECT_TRUE(captures_.may_be_under_way());
}

// R10
TEST_F(MarksOfCaptures, CountForCallsOnCapturedStreamsOnly) {
  driver_.machine().begin_capture(0, 1, 5);
  EXPECT_FALSE(captures_.is_capture_context(1)) << "no capture is marked";
  captures_.begin();
  EXPECT_TRUE(captures_.is_capture_context(1));
  EXPECT_FALSE(captures_.is_capture_context(2));
  EXPECT_FALSE(captures_.is_capture_context({}));
}

TEST_F(MarksOfCaptures, LetNoCallAskTheDriverWithoutACapture) {
  driver_.machine().fail({static_cast<uint32_t>(SimCall::kCaptureInfo), kInvalidValue});
  EXPECT_FALSE(captures_.is_capture_context(1));
  captures_.begin();
  EXPECT_THROW(captures_.is_capture_context(1), Error);
}

// Before R10 any routing counts as a capture.
TEST_F(MarksOfCaptures, AreUnknownToRelease211) {
  rules_ = rules_of(Release::k2_11);
  captures_.begin();
  EXPECT_TRUE(flags_.none());
  EXPECT_NO_THROW(captures_.end());
  EXPECT_FALSE(captures_.is_capture_context(1));
  flags_.add(SlowPath::kRouting);
  EXPECT_TRUE(captures_.is_capture_context({}));
  EXPECT_TRUE(captures_.may_be_under_way());
}

}  // namespace
}  // namespace cachalot
