// SPDX-License-Identifier: MIT OR Apache-2.0
// The answers to calls that a backend lacks. Texts with the reference's names are its own.
#include "alloc/backend/backend.h"

#include "base/error.h"
#include "base/text.h"

namespace cachalot {

// The text is the reference's, so that programs which look for it keep working.
void Backend::refuse(const char* call) const {
  throw_not_supported(std::string(name()) + " does not yet support " + call +
                      ". If you need it, please file an issue describing your use case.");
}

// ---- History and observers

Snapshot Backend::snapshot(PoolId, bool) {
  throw_not_supported(
      "Calling snapshot with backend:cudaMallocAsync is not meaningful. (For backend:native, "
      "snapshot returns a detailed summary of all blocks tracked by the allocator, but the "
      "cudaMallocAsync backend does not track individual blocks.)");
}

void Backend::record_history(const HistoryOptions&) { refuse("recordHistory"); }

uint64_t Backend::observe_trace(TraceObserver&&, const LiveRowsObserver&) {
  refuse("attachAllocatorTraceTracker");
}

uint64_t Backend::observe_out_of_memory(OutOfMemoryObserver&&) {
  refuse("attachOutOfMemoryObserver");
}

uint64_t Backend::observe_rejection(RejectionObserver&&) { refuse("attachOomRejectionObserver"); }

uint64_t Backend::register_free_memory_callback(FreeMemoryCallback&&) {
  throw_not_supported("backend:cudaMallocAsync never calls free-memory callbacks");
}

// A backend without observers has given no id.
void Backend::detach(uint64_t id) {
  throw_invalid_argument(
      format("no observer has the id %llu", static_cast<unsigned long long>(id)));
}

// ---- What needs blocks that are the library's own

Report Backend::report(const Request&) {
  throw_not_supported(
      "there are no reports with backend:cudaMallocAsync: the driver's pool keeps its blocks to "
      "itself");
}

void Backend::pool_create(int, PoolId, PoolOptions&&) { refuse("createOrIncrefPool"); }

void Backend::pool_set_use_on_oom(int, PoolId, bool) { refuse("setUseOnOOM"); }

void Backend::pool_set_no_split(int, PoolId) { refuse("setNoSplit"); }

void Backend::pool_set_pinned(int, PoolId, bool) { refuse("setPinned"); }

void Backend::pool_set_whole_blocks(int, PoolId) { refuse("setWholeBlocks"); }

void Backend::pin(Address, uint64_t) {
  throw_not_supported(
      "backend:cudaMallocAsync cannot pin: the driver's pool keeps its memory to itself");
}

void Backend::unpin(Address part, uint64_t size) { pin(part, size); }

int Backend::pool_use_count(int, PoolId) { refuse("getPoolUseCount"); }

bool Backend::pool_has_live(int, PoolId, const std::vector<Address>&) {
  refuse("checkPoolLiveAllocations");
}

Checkpoint Backend::checkpoint_take(int, PoolId) { refuse("getCheckpointState"); }

CheckpointChanges Backend::checkpoint_apply(int, const Checkpoint&) {
  refuse("setCheckpointPoolState");
}

namespace {

[[noreturn]] void refuse_sleep() {
  throw_not_supported(
      "backend:cudaMallocAsync has no pools that sleep: the driver's pool keeps its memory to "
      "itself");
}

}  // namespace

uint64_t Backend::pool_sleep(int, const SleepRequest&) { refuse_sleep(); }

void Backend::pool_wake(int, PoolId, Stream) { refuse_sleep(); }

void Backend::pool_set_sleep_contents(int, PoolId, const std::string&, SleepContents) {
  refuse_sleep();
}

std::vector<ExpandableSegmentRow> Backend::expandable_segments(int) {
  throw_not_supported("CUDAMallocAsyncAllocator does not yet support getExpandableSegmentSizes.");
}

void Backend::start_tenants() {
  throw_not_supported("backend:cudaMallocAsync has no blocks of ours to count: no tenants");
}

}  // namespace cachalot
