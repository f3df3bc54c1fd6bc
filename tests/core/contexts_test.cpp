// SPDX-License-Identifier: MIT OR Apache-2.0
#include "alloc/trace/contexts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"

namespace cachalot {
namespace {

TEST(Labels, AreNoneAtFirst) {
  EXPECT_EQ(current_labels(), nullptr);
  EXPECT_FALSE(pop_label());
}

TEST(Labels, AreJoinedFromTheOutermostOn) {
  push_label("model-a");
  push_label("kv-cache");
  EXPECT_EQ(*current_labels(), "model-a/kv-cache");
  EXPECT_TRUE(pop_label());
  EXPECT_EQ(*current_labels(), "model-a");
  EXPECT_TRUE(pop_label());
  EXPECT_EQ(current_labels(), nullptr);
}

TEST(Labels, AreTheSameObjectUntilTheNextChange) {
  push_label("outer");
  const auto outer = current_labels();
  EXPECT_EQ(current_labels().get(), outer.get());
  push_label("inner");
  EXPECT_NE(current_labels().get(), outer.get());
  pop_label();
  EXPECT_EQ(current_labels().get(), outer.get());
  pop_label();
}

TEST(Labels, AreNotEmpty) { EXPECT_THROW(push_label(""), Error); }

TEST(Labels, BelongToTheirThread) {
  push_label("main");
  std::thread([] {
    EXPECT_EQ(current_labels(), nullptr);
    push_label("other");
    EXPECT_EQ(*current_labels(), "other");
  }).join();
  EXPECT_EQ(*current_labels(), "main");
  pop_label();
}

TEST(Metadata, IsATextOfTheThreadUntilItIsTakenAway) {
  EXPECT_EQ(current_metadata(), nullptr);
  set_metadata("step 7");
  EXPECT_EQ(*current_metadata(), "step 7");
  std::thread([] { EXPECT_EQ(current_metadata(), nullptr); }).join();
  set_metadata("");
  EXPECT_EQ(current_metadata(), nullptr);
  set_metadata("step 8");
  set_metadata(nullptr);
  EXPECT_EQ(current_metadata(), nullptr);
}

// Made before the thread's texts, so it goes after them.
struct UsesTextsAtTheEnd {
  ~UsesTextsAtTheEnd() {
    EXPECT_EQ(current_labels(), nullptr);
    EXPECT_EQ(current_metadata(), nullptr);
    push_label("late");
    set_metadata("late");
    EXPECT_EQ(current_labels(), nullptr);
    EXPECT_EQ(current_metadata(), nullptr);
    EXPECT_FALSE(pop_label());
  }
};

TEST(ThreadTexts, CanBeAskedForWhileTheThreadEnds) {
  std::thread([] {
    thread_local UsesTextsAtTheEnd user;
    [[maybe_unused]] UsesTextsAtTheEnd* const made = &user;
    push_label("label");
    set_metadata("text");
  }).join();
}

TEST(LabelContexts, AreNoneWithoutLabels) { EXPECT_EQ(label_contexts().capture(), kNoContext); }

TEST(LabelContexts, GiveEqualLabelsTheSameNumber) {
  const ContextSource source = label_contexts();
  push_label("model-a");
  const ContextId outer = source.capture();
  push_label("kv-cache");
  const ContextId inner = source.capture();
  pop_label();
  EXPECT_EQ(source.capture(), outer);
  pop_label();
  push_label("model-a/kv-cache");
  EXPECT_EQ(source.capture(), inner);
  pop_label();
  EXPECT_NE(outer, inner);
  EXPECT_EQ(source.describe(outer), "model-a");
  EXPECT_EQ(source.describe(inner), "kv-cache\nmodel-a");
}

TEST(LabelContexts, DescribeUnknownNumbersAsNothing) {
  const ContextSource source = label_contexts();
  EXPECT_EQ(source.describe(kNoContext), "");
  EXPECT_EQ(source.describe(1), "");
  EXPECT_EQ(source.describe(UINT64_MAX), "");
}

[[gnu::noinline]] ContextId capture_deeper(const ContextSource& source, int depth) {
  const ContextId id = depth == 0 ? source.capture() : capture_deeper(source, depth - 1);
  asm volatile("" : : "r"(id));  // keeps the call from becoming a jump
  return id;
}

TEST(StackContexts, GiveEqualStacksTheSameNumber) {
  const ContextSource source = stack_contexts();
  std::vector<ContextId> ids;
  for (int i = 0; i < 4; ++i) ids.push_back(capture_deeper(source, 3));
  EXPECT_NE(ids[0], kNoContext);
  EXPECT_EQ(std::count(ids.begin(), ids.end(), ids[0]), 4);
  EXPECT_NE(capture_deeper(source, 2), ids[0]);
}

TEST(StackContexts, DescribeOneFrameALine) {
  const ContextSource source = stack_contexts();
  const std::string shallow = source.describe(capture_deeper(source, 1));
  const std::string deep = source.describe(capture_deeper(source, 6));
  const auto lines = [](const std::string& text) {
    return std::count(text.begin(), text.end(), '\n') + 1;
  };
  EXPECT_EQ(lines(deep), lines(shallow) + 5);
  EXPECT_NE(shallow.find("+0x"), std::string::npos);
  EXPECT_NE(shallow.back(), '\n');
}

TEST(StackContexts, AreCutAtADepthThatIsNeverReachedInEarnest) {
  const ContextSource source = stack_contexts();
  const std::string text = source.describe(capture_deeper(source, 1000));
  EXPECT_LT(std::count(text.begin(), text.end(), '\n'), 128);
}

TEST(StackContexts, DescribeUnknownNumbersAsNothing) {
  const ContextSource source = stack_contexts();
  EXPECT_EQ(source.describe(kNoContext), "");
  EXPECT_EQ(source.describe(7), "");
}

TEST(StackContexts, CanBeCapturedByManyThreads) {
  const ContextSource source = stack_contexts();
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&source] {
      for (int depth = 0; depth < 200; ++depth)
        EXPECT_NE(source.describe(capture_deeper(source, depth % 20)), "");
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace cachalot
