// SPDX-License-Identifier: MIT OR Apache-2.0
// Checkpoints of private pools [core 19, R22, U12, U25].
#include <utility>

#include "sim_fixture.h"

namespace cachalot_test {
namespace {

constexpr cachalot_stream kOther = 0x10;
constexpr cachalot_pool_id kPool = SimAllocator::user_pool(1);

using Rows = std::vector<cachalot_checkpoint_row>;
using Addresses = std::vector<cachalot_address>;

struct Changes {
  Addresses freed;
  Addresses created;
};

class Checkpoint {
 public:
  explicit Checkpoint(SimAllocator& of, cachalot_pool_id pool = kPool) : of_(of) {
    of.ok(cachalot_checkpoint_take(of.get(), 0, pool, &checkpoint_, of.error()));
  }
  Checkpoint(SimAllocator& of, const Rows& rows) : of_(of) {
    of.ok(cachalot_checkpoint_create(kPool, &checkpoint_, of.error()));
    for (const cachalot_checkpoint_row& row : rows)
      of.ok(cachalot_checkpoint_add(checkpoint_, &row, of.error()));
  }
  ~Checkpoint() { cachalot_checkpoint_destroy(checkpoint_); }
  Checkpoint(const Checkpoint&) = delete;
  Checkpoint& operator=(const Checkpoint&) = delete;

  Rows rows() const {
    Rows rows(cachalot_checkpoint_row_count(checkpoint_));
    for (size_t i = 0; i < rows.size(); i++) {
      rows[i].struct_size = sizeof rows[i];
      of_.ok(cachalot_checkpoint_row_at(checkpoint_, i, &rows[i]));
    }
    return rows;
  }
  cachalot_status try_to_apply() const {
    return cachalot_checkpoint_apply(of_.get(), 0, checkpoint_, nullptr, of_.error());
  }
  Changes apply() const {
    cachalot_checkpoint_changes* changes = nullptr;
    of_.ok(cachalot_checkpoint_apply(of_.get(), 0, checkpoint_, &changes, of_.error()));
    Changes made;
    for (size_t i = 0; i < cachalot_checkpoint_freed_count(changes); i++)
      of_.ok(cachalot_checkpoint_freed_at(changes, i, &made.freed.emplace_back()));
    for (size_t i = 0; i < cachalot_checkpoint_created_count(changes); i++)
      of_.ok(cachalot_checkpoint_created_at(changes, i, &made.created.emplace_back()));
    cachalot_address none = 0;
    EXPECT_EQ(cachalot_checkpoint_freed_at(changes, made.freed.size(), &none),
              CACHALOT_ERROR_INVALID_ARGUMENT);
    cachalot_checkpoint_changes_destroy(changes);
    return made;
  }

