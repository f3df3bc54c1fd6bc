// SPDX-License-Identifier: MIT OR Apache-2.0
#include "alloc/shards/stream_table.h"

#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "../test_seed.h"
#include "alloc/shards/shard.h"

namespace cachalot {
namespace {

class Streams : public testing::Test {
 protected:
  // As the device does: an entry that no stream needs, or a new one.
  StreamEntry* enter(Stream stream) {
    StreamEntry* entry = table_.find_vacant();
    if (entry) {
      const std::lock_guard guard(entry->shard->lock);
      table_.give(entry, stream);
    } else {
      entry = table_.add(&shard_, stream);
    }
    entry->lists = 1;
    return entry;
  }
  void leave(StreamEntry* entry) {
    entry->lists = 0;
    table_.note_vacancy(entry);
  }

  Shard shard_{nullptr};
  StreamTable table_;
};

TEST_F(Streams, AreFoundByTheirHandles) {
  EXPECT_EQ(table_.find(0), nullptr);
  std::map<Stream, StreamEntry*> expected;
  for (Stream i = 0; i < 5000; i++) {
    const Stream stream = i % 2 == 0 ? i : 0x7f0000000000 + i * 4096;
    expected[stream] = enter(stream);
  }
  for (const auto& [stream, entry] : expected) ASSERT_EQ(table_.find(stream), entry);
  EXPECT_EQ(table_.find(1), nullptr);
}

TEST_F(Streams, ThatHaveNoMemoryLeaveTheirEntriesToLaterOnes) {
  StreamEntry* const first = enter(1);
  leave(first);
  EXPECT_EQ(table_.find(1), first) << "until another stream needs it";
  EXPECT_EQ(enter(2), first);
  EXPECT_EQ(table_.find(1), nullptr);
  EXPECT_EQ(table_.find(2), first);
}

TEST_F(Streams, ThatComeBackKeepTheirEntries) {
  StreamEntry* const first = enter(1);
  leave(first);
  table_.find(1)->lists = 1;  // the stream obtains memory again
  EXPECT_NE(enter(2), first);
  EXPECT_EQ(table_.find(1), first);
}

TEST_F(Streams, WithARequestUnderWayKeepTheirEntries) {
  StreamEntry* const first = enter(1);
  first->requests_under_way = 1;
  leave(first);
  EXPECT_NE(enter(2), first);
}

TEST_F(Streams, TakeNoMoreMemoryWhenTheyChange) {
  for (Stream i = 0; i < 1000; i++) leave(enter(i));
  const uint64_t bytes = table_.bytes();
  for (Stream i = 0; i < 1000000; i++) leave(enter(i));
  EXPECT_EQ(table_.bytes(), bytes);
}

TEST_F(Streams, TakeMemoryForTheMostThatThereWereAtATime) {
  std::vector<StreamEntry*> entries;
  for (Stream i = 0; i < 100000; i++) entries.push_back(enter(i));
  EXPECT_LE(table_.bytes(), 100000 * 128u);
  for (StreamEntry* entry : entries) leave(entry);
  const uint64_t bytes = table_.bytes();
  for (Stream i = 0; i < 100000; i++) enter(1000000 + i);
  EXPECT_EQ(table_.find(1000000 + 99999)->stream, 1000000u + 99999);
  EXPECT_LE(table_.bytes(), 2 * bytes) << "two tables, which take turns";
}

// A reader finds the entry of a stream that stays, or nothing while the table is made anew.
TEST_F(Streams, AreFoundByThreadsWhileOthersChange) {
  StreamEntry* const lasting = enter(7);
  std::atomic<bool> is_over{false};
  std::atomic<uint64_t> wrong{0};
  std::vector<std::thread> readers;
  for (int i = 0; i < 3; i++) {
    readers.emplace_back([&] {
      while (!is_over) {
        const StreamEntry* found = table_.find(7);
        if (found && found != lasting) wrong++;
      }
    });
  }
  Random random(test_seed());
  std::vector<StreamEntry*> entries;
  for (Stream i = 0; i < 50000; i++) {
    entries.push_back(enter(100 + i));
    while (entries.size() > random.below(200)) {
      leave(entries.back());
      entries.pop_back();
    }
  }
  is_over = true;
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(wrong, 0u);
  EXPECT_EQ(table_.find(7), lasting);
}

}  // namespace
}  // namespace cachalot
