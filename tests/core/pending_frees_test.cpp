// SPDX-License-Identifier: MIT OR Apache-2.0
#include "alloc/streams/pending_frees.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "alloc/pools/private_pool.h"
#include "base/error.h"
#include "device/sim_driver.h"
#include "heap_parts.h"

namespace cachalot {
namespace {

constexpr Stream kOwn = 1;

class FreesThatWait : public testing::Test, private FreeCompletion {
 protected:
  using Blocks = std::vector<const Block*>;

  FreesThatWait() { machine_.log_calls(kLogCalls); }
  // Blocks own their uses; a device forgets those of all its blocks at its end.
  ~FreesThatWait() override {
    parts_.heap.for_each_block([this](Block* block) { frees_.forget_uses(block); });
  }

  Block* live_block(BlockPool* pool = nullptr) {
    Block* const block =
        parts_.add_segment(pool ? *pool : parts_.heap.default_pool(true), kOwn, MiB);
    block->set(Block::kUsed);
    return block;
  }
  Block* block_used_by(std::initializer_list<Stream> streams, BlockPool* pool = nullptr) {
    Block* const block = live_block(pool);
    for (const Stream stream : streams) frees_.record_use(block, stream, kOwn);
    return block;
  }
  // As the device does.
  void free(Block* block, bool tracks_nodes = false) {
    frees_.reserve();
    block->clear(Block::kUsed);
    block->set(Block::kWaiting);
    frees_.wait(block, kOwn, tracks_nodes);
  }
  void begin_capture(Stream stream, uint64_t id = 5) {
    captures_.begin();
    machine_.begin_capture(0, stream, id);
  }
  void end_capture(uint64_t id = 5) {
    captures_.end();
    machine_.end_capture(0, id);
  }
  void fail(SimCall call, uint64_t after = 0) {
    machine_.fail({static_cast<uint32_t>(call), kInvalidValue, after});
  }
  std::string calls() {
    std::string text(machine_.take_calls(nullptr, 0), '\0');
    machine_.take_calls(text.data(), text.size() + 1);
    return text;
  }
  void recover(Stream stream) {
    frees_.recover_deferred_frees(
        stream, [this](Stream) { return route_; }, kNoContext);
  }

  SimDriver driver_;
  SimMachine& machine_ = driver_.machine();
  HeapParts parts_;
  Rules rules_;
  std::string remarks_;
  Log log_{[this](LogLevel, const char* text) { remarks_ += text; }};
  Captures captures_{driver_, rules_, 0, parts_.flags};
  PendingFrees frees_{driver_, 0, true, log_, captures_, parts_.flags, *this};
  Blocks completed_;
  PoolId id_{7, 0};
  const PoolId* route_ = &id_;

