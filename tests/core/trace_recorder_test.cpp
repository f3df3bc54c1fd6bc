// SPDX-License-Identifier: MIT OR Apache-2.0
#include "alloc/trace/trace_recorder.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

namespace cachalot {
namespace {

class HistoryOfADevice : public testing::Test {
 protected:
  void keep(uint64_t entries, ContextLevel context = ContextLevel::kNever,
            uint32_t skipped_actions = 0) {
    HistoryOptions options;
    options.enabled = true;
    options.max_entries = entries;
    options.context = context;
    recorder_.set_options(options, skipped_actions);
  }
  void record(Action action, Address address) { recorder_.record(action, address, 512, 0, {}, 7); }
  std::vector<Address> kept() const {
    std::vector<Address> addresses;
    for (const TraceEntry& entry : recorder_.entries()) addresses.push_back(entry.address);
    return addresses;
  }
  void observe(TraceObserver observer) {
    auto observers = std::make_shared<ObserverSet>();
    observers->trace.emplace(1, std::move(observer));
    recorder_.set_observers(std::move(observers));
  }

  SlowPathFlags flags_;
  ContextSource contexts_;
  Rules rules_;
  TraceRecorder recorder_{contexts_, rules_, 3, flags_};
};

TEST_F(HistoryOfADevice, SetsItsFlagWhileItRecordsOrIsObserved) {
  EXPECT_FALSE(flags_.has(SlowPath::kTracing));
  keep(10);
  EXPECT_TRUE(flags_.has(SlowPath::kTracing));
  recorder_.set_options({}, 0);
  EXPECT_FALSE(flags_.has(SlowPath::kTracing));
  observe([](const TraceEntry&) {});
  EXPECT_TRUE(flags_.has(SlowPath::kTracing));
  recorder_.set_observers(std::make_shared<ObserverSet>());
  EXPECT_FALSE(flags_.has(SlowPath::kTracing));
}

// [core 22.1]
TEST_F(HistoryOfADevice, KeepsTheLastEntries) {
  keep(2);
  for (Address address : {1, 2, 3}) record(Action::kAlloc, address);
  EXPECT_EQ(kept(), (std::vector<Address>{2, 3}));
  EXPECT_EQ(recorder_.entries().front().device, 3);
}

TEST_F(HistoryOfADevice, IsEmptyOnceItIsOff) {
  keep(2);
  record(Action::kAlloc, 1);
  recorder_.set_options({}, 0);
  EXPECT_TRUE(kept().empty());
}

// [core 22.3]
TEST_F(HistoryOfADevice, LeavesActionsOutThatObserversStillSee) {
  std::vector<Action> seen;
  observe([&](const TraceEntry& entry) { seen.push_back(entry.action); });
  keep(10, ContextLevel::kNever, uint32_t{1} << static_cast<int>(Action::kFreeRequested));
  record(Action::kAlloc, 1);
  recorder_.record_free(1, 512, 0, {});
  EXPECT_EQ(seen,
            (std::vector<Action>{Action::kAlloc, Action::kFreeRequested, Action::kFreeCompleted}));
  EXPECT_EQ(recorder_.entries().size(), 2u);
}

TEST_F(HistoryOfADevice, AsksForContextsFromItsLevelOn) {
  contexts_.capture = [] { return ContextId{7}; };
  EXPECT_EQ(recorder_.capture_context(ContextLevel::kState), kNoContext);
  keep(10, ContextLevel::kState);
  EXPECT_EQ(recorder_.capture_context(ContextLevel::kState), 7u);
  EXPECT_EQ(recorder_.capture_context(ContextLevel::kAlloc), kNoContext);
  record(Action::kAlloc, 1);
  EXPECT_EQ(recorder_.entries().front().context, kNoContext) << "entries have none below alloc";
  keep(10, ContextLevel::kAlloc);
  record(Action::kAlloc, 2);
  EXPECT_EQ(recorder_.entries().back().context, 7u);
}

TEST_F(HistoryOfADevice, LosesWhatAnObserverThrows) {
  observe([](const TraceEntry&) { throw 1; });
  keep(10);
  EXPECT_NO_THROW(record(Action::kAlloc, 1));
  EXPECT_TRUE(kept().empty());
}

}  // namespace
}  // namespace cachalot