 private:
  SimAllocator& of_;
  cachalot_checkpoint* checkpoint_ = nullptr;
};

// An allocator whose requests go to kPool.
class WithPool : public SimAllocator {
 public:
  explicit WithPool(const SimSetup& setup = {}) : SimAllocator(setup) { begin_pool(kPool); }
  ~WithPool() { leave_pool(kPool); }
};

TEST(Checkpoints, PutBackTheBlocksThatWereHandedOut) {
  for (const int32_t release : kReleases) {
    WithPool with(SimSetup{.release = release});
    const cachalot_address first = with.allocate(1000);
    const cachalot_address middle = with.allocate(2000);
    const cachalot_address last = with.allocate(3000);
    with.free(middle);
    const std::string before = with.layout(kPool);
    const Checkpoint checkpoint(with);
    with.free(last);
    const cachalot_address later = with.allocate(5000);
    const Changes changes = checkpoint.apply();
    EXPECT_EQ(with.layout(kPool), before);
    EXPECT_EQ(changes.freed, (Addresses{first, later}));
    EXPECT_EQ(changes.created, (Addresses{first, last}));
    for (const cachalot_address block : changes.created) with.free(block);
    EXPECT_EQ(with.layout(kPool), "0: free 2M");
  }
}

// [core 19.2]
TEST(Checkpoints, ShowInPeaksAndHistoryThatAllOfASegmentIsHandedOut) {
  WithPool with;
  with.free(with.allocate(1000));
  const cachalot_address block = with.allocate(600);
  const Checkpoint checkpoint(with);
  with.watch();
  checkpoint.apply();
  EXPECT_EQ(with.take_trace(),
            "free_requested 0 600; free_completed 0 600; alloc 0 1K; alloc 1K 2047K; "
            "free_requested 1K 2047K; free_completed 1K 2047K");
  EXPECT_EQ(with.stats().allocated_bytes.all.peak, 2 * int64_t{MiB});
  EXPECT_EQ(with.block(block).requested, 1 * KiB);
}

TEST(Checkpoints, PutBackAPoolThatHasMoreSegmentsNow) {
  WithPool with;
  const cachalot_address block = with.allocate(15 * MiB);
  const Checkpoint checkpoint(with);
  const cachalot_address later = with.allocate(30 * MiB);
  EXPECT_EQ(checkpoint.apply().freed, (Addresses{block, later}));
  EXPECT_EQ(with.stats().allocated_bytes.all.current, 16 * int64_t{MiB});
  EXPECT_EQ(with.reserved(), 46 * MiB);
}

// [core 19.3]
TEST(Checkpoints, PutBackAnExpandableSegmentThatHasGrown) {
  WithPool with(SimSetup{.config = "expandable_segments:True"});
  const cachalot_address block = with.allocate(2 * MiB);
  const Checkpoint checkpoint(with);
  EXPECT_EQ(checkpoint.rows().back().is_mapped, 0);
  with.free(block);
  with.free(with.allocate(32 * MiB));
  EXPECT_EQ(checkpoint.apply().created, Addresses{block});
  EXPECT_EQ(with.layout(kPool), "0: used 2M, free 38M");
}

TEST(Checkpoints, AreTakenOfMoreThanOnceAndInAnyOrder) {
  WithPool with;
  const Checkpoint empty(with);
  const cachalot_address first = with.allocate(1000);
  const Checkpoint one(with);
  const cachalot_address second = with.allocate(1000);
  const Checkpoint two(with);
  EXPECT_EQ(one.apply().created, Addresses{first});
  EXPECT_EQ(two.apply().created, (Addresses{first, second}));
  EXPECT_EQ(empty.apply().created, Addresses{});
  EXPECT_EQ(empty.apply().freed, Addresses{});
  EXPECT_EQ(two.apply().created, (Addresses{first, second}));
}

TEST(Checkpoints, PutBackSegmentsInTheOrderOfTheirRows) {
  WithPool with;
  const cachalot_address first = with.allocate(15 * MiB);
  const cachalot_address second = with.allocate(15 * MiB);
  Rows rows = Checkpoint(with).rows();
  ASSERT_EQ(rows.size(), 2U);
  std::swap(rows[0], rows[1]);
  EXPECT_EQ(Checkpoint(with, rows).apply().created, (Addresses{second, first}));
}

TEST(Checkpoints, OutliveTheirAllocator) {
  cachalot_checkpoint* checkpoint = nullptr;
  {
    WithPool with;
    with.allocate(1000);
    with.ok(cachalot_checkpoint_take(with.get(), 0, kPool, &checkpoint, with.error()));
  }
  cachalot_pool_id id = {};
  EXPECT_EQ(cachalot_checkpoint_pool(checkpoint, &id), CACHALOT_OK);
  EXPECT_EQ(id.second, 1U);
  EXPECT_EQ(cachalot_checkpoint_row_count(checkpoint), 2U);
  cachalot_checkpoint_destroy(checkpoint);
}

TEST(Checkpoints, CountForTheLabelAndTheTenantOfTheThreadThatAppliesThem) {
  WithPool with;
  cachalot_tenant_options options{};
  options.struct_size = sizeof options;
  cachalot_tenant* tenant = nullptr;
  with.ok(cachalot_tenant_create(with.get(), &options, &tenant, with.error()));
  with.allocate(1000);
  const Checkpoint checkpoint(with);
  with.ok(cachalot_tenant_begin(tenant, with.error()));
  const Addresses created = checkpoint.apply().created;
  with.ok(cachalot_tenant_end(tenant, with.error()));
  cachalot_tenant_stats stats{};
  stats.struct_size = sizeof stats;
  with.ok(cachalot_get_tenant_stats(tenant, 0, &stats, with.error()));
  EXPECT_EQ(stats.allocated_bytes.current, 1024);
  for (const cachalot_address block : created) with.free(block);
  with.ok(cachalot_tenant_destroy(tenant, with.error()));
}

// ---- What is refused

TEST(Checkpoints, AreNotTakenWhileABlockWaits) {
  WithPool with;
  const cachalot_address block = with.allocate(1000);
  with.queue_work(kOther);
  with.record_stream(block, kOther);
  with.free(block);
  cachalot_checkpoint* checkpoint = nullptr;
  const cachalot_status status =
      cachalot_checkpoint_take(with.get(), 0, kPool, &checkpoint, with.error());
  EXPECT_EQ(with.refused(status, CACHALOT_ERROR_INVALID_STATE),
            "Events should have synchronized when checkpointing block");
  EXPECT_EQ(checkpoint, nullptr);
}

TEST(Checkpoints, AreNotTakenOfWhatIsNoPool) {
  SimAllocator with;
  cachalot_checkpoint* checkpoint = nullptr;
  for (const int32_t device : {0, 7}) {
    const cachalot_status status =
        cachalot_checkpoint_take(with.get(), device, kPool, &checkpoint, with.error());
    EXPECT_EQ(status, CACHALOT_ERROR_INVALID_ARGUMENT) << with.error()->message;
  }
}

// R22
TEST(Checkpoints, OfAPoolWithoutUsersAreTakenAndNotPutBack) {
  SimAllocator with;
  with.begin_pool(kPool);
  const cachalot_address block = with.allocate(1000);
  with.leave_pool(kPool);
  const Checkpoint checkpoint(with);
  EXPECT_EQ(with.refused(checkpoint.try_to_apply(), CACHALOT_ERROR_INVALID_STATE),
            "Not expected to checkpoint freeable graph");
  with.free(block);
}

class RefusedCheckpoint : public testing::Test {
 protected:
  explicit RefusedCheckpoint(const SimSetup& setup = {}) : with(setup) {}