 private:
  void complete_free(Block* block, ContextId) override {
    EXPECT_TRUE(block->is_free());
    EXPECT_FALSE(block->is(Block::kRecorded));
    completed_.push_back(block);
  }
};

// ---- Events

// [core 12.3, 12.5]
TEST_F(FreesThatWait, CompleteWhenTheWorkOfAllStreamsIsDone) {
  Block* const block = block_used_by({2, 3});
  machine_.queue_work(0, 2);
  machine_.queue_work(0, 3);
  free(block);
  EXPECT_TRUE(parts_.flags.has(SlowPath::kPendingFrees));
  machine_.finish_stream(0, 2);
  frees_.process_events(kNoContext);
  EXPECT_EQ(completed_, Blocks());
  machine_.finish_stream(0, 3);
  frees_.process_events(kNoContext);
  EXPECT_EQ(completed_, Blocks{block});
  EXPECT_TRUE(parts_.flags.none());
}

// [core 12.1]
TEST_F(FreesThatWait, HaveOneEventForAStreamThatWasRecordedTwice) {
  Block* const block = block_used_by({2, 2});
  free(block);
  EXPECT_EQ(frees_.queued_events(), (std::map<const Block*, uint32_t>{{block, 1}}));
}

TEST_F(FreesThatWait, CompleteInTheOrderOfTheirStream) {
  Block* const first = block_used_by({2});
  Block* const second = block_used_by({2});
  machine_.queue_work(0, 2);
  free(first);
  machine_.queue_work(0, 2);
  free(second);
  machine_.finish_oldest(0, 2);
  frees_.process_events(kNoContext);
  EXPECT_EQ(completed_, Blocks{first});
  machine_.finish_oldest(0, 2);
  frees_.process_events(kNoContext);
  EXPECT_EQ(completed_, (Blocks{first, second}));
}

TEST_F(FreesThatWait, UseTheEventsOfEarlierOnes) {
  for (int i = 0; i < 2; i++) {
    free(block_used_by({2}));
    frees_.process_events(kNoContext);
  }
  EXPECT_EQ(calls(), "event_create\nevent_record 2\nevent_record 2\n");
}

// [core 12.5]
TEST_F(FreesThatWait, LeaveNoErrorOfTheRuntimeBehind) {
  machine_.queue_work(0, 2);
  free(block_used_by({2}));
  machine_.set_pending_error(kNotReady);
  frees_.process_events(kNoContext);
  EXPECT_EQ(driver_.take_pending_error(0), kSuccess);
}

// [core 12.6]
TEST_F(FreesThatWait, OfOnePoolAreWaitedForAlone) {
  PrivatePool pool({1, 0});
  Block* const other = block_used_by({2});
  Block* const block = block_used_by({2}, &pool.small);
  machine_.queue_work(0, 2);
  free(other);
  free(block);
  frees_.synchronize_and_free_events(kNoContext, kOwn, &pool);
  EXPECT_EQ(completed_, Blocks{block});
  frees_.synchronize_and_free_events(kNoContext, kOwn, nullptr);
  EXPECT_EQ(completed_, (Blocks{block, other}));
}

TEST_F(FreesThatWait, AreNotWaitedForDuringACapture) {
  machine_.queue_work(0, 2);
  free(block_used_by({2}));
  begin_capture(kOwn);
  EXPECT_THROW(frees_.synchronize_and_free_events(kNoContext, kOwn, nullptr), Error);
  EXPECT_EQ(completed_, Blocks());
}

TEST_F(FreesThatWait, AreNotLostWhereTheDriverRefusesAnEvent) {
  Block* const block = block_used_by({2, 3});
  machine_.queue_work(0, 2);
  fail(SimCall::kEventRecord, 1);
  EXPECT_THROW(free(block), Error);
  EXPECT_EQ(frees_.deferred_blocks(), std::set<const Block*>{block});
  frees_.process_events(kNoContext);
  EXPECT_FALSE(frees_.has_deferred());
  EXPECT_EQ(completed_, Blocks()) << "the event that was recorded first has not come";
  machine_.finish_device(0);
  frees_.process_events(kNoContext);
  EXPECT_EQ(completed_, Blocks{block});
}

TEST_F(FreesThatWait, LeaveNoEventAtTheEnd) {
  machine_.queue_work(0, 2);
  free(block_used_by({2}));
  free(block_used_by({3}));
  frees_.process_events(kNoContext);
  calls();
  frees_.destroy_events();
  EXPECT_EQ(calls(), "event_sync 2\nevent_destroy\nevent_destroy\n");
}

// ---- Captures [core 18]

// [core 18.1, 18.3]
TEST_F(FreesThatWait, AreDeferredDuringACapture) {
  begin_capture(kOwn);
  machine_.fork_capture(0, kOwn, 2);
  Block* const block = block_used_by({2});
  free(block);
  EXPECT_TRUE(frees_.has_deferred());
  EXPECT_TRUE(parts_.flags.has(SlowPath::kPendingFrees));
  EXPECT_EQ(calls(), "");
  end_capture();
  frees_.process_events(kNoContext);
  EXPECT_EQ(completed_, Blocks{block}) << "the graph orders its use";
  EXPECT_TRUE(parts_.flags.none());
}

TEST_F(FreesThatWait, WaitForStreamsBesideTheCaptureThatTheReferenceForgets) {
  Block* const block = block_used_by({2});
  machine_.queue_work(0, 2);
  begin_capture(kOwn);
  frees_.record_use(block, 2, kOwn);
  free(block);
  end_capture();
  frees_.process_events(kNoContext);
  EXPECT_EQ(completed_, Blocks());
  EXPECT_NE(remarks_.find("U1"), std::string::npos) << remarks_;
  machine_.finish_device(0);
  frees_.process_events(kNoContext);
  EXPECT_EQ(completed_, Blocks{block});
}

// U2
TEST_F(FreesThatWait, RememberWhichUsesTheReferenceForgetsLater) {
  Block* const block = live_block();
  begin_capture(kOwn);
  frees_.record_use(block, 2, kOwn);
  end_capture();
  free(block);
  EXPECT_TRUE(parts_.flags.has(SlowPath::kStaleUses));
  frees_.forget_stale_uses(block);
  EXPECT_FALSE(parts_.flags.has(SlowPath::kStaleUses));
}

// R20
TEST_F(FreesThatWait, EndTheDeferralOfOnePool) {
  PrivatePool pool({1, 0});
  begin_capture(kOwn);
  Block* const other = block_used_by({kOwn});
  Block* const block = block_used_by({kOwn}, &pool.small);
  free(other);
  free(block);
  frees_.flush_deferred_frees(kNoContext, pool.id);
  EXPECT_EQ(completed_, Blocks{block});
  EXPECT_EQ(frees_.deferred_blocks(), std::set<const Block*>{other});
}

// [core 18.4]
TEST_F(FreesThatWait, CompleteWithinTheCaptureThatHasOrderedThem) {
  begin_capture(kOwn);
  machine_.add_node(0, kOwn);
  machine_.fork_capture(0, kOwn, 2);
  machine_.add_node(0, 2);
  Block* const block = block_used_by({2});
  free(block, true);
  machine_.add_node(0, kOwn);
  recover(kOwn);
  EXPECT_EQ(completed_, Blocks()) << "the other stream has not been joined";
  machine_.join_capture(0, kOwn, 2);
  machine_.add_node(0, kOwn);
  recover(kOwn);
  EXPECT_EQ(completed_, Blocks{block});
}

// U1
TEST_F(FreesThatWait, AreNotRecoveredWhileAStreamMayHaveWorkFromBeforeTheCapture) {
  Block* const block = block_used_by({2});
  machine_.queue_work(0, 2);
  begin_capture(kOwn);
  machine_.add_node(0, kOwn);
  machine_.fork_capture(0, kOwn, 2);
  machine_.add_node(0, 2);
  free(block, true);
  machine_.join_capture(0, kOwn, 2);
  machine_.add_node(0, kOwn);
  recover(kOwn);
  EXPECT_EQ(completed_, Blocks());
  EXPECT_NE(remarks_.find("U1"), std::string::npos) << remarks_;
  remarks_.clear();
  recover(kOwn);
  EXPECT_EQ(remarks_, "") << "one remark a block";
  end_capture();
  frees_.process_events(kNoContext);
  EXPECT_EQ(completed_, Blocks()) << "the work is still under way";
  machine_.finish_device(0);
  frees_.process_events(kNoContext);
  EXPECT_EQ(completed_, Blocks{block});
}

TEST_F(FreesThatWait, AreNotRecoveredWithoutTheirNodes) {
  begin_capture(kOwn);
  machine_.add_node(0, kOwn);
  free(block_used_by({kOwn}), false);
  machine_.add_node(0, kOwn);
  recover(kOwn);
  EXPECT_EQ(completed_, Blocks());
}

TEST_F(FreesThatWait, CannotBeRecoveredForAStreamWithoutARoute) {
  begin_capture(kOwn);
  machine_.add_node(0, kOwn);
  route_ = nullptr;
  EXPECT_THROW(recover(kOwn), Error);
}

// [core 18.1]
TEST_F(FreesThatWait, AreNotLostWhereTwoGraphsUseTheBlock) {
  begin_capture(kOwn);
  machine_.begin_capture(0, 2, 6);
  Block* const block = block_used_by({2});
  EXPECT_THROW(free(block, true), Error);
  EXPECT_EQ(frees_.deferred_blocks(), std::set<const Block*>{block});
}

// R21
TEST_F(FreesThatWait, WereNotRecoveredForAStreamThatIsStillCapturedWhenTheRoutingEnds) {
  begin_capture(kOwn);
  machine_.add_node(0, kOwn);
  recover(kOwn);
  EXPECT_NO_THROW(frees_.forget_captures_of({8, 0}));
  EXPECT_THROW(frees_.forget_captures_of(id_), Error);
  end_capture();
  EXPECT_NO_THROW(frees_.forget_captures_of(id_));
}

}  // namespace
}  // namespace cachalot
