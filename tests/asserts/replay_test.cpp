// SPDX-License-Identifier: MIT OR Apache-2.0
// Faults in the use of core/replay are found.
#include "replay/replay.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "replay/block_linker.h"
#include "replay/event_comparison.h"
#include "replay/event_line.h"
#include "replay/live_blocks.h"
#include "replay/program.h"
#include "replay/stream_choice.h"
#include "replay/trace_file.h"

namespace cachalot {
namespace {

struct NoTarget {
  void obtained(const TraceEvent&) {}
  void allocate(const TraceEvent&) {}
  void fail_to_allocate(const TraceEvent&) {}
  void free(const TraceEvent&) {}
  void free_late(const TraceEvent&, Stream) {}
  void free_on(const TraceEvent&, Stream) {}
  void finish(const TraceEvent&, Stream) {}
  void release_pool(const TraceEvent&) {}
  void empty_cache(int, PoolId) {}
  void end_context(int) {}
};

TEST(ReplayDeathTest, FindsABlockThatIsLiveAlready) {
  LiveBlocks blocks;
  blocks.insert({.address = 512});
  EXPECT_DEATH(blocks.insert({.address = 512}), "find.block.address, block.device. == nullptr");
  EXPECT_DEATH(blocks.insert({.address = 0}), "block.address != 0");
}

TEST(ReplayDeathTest, FindsABlockThatIsErasedTwice) {
  LiveBlocks blocks;
  blocks.insert({.address = 512});
  LiveBlock* const block = blocks.find(512, 0);
  blocks.erase(block);
  EXPECT_DEATH(blocks.erase(block), "block->address != 0");
  LiveBlock foreign{.address = 512};
  EXPECT_DEATH(blocks.erase(&foreign), "places_.data");
}

TEST(ReplayDeathTest, FindsAnEventOfADeviceThatNoTraceHas) {
  BlockLinker linker;
  TraceEvent event{};
  event.device = kMaxTraceDevices;
  EXPECT_DEATH(linker.link(&event, 0), "event->device < kMaxTraceDevices");
}

TEST(ReplayDeathTest, FindsATraceWithAFlaw) {
  Trace trace;
  trace.flaw = "line 2: 0x200 is freed but is not live";
  NoTarget target;
  EXPECT_DEATH(Program<NoTarget>(trace, false, &target), "trace.flaw.empty");
}

TEST(ReplayDeathTest, FindsRangesThatDoNotFollowEachOther) {
  Trace trace;
  trace.events.resize(2);
  NoTarget target;
  Program<NoTarget> program(trace, false, &target);
  EXPECT_DEATH(program.run(1, 2), "begin == at_");
  EXPECT_DEATH(program.run(0, 3), "end <= trace_.events.size");
}

TEST(ReplayDeathTest, FindsOptionsThatWereNotResolved) {
  const Trace trace;
  EXPECT_DEATH(replay_device_options(trace, {}), "options.is_resolved");
  EXPECT_DEATH(replay_allocator_options({}, nullptr), "options.is_resolved");
}

TEST(ReplayDeathTest, FindsAReaderThatGivesMoreThanThereIsRoomFor) {
  const auto read = [](char*, size_t capacity) { return capacity + 1; };
  EXPECT_DEATH(read_trace(read), "count <= kBufferSize - held_");
}

TEST(ReplayDeathTest, FindsAFreeThatIsCompletedWithNoneBeforeIt) {
  std::vector<LateFree> frees{{.requested = 1, .completed = 2, .is_with_previous = true}};
  EXPECT_DEATH(choose_streams(&frees), "!late.is_with_previous");
}

TEST(ReplayDeathTest, FindsAnAllocatorOverAnotherDevice) {
  const Trace trace;
  const ReplayOptions options = resolve(trace, {}, Release::k2_15);
  const auto device = std::make_shared<ReplayDevice>(replay_device_options(trace, options));
  const auto other = std::make_shared<ReplayDevice>(replay_device_options(trace, options));
  Allocator allocator(replay_allocator_options(options, device));
  EXPECT_DEATH(replay(trace, options, &allocator, other.get()), "&allocator->driver.. == device");
}

TEST(ReplayDeathTest, FindsAnAllocatorThatIsInUse) {
  const Trace trace;
  const ReplayOptions options = resolve(trace, {}, Release::k2_15);
  const auto device = std::make_shared<ReplayDevice>(replay_device_options(trace, options));
  Allocator allocator(replay_allocator_options(options, device));
  const Address block = allocator.allocate(512, 0, 0);
  EXPECT_DEATH(replay(trace, options, &allocator, device.get()), "live_blocks.. == 0");
  allocator.free(block);
}

TEST(ReplayDeathTest, FindsAnEntryOfADeviceThatTheTraceHasNot) {
  const Trace trace;
  EventComparison comparison(trace);
  TraceEntry entry{};
  entry.device = 1;
  EXPECT_DEATH(comparison.see(entry), "entry.device < trace_.device_count");
}

TEST(ReplayDeathTest, FindsAnActionAndAPoolThatThereAreNot) {
  EXPECT_DEATH(action_letter(static_cast<Action>(kRecordedActionCount)), "kLetters.size");
  const Trace trace;
  TraceEvent event{};
  event.pool = 1;
  EXPECT_DEATH(trace.pool_of(event), "event.pool < pools.size");
}

}  // namespace
}  // namespace cachalot
