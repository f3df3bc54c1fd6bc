// SPDX-License-Identifier: MIT OR Apache-2.0
#include "alloc/native/auditor.h"

#include <map>
#include <set>

#include "base/text.h"

namespace cachalot {
namespace {

// The values that the counters should have, computed from the blocks [stats 3.4].
struct Sums {
  int64_t allocation[2] = {}, allocated_bytes[2] = {}, active[2] = {}, active_bytes[2] = {},
          requested[2] = {};
  int64_t inactive_split[2] = {}, inactive_split_bytes[2] = {}, segments[2] = {}, reserved[2] = {};
};

// Both size classes and their sum, since each is counted by itself.
std::string compare(const char* name, const StatArray& stat, const int64_t expected[2]) {
  const int64_t all = expected[0] + expected[1];
  if (stat.small_pool.current == expected[0] && stat.large_pool.current == expected[1] &&
      stat.all.current == all) {
    return "";
  }
  return format("%s is %lld + %lld = %lld where the blocks say %lld + %lld", name,
                static_cast<long long>(stat.small_pool.current),
                static_cast<long long>(stat.large_pool.current),
                static_cast<long long>(stat.all.current), static_cast<long long>(expected[0]),
                static_cast<long long>(expected[1]));
}

// No peak can be computed from the blocks; it can only be too small.
std::string check_stat(const char* name, const Stat& stat) {
  if (stat.peak >= stat.current) return "";
  return format("the peak of %s is below its current value", name);
}

// The same rules by which the calls count, written a second time on purpose: the auditor must not
// share an error with them.
void add(const Block& block, int kind, Sums* sums) {
  const auto size = static_cast<int64_t>(block.size);
  if (block.is(Block::kUsed)) {
    sums->allocation[kind]++;
    sums->allocated_bytes[kind] += size;
  }
  if (!block.is_free() && !block.is(Block::kUnmapped)) {
    sums->active[kind]++;
    sums->active_bytes[kind] += size;
    sums->requested[kind] += static_cast<int64_t>(block.requested);
  } else if (!block.is(Block::kExpandable) && block.is_split()) {
    sums->inactive_split[kind]++;
    sums->inactive_split_bytes[kind] += size;
  }
  if (!block.is(Block::kUnmapped)) sums->reserved[kind] += size;
}

}  // namespace

// The invariants of block.h, one block after the other from the segment's begin.
std::string Auditor::check_segment(const Segment& segment) {
  Address expected = segment.address;
  uint64_t mapped = 0;
  const Block* before = &segment.ends;
  for (Block* b = segment.first(); b != &segment.ends; before = b, b = b->next) {
    const std::string at = "block " + hex_address(b->address);
    if (b->address != expected) return at + " does not begin where the one before it ends";
    if (b->prev != before) return at + " does not lead back to its neighbour";
    if (b->segment() != &segment) return at + " names another segment";
    if (b->size == 0) return at + " is empty";
    const StreamFreeList& list = list_of(b);
    if (list.pool != segment.pool || list.stream != segment.stream)
      return at + " is on another pool's list";
    if (b->is(Block::kUsed) && b->is(Block::kWaiting)) return at + " is both used and waiting";
    if (b->is(Block::kUsed) &&
        device_.shared.addresses.find(b->address) != BlockArena::number_of(b))
      return at + " cannot be found";
    if (b->is(Block::kExpandable) != segment.is_expandable())
      return at + " is not of its segment's kind";
    // Two free neighbours can lie side by side only if one is mapped and the other is not.
    const bool same_state = b->is(Block::kUnmapped) == before->is(Block::kUnmapped);
    if (before != &segment.ends && b->is_free() && before->is_free() && same_state)
      return at + " was not merged";
    if (b->is(Block::kUnmapped) && b->is_free() != segment.pool->unmapped.contains(b))
      return at + " is a hole outside of the unmapped set, or waits in it";
    if (!b->is(Block::kUnmapped)) mapped += b->size;
    expected += b->size;
  }
  const std::string name = "segment " + hex_address(segment.address);
  if (expected != segment.address + segment.size) return name + " is not covered by its blocks";
  if (segment.is_expandable() && mapped != segment.pages->mapped_bytes())
    return name + " has other pages mapped";
  return "";
}

// Each free set holds exactly the free blocks of its pool and stream, and the walk through it
// agrees with its bins.
std::string Auditor::check_free_sets() {
  struct Expected {
    uint64_t count, bytes, segments;
  };
  std::map<const StreamFreeList*, Expected> expected;
  for (const auto& [address, segment] : device_.heap.segments()) {
    Expected& of_list = expected[segment->list];
    of_list.segments++;
    for (const Block* b = segment->first(); b != &segment->ends; b = b->next) {
      if (!b->is_free() || b->is(Block::kUnmapped)) continue;
      of_list.count++;
      of_list.bytes += b->size;
    }
  }
  std::string found;
  device_.for_each_list([&](const StreamFreeList& list) {
    uint64_t count = 0;
    uint64_t bytes = 0;
    const std::string name =
        format("the free set of stream %llu", static_cast<unsigned long long>(list.stream));
    const Expected& of_list = expected[&list];
    if (!list.free.is_consistent(&count, &bytes)) found = name + " is out of order";
    if (count != of_list.count || bytes != of_list.bytes)
      found = name + " does not hold the free blocks";
    if (list.segments != of_list.segments) found = name + " counts other segments";
    if (list.entry->stream != list.stream) found = name + " is at another stream's entry";
  });
  return found;
}

// Statistics are compared as callers read them: the sums over all accounts.
std::string Auditor::check_counters() {
  Sums expected;
  uint64_t obtained = 0;
  for (const auto& [address, segment] : device_.heap.segments()) {
    const int kind = segment->pool->is_small ? 0 : 1;
    if (!segment->is_expandable()) expected.segments[kind]++;
    for (const Block* b = segment->first(); b != &segment->ends; b = b->next)
      add(*b, kind, &expected);
  }
  obtained = static_cast<uint64_t>(expected.reserved[0] + expected.reserved[1]);
  if (obtained != device_.stats.reserved())
    return "the total of obtained bytes is not the sum of the segments";
  Stats stats = device_.stats.stats();
  device_.shards.write(&stats);
  if (std::string found = device_.shards.check_limits(); !found.empty()) return found;
  const struct {
    const char* name;
    const StatArray& stat;
    const int64_t* expected;
  } rows[] = {
      {"allocation", stats.allocation, expected.allocation},
      {"segment", stats.segment, expected.segments},
      {"active", stats.active, expected.active},
      {"inactive_split", stats.inactive_split, expected.inactive_split},
      {"allocated_bytes", stats.allocated_bytes, expected.allocated_bytes},
      {"reserved_bytes", stats.reserved_bytes, expected.reserved},
      {"active_bytes", stats.active_bytes, expected.active_bytes},
      {"inactive_split_bytes", stats.inactive_split_bytes, expected.inactive_split_bytes},
      {"requested_bytes", stats.requested_bytes, expected.requested},
  };
  for (const auto& row : rows) {
    if (std::string found = compare(row.name, row.stat, row.expected); !found.empty()) return found;
    for (const Stat* stat : {&row.stat.all, &row.stat.small_pool, &row.stat.large_pool}) {
      if (std::string found = check_stat(row.name, *stat); !found.empty()) return found;
    }
  }
  return "";
}

// Each whole block is its segment, and the account of its pool adds up.
std::string Auditor::check_whole_blocks() {
  struct Bytes {
    uint64_t reserved, in_use;
  };
  std::map<const PrivatePool*, Bytes> expected;
  for (const auto& [address, segment] : device_.heap.segments()) {
    const Block* const b = segment->first();
    const std::string at = "block " + hex_address(b->address);
    if (b->is(Block::kWhole) != has_whole_blocks(*segment->pool))
      return at + " is of another pool's kind";
    if (!b->is(Block::kWhole)) continue;
    if (b->is_split()) return at + " is a piece of a whole block";
    Bytes& of_pool = expected[segment->pool->owner];
    of_pool.reserved += b->size;
    if (!b->is_free()) of_pool.in_use += driver_bytes(b->requested);
  }
  for (const auto& [id, pool] : device_.pools.all()) {
    if (!pool->whole) continue;
    const Bytes& of_pool = expected[pool.get()];
    if (pool->whole->reserved() != of_pool.reserved || pool->whole->in_use() != of_pool.in_use ||
        pool->whole->peak() < of_pool.in_use)
      return "the account of a pool with whole blocks is not the sum of its blocks";
  }
  return "";
}

// A block waits exactly while an event or a deferral knows it, and counts its events.
std::string Auditor::check_pending() {
  std::map<const Block*, uint32_t> events = device_.pending.queued_events();
  const std::set<const Block*> deferred = device_.pending.deferred_blocks();
  for (const auto& [address, segment] : device_.heap.segments()) {
    for (const Block* b = segment->first(); b != &segment->ends; b = b->next) {
      if (b->is(Block::kUnmapped)) continue;  // the policy knows what it waits for
      const bool waits = events.contains(b) || deferred.contains(b);
      if (b->is(Block::kWaiting) != waits)
        return "block " + hex_address(b->address) + " waits for nothing";
      if (b->is(Block::kWaiting) && b->detail().uses->events != events[b]) {
        return "block " + hex_address(b->address) + " counts other events than are queued";
      }
    }
  }
  return "";
}

// See Note [Pools that sleep]. That none of its blocks is handed out follows: a used block has pages.
std::string Auditor::check_sleeping() {
  for (const auto& [address, segment] : device_.heap.segments()) {
    const PrivatePool* const pool = segment->pool->owner;
    if (!pool || !pool->sleep || pool->sleep->state != SleepingPool::State::kAsleep) continue;
    const std::string of_pool = " of " + shown_pool_name(pool->id) + ", which sleeps";
    if (!segment->is_expandable())
      return "segment " + hex_address(address) + of_pool + ", is plain";
    if (segment->pages->mapped_bytes() != 0)
      return "segment " + hex_address(address) + of_pool + ", has pages";
  }
  return "";
}

// Segments first: the later steps walk through the blocks and rely on their links.
std::string Auditor::check() {
  for (const auto& [address, segment] : device_.heap.segments()) {
    if (std::string found = check_segment(*segment); !found.empty()) return found;
  }
  for (const auto step :
       {&Auditor::check_free_sets, &Auditor::check_counters, &Auditor::check_whole_blocks,
        &Auditor::check_pending, &Auditor::check_sleeping}) {
    if (std::string found = (this->*step)(); !found.empty()) return found;
  }
  if (device_.policy) {
    if (std::string found = device_.policy->check(); !found.empty()) return found;
  }
  return device_.owners.check_tenants(device_.heap);
}

std::string Auditor::check_red_zones() {
  for (const auto& [address, segment] : device_.heap.segments()) {
    MemoryWatch* const watch = device_.watch_of(*segment->pool);
    if (!watch) continue;
    for (const Block* b = segment->first(); b != &segment->ends; b = b->next) {
      if (!b->is(Block::kUsed)) continue;
      if (std::string found = watch->damage(b, device_.assumed_caller(b)); !found.empty())
        return found;
    }
  }
  return "";
}

}  // namespace cachalot
