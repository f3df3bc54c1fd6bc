// SPDX-License-Identifier: MIT OR Apache-2.0
// All locks of the library, in the one order in which threads take them, and the check of it.
//
// Note [Lock order]
// Rationale: threads that take the same locks in different orders end up waiting for each other. Such
// a fault shows once in a million runs; an order that is written down can be checked in every run.
// Approach: each lock has a rank. A thread waits for a lock only while all that it holds have lower
// ranks. Locks of one rank, such as those of two shards, are never held together.
//   - try_lock() does not wait, so it may come in any order. What it takes counts as held.
//   - A lock that others pass over instead of waiting for it (set_passed_over) restricts its holder
//     in nothing.
//   - A caller's function (a custom driver's, an observer) may run under locks of its allocator and
//     call another allocator. So the order holds within one call of the library (LockScope). Waiting
//     for a lock that the thread itself holds is found across calls.
// Builds with assertions (assert.h) check all this; in others the classes here are empty.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/assert.h"

namespace cachalot {

// RANK(name, text), the first to be taken on top.
#define CACHALOT_LOCK_RANKS(RANK)                                                                 \
  RANK(kFreedBlocks, "freed blocks")       /* of a served program */                              \
  RANK(kSettings, "settings")              /* of an allocator: options that are changed */        \
  RANK(kRecorders, "recorders")            /* of an allocator: which there are */                 \
  RANK(kObservers, "observers")            /* of an allocator: what callers have attached */      \
  RANK(kOpenedBlocks, "opened blocks")     /* of an allocator: those with lifetimes */            \
  RANK(kSharedBlocks, "shared blocks")     /* of an allocator, and who has them open */           \
  RANK(kAsyncBackend, "async backend")     /* all of backend:cudaMallocAsync */                   \
  RANK(kUncachedBlocks, "uncached blocks") /* blocks of requests while caching is off */          \
  RANK(kOpenedMemory, "opened memory")     /* of other processes */                               \
  RANK(kDevice, "device")              /* what its shards do not guard (alloc/shards/shard.h) */  \
  RANK(kRecall, "recall")              /* of headroom; the device's list of shards */             \
  RANK(kShard, "shard")                /* the blocks of some streams */                           \
  RANK(kAccountOrder, "account order") /* the shared account (alloc/stats/shared_account.h) */    \
  RANK(kTenantList, "tenant list")     /* which tenants there are */                              \
  RANK(kTenantBook, "tenant book")     /* what the tenants of a device have */                    \
  RANK(kHandleTypes, "handle types")   /* which kind of page handles a device gives */            \
  RANK(kReserves, "reserve classes")   /* of streams */                                           \
  RANK(kPinnedSettings,                                                                           \
       "pinned settings")              /* of the allocator of pinned memory, as the next ones */  \
  RANK(kPinnedThread, "pinned thread") /* of background completion */                             \
  RANK(kPinnedPools, "pinned pools")   /* which there are */                                      \
  RANK(kPinnedQueue, "pinned queue")   /* blocks that wait for streams */                         \
  RANK(kPinnedEvents, "pinned events") /* that wait for their next use */                         \
  RANK(kPinnedCache, "pinned cache")   /* blocks of a pool */                                     \
  RANK(kPinnedBlocks, "pinned blocks") /* objects */                                              \
  RANK(kPinnedRegion, "pinned region") /* reserved memory */                                      \
  RANK(kPinnedStats, "pinned statistics") /* what was obtained */                                 \
  RANK(kLog, "log")                       /* warnings that were given */                          \
  RANK(kLabels, "labels")                 /* slots of labels */                                   \
  RANK(kBlockArena, "block arena")        /* chunks of blocks */                                  \
  RANK(kAddressTable, "address table")    /* leaves and parts */                                  \
  RANK(kHighAddresses, "high addresses")  /* the table's leaves above 47 bits */                  \
  RANK(kContexts, "contexts")             /* numbers of stacks and of label texts */              \
  RANK(kFrameTexts, "frame texts")        /* what addresses of code mean */                       \
  RANK(kReplayDevice, "replay device")    /* the simulated device that a replay steers */         \
  RANK(kSimMachine, "sim machine")                                                                \
  RANK(kPinnedDriver, "pinned driver") /* its names of streams and events */                      \
  RANK(kHostMemory, "host memory")                                                                \
  RANK(kCudaContexts, "CUDA contexts")                                                            \
  RANK(kMemoryBudget, "memory budget")                                                            \
  RANK(kNvml, "NVML")                                                                             \
  RANK(kPoolUse, "pool use")               /* of a recorded program */                            \
  RANK(kDriverContexts, "driver contexts") /* of a recorded program */                            \
  RANK(kVirtualMemory, "virtual memory")   /* of a recorded program */                            \
  RANK(kLiveMemory, "live memory")         /* of a recorded program */                            \
  RANK(kIdleEvents, "idle events")         /* of a context of a recorded program */               \
  RANK(kStacks, "stacks")                  /* of a recorded program that are known */             \
  RANK(kHistoryRecorder, "recorder")       /* of an allocator's history, or of its last events */ \
  RANK(kRecordingFile, "recording file")   /* its room */

#define CACHALOT_LOCK_RANK_NAME(name, text) name,
enum class LockRank : uint8_t { CACHALOT_LOCK_RANKS(CACHALOT_LOCK_RANK_NAME) };
#undef CACHALOT_LOCK_RANK_NAME

#if CACHALOT_ASSERT_LEVEL > 0

// What a lock has to say for the check. A thread's list is its own, so nothing here is shared.
class RankedLock {
 public:
  RankedLock(const RankedLock&) = delete;
  RankedLock& operator=(const RankedLock&) = delete;

  // Whether the calling thread holds the lock; for assertions only.
  bool is_held() const;
  void assert_held(const char* file = __builtin_FILE(), int line = __builtin_LINE(),
                   const char* function = __builtin_FUNCTION()) const;
  // While others pass the lock over instead of waiting for it. pre: is_held().
  void set_passed_over(bool is_passed_over) const;

 protected:
  explicit RankedLock(LockRank rank) : rank_(rank) {}
  ~RankedLock();

  void before_waiting() const;
  void taken() const;
  void before_unlock() const;

 private:
  const LockRank rank_;
};

// Whether the thread holds no lock of the present call; for assertions only.
bool holds_no_lock();

// A call of the library: its locks are compared with each other.
class LockScope {
 public:
  LockScope() : outer_(begin()) {}
  ~LockScope() { end(outer_); }
  LockScope(const LockScope&) = delete;
  LockScope& operator=(const LockScope&) = delete;

 private:
  // Gives where the scope around this one begins.
  static size_t begin();
  static void end(size_t outer);

  const size_t outer_;
};

#else

class RankedLock {
 public:
  RankedLock(const RankedLock&) = delete;
  RankedLock& operator=(const RankedLock&) = delete;

  bool is_held() const { return true; }
  void assert_held() const {}
  void set_passed_over(bool) const {}

 protected:
  explicit RankedLock(LockRank) {}

  void before_waiting() const {}
  void taken() const {}
  void before_unlock() const {}
};

inline bool holds_no_lock() { return true; }

class LockScope {};

#endif

}  // namespace cachalot