  // Nothing has changed, and the log says that the reference has done something.
  void expect_refused(const Checkpoint& checkpoint, cachalot_status status,
                      const std::string& text) {
    const std::string layout = with.layout();
    const cachalot_stats before = with.stats();
    with.take_log();
    with.watch();
    EXPECT_EQ(with.refused(checkpoint.try_to_apply(), status), text);
    EXPECT_EQ(with.take_trace(), "");
    EXPECT_EQ(with.layout(), layout);
    const cachalot_stats after = with.stats();
    EXPECT_EQ(after.allocation.all.allocated, before.allocation.all.allocated);
    EXPECT_EQ(
        with.take_log(),
        "differs from PyTorch: U25: left a pool as it was that cannot be put back as a whole");
  }

  WithPool with;
};

TEST_F(RefusedCheckpoint, WhereASegmentIsGone) {
  const cachalot_address gone = with.allocate(15 * MiB);
  const Checkpoint checkpoint(with);
  with.free(gone);
  with.leave_pool(kPool);
  with.empty_cache();
  with.begin_pool(kPool);
  with.give_addresses({100 * MiB});
  with.allocate(30 * MiB);
  expect_refused(checkpoint, CACHALOT_ERROR_INVALID_STATE, " could not find 0x700000000000");
}

// U12
TEST_F(RefusedCheckpoint, WhereABlockWaitsForAStream) {
  with.allocate(1000);
  const cachalot_address waiting = with.allocate(1000);
  const Checkpoint checkpoint(with);
  with.queue_work(kOther);
  with.record_stream(waiting, kOther);
  with.free(waiting);
  expect_refused(checkpoint, CACHALOT_ERROR_INVALID_STATE,
                 "the pool has 1024 bytes at 0x700000000000 that can be restored, and the "
                 "checkpoint needs 2097152");
  with.finish_work(kOther);
  with.allocate(1000);
  EXPECT_EQ(checkpoint.apply().created.size(), 2U);
}

TEST_F(RefusedCheckpoint, WhereABlockInUseWouldWaitForAStream) {
  with.allocate(1000);
  const cachalot_address used = with.allocate(1000);
  const Checkpoint checkpoint(with);
  with.record_stream(used, kOther);
  expect_refused(checkpoint, CACHALOT_ERROR_INVALID_STATE,
                 "the pool has 1024 bytes at 0x700000000000 that can be restored, and the "
                 "checkpoint needs 2097152");
}

class RefusedCheckpointOfPages : public RefusedCheckpoint {
 protected:
  // The checkpoint has 20 MiB: 2 in use, 18 free.
  RefusedCheckpointOfPages() : RefusedCheckpoint(SimSetup{.config = "expandable_segments:True"}) {
    with.allocate(2 * MiB);
  }

