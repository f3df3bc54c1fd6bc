// SPDX-License-Identifier: MIT OR Apache-2.0
// The words about private pools, routing and checkpoints.
#include <c10/cuda/CUDACachingAllocator.h>

#include <algorithm>
#include <functional>
#include <unordered_set>

#include "operations.h"
#include "output.h"
#include "own_allocator.h"
#include "release.h"
#include "report.h"
#include "run.h"
#include "streams.h"

namespace oracle {
namespace {

void create(Arguments& arguments) {
  const auto pool = arguments.pool();
  const auto flags = arguments.words();
  const bool own = std::find(flags.begin(), flags.end(), "own") != flags.end();
  cca::createOrIncrefPool(0, pool, own ? own_allocator() : nullptr);
  for (const std::string& flag : flags) {
    if (flag == "use_on_oom") cca::setUseOnOOM(0, pool, true);
    if (flag == "no_split") cca::setNoSplit(0, pool);
  }
}

void begin(Arguments& arguments) {
  const auto pool = arguments.pool();
  cca::beginAllocateToPool(0, pool, routed_streams(arguments.word()));
}

void end(Arguments& arguments) { cca::endAllocateToPool(0, arguments.pool()); }

void release(Arguments& arguments) { cca::releasePool(0, arguments.pool()); }

void empty(Arguments& arguments) { cca::emptyCache(arguments.pool()); }

void use_on_oom(Arguments& arguments) { cca::setUseOnOOM(0, arguments.pool(), true); }

void no_use_on_oom(Arguments& arguments) { cca::setUseOnOOM(0, arguments.pool(), false); }

void no_split(Arguments& arguments) { cca::setNoSplit(0, arguments.pool()); }

void use_count(Arguments& arguments) {
  line("# count " + std::to_string(cca::getPoolUseCount(0, arguments.pool())));
}

void snapshot(Arguments& arguments) { report_segments(cca::snapshot(arguments.pool(), false)); }

void check_live(Arguments& arguments) {
  const auto pool = arguments.pool();
  std::unordered_set<void*> expected;
  while (auto id = arguments.next_number<long>()) {
    if (const c10::DataPtr* block = run.find(*id)) expected.insert(block->get());
  }
  line(std::string("# live ") + (cca::checkPoolLiveAllocations(0, pool, expected) ? "yes" : "no"));
}

void take_checkpoint(Arguments& arguments) {
  const std::string name = arguments.word();
  run.checkpoints[name] = cca::getCheckpointState(0, arguments.pool());
}

// The restore has freed this block itself.
void forget(void* address) {
  line("X freed " + hex(address));
  auto it = std::find_if(run.live.begin(), run.live.end(),
                         [address](const auto& block) { return block.second.get() == address; });
  if (it == run.live.end()) return;
  it->second.release_context();
  run.live.erase(it);
}

void restore_checkpoint(Arguments& arguments) {
  const std::string name = arguments.word();
  long id = arguments.id();
  auto delta = cca::setCheckpointPoolState(0, run.checkpoints.at(name));
  for (void* address : delta.ptrs_freed) forget(address);
  for (c10::DataPtr& block : delta.dataptrs_allocd) {
    line("X created " + hex(block.get()));
    run.live.emplace(id++, std::move(block));
  }
}

#if SINCE(13)
void mark_capture(Arguments&) { cca::markCaptureBegin(0); }

void unmark_capture(Arguments&) { cca::markCaptureEnd(0); }
#endif

}  // namespace

void add_pool_operations(Operations& operations) {
  operations.insert({{"pool_create", create},
                     {"pool_begin", begin},
                     {"pool_end", end},
                     {"pool_release", release},
                     {"pool_empty", empty},
                     {"pool_oom_on", use_on_oom},
                     {"pool_oom_off", no_use_on_oom},
                     {"pool_no_split", no_split},
                     {"pool_count", use_count},
                     {"pool_snapshot", snapshot},
                     {"pool_live", check_live},
                     {"checkpoint", take_checkpoint},
                     {"restore", restore_checkpoint}});
#if SINCE(13)
  operations.insert({{"capture_mark", mark_capture}, {"capture_unmark", unmark_capture}});
#endif
}

}  // namespace oracle