  // Frees a block that then waits for a stream.
  void let_wait(cachalot_address block) {
    with.queue_work(kOther);
    with.record_stream(block, kOther);
    with.free(block);
  }
  void expect_refused_as_misshapen(const Checkpoint& checkpoint) {
    expect_refused(checkpoint, CACHALOT_ERROR_INVALID_STATE,
                   "Invalid expandable segment structure during checkpoint restore");
  }
};

// [core 19.3]
TEST_F(RefusedCheckpointOfPages, WhereABlockWaitsBehindFreePagesThatCameLater) {
  const Checkpoint checkpoint(with);
  const cachalot_address room = with.allocate(38 * MiB);
  let_wait(with.allocate(20 * MiB));
  with.free(room);
  expect_refused_as_misshapen(checkpoint);
}

TEST_F(RefusedCheckpointOfPages, WhereFreePagesAreBehindABlockThatWaits) {
  const Checkpoint checkpoint(with);
  const cachalot_address room = with.allocate(18 * MiB);
  const cachalot_address waiting = with.allocate(20 * MiB);
  with.free(with.allocate(20 * MiB));
  let_wait(waiting);
  with.free(room);
  expect_refused_as_misshapen(checkpoint);
}

TEST_F(RefusedCheckpointOfPages, AndNoneWhereOneBlockThatWaitsIsAllThatCameLater) {
  const Checkpoint checkpoint(with);
  const cachalot_address room = with.allocate(18 * MiB);
  let_wait(with.allocate(20 * MiB));
  with.free(room);
  EXPECT_EQ(checkpoint.apply().created.size(), 1U);
}

// Rows that nobody has taken: no shape of them harms.
TEST_F(RefusedCheckpoint, OfForgedRows) {
  with.allocate(1000);
  with.allocate(15 * MiB);
  const Rows rows = Checkpoint(with).rows();
  ASSERT_EQ(rows.size(), 3U);
  const std::vector<void (*)(cachalot_checkpoint_row&)> forgeries = {
      [](cachalot_checkpoint_row& row) { row.size = 0; },
      [](cachalot_checkpoint_row& row) { row.size = UINT64_MAX; },
      [](cachalot_checkpoint_row& row) { row.size -= 1; },
      [](cachalot_checkpoint_row& row) { row.size += 512; },
      [](cachalot_checkpoint_row& row) { row.address += 512; },
      [](cachalot_checkpoint_row& row) { row.address = 1; },
      [](cachalot_checkpoint_row& row) { row.stream = 77; },
      [](cachalot_checkpoint_row& row) { row.segment = 9; },
  };
  for (size_t at = 0; at < rows.size(); at++) {
    for (size_t kind = 0; kind < forgeries.size(); kind++) {
      Rows forged = rows;
      forgeries[kind](forged[at]);
      const Checkpoint checkpoint(with, forged);
      const std::string before = with.layout();
      const cachalot_status status = checkpoint.try_to_apply();
      // A row that moves to a segment of its own, or ends it, may leave one that is right.
      if (status == CACHALOT_OK) continue;
      EXPECT_TRUE(status == CACHALOT_ERROR_INVALID_ARGUMENT ||
                  status == CACHALOT_ERROR_INVALID_STATE);
      EXPECT_EQ(with.layout(), before) << "row " << at << ", forgery " << kind;
    }
  }
}

TEST_F(RefusedCheckpoint, OfOneSegmentTwice) {
  with.allocate(1000);
  Rows rows = Checkpoint(with).rows();
  const size_t count = rows.size();
  for (size_t i = 0; i < count; i++) {
    rows.push_back(rows[i]);
    rows.back().segment = 1;
  }
  expect_refused(Checkpoint(with, rows), CACHALOT_ERROR_INVALID_ARGUMENT,
                 "the checkpoint has the segment at 0x700000000000 twice");
}

TEST(Checkpoints, AreNotPutBackUnderTheServingPolicy) {
  WithPool with(SimSetup{.policy = {.struct_size = 0, .policy = CACHALOT_POLICY_SERVING}});
  with.allocate(1000);
  const Checkpoint checkpoint(with);
  EXPECT_EQ(with.refused(checkpoint.try_to_apply(), CACHALOT_ERROR_NOT_SUPPORTED),
            "checkpoints are not restored under the serving policy");
}

TEST(Checkpoints, NeedRowsThatSayTheirSize) {
  cachalot_checkpoint* checkpoint = nullptr;
  ASSERT_EQ(cachalot_checkpoint_create(kPool, &checkpoint, nullptr), CACHALOT_OK);
  const cachalot_checkpoint_row row{};
  EXPECT_EQ(cachalot_checkpoint_add(checkpoint, &row, nullptr), CACHALOT_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(cachalot_checkpoint_add(checkpoint, nullptr, nullptr), CACHALOT_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(cachalot_checkpoint_row_count(checkpoint), 0U);
  cachalot_checkpoint_destroy(checkpoint);
  EXPECT_EQ(cachalot_checkpoint_row_count(nullptr), 0U);
}

}  // namespace
}  // namespace cachalot_test
