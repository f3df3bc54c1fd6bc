// SPDX-License-Identifier: MIT OR Apache-2.0
#include "alloc/streams/pending_frees.h"

#include <algorithm>
#include <utility>

#include "alloc/pools/private_pool.h"
#include "alloc/streams/stream_hash.h"
#include "base/error.h"
#include "base/reserve.h"
#include "device/driver_error.h"

namespace cachalot {
namespace {

constexpr size_t kSpareUses = 256;  // objects that are kept for the next recorded blocks

// Whether all nodes that a block of the stream waits for lie before the visited ones.
bool lies_before(const DeferredFree& deferred, Stream stream, const std::set<uint64_t>& visited) {
  return deferred.block->segment()->stream == stream && !deferred.block->is(Block::kForeign) &&
         !deferred.nodes.empty() &&
         std::all_of(deferred.nodes.begin(), deferred.nodes.end(),
                     [&](uint64_t node) { return visited.contains(node); });
}

// No node of the graph orders the work that a stream was given before its capture.
bool is_ordered_by_graph(const Block* block) {
  const auto& uses = block->detail().uses->uses;
  return std::all_of(uses.begin(), uses.end(),
                     [](const StreamUse& use) { return use.is_captured; });
}

}  // namespace

PendingFrees::PendingFrees(Driver& driver, int device, bool looks_in_stream_order, const Log& log,
                           const Captures& captures, SlowPathFlags& flags,
                           FreeCompletion& completion)
    : driver_(driver),
      device_(device),
      looks_in_stream_order_(looks_in_stream_order),
      log_(log),
      captures_(captures),
      flags_(flags),
      completion_(completion) {
  // Here, so that forget_uses() needs no memory.
  spare_uses_.reserve(kSpareUses);
}

// Sets the flags that lead calls away from hits: a device with a waiting free has to look at its
// events before it searches [core 12.5].
void PendingFrees::update_flags() {
  flags_.put(kPendingFrees, !events_.empty() || !deferred_.empty());
  flags_.put(kStaleUses, !stale_uses_.empty());
}

// ---- Uses

void PendingFrees::record_use(Block* block, Stream stream, std::optional<Stream> current_stream) {
  if (!block->is(Block::kRecorded)) {
    // What can fail comes before the block changes.
    if (spare_uses_.empty()) spare_uses_.push_back(std::make_unique<StreamUses>());
    spare_uses_.back()->uses.reserve(1);
    block->detail().uses = spare_uses_.back().release();
    spare_uses_.pop_back();
    block->set(Block::kRecorded);
  }
  auto& uses = block->detail().uses->uses;
  // Before the insertion, and before the block is changed any further: the caller's block stays as
  // it was after a failure.
  reserve_one_more(uses);
  auto use = std::find_if(uses.begin(), uses.end(),
                          [&](const StreamUse& u) { return u.stream == stream; });
  // A stream is noted once, however often it was recorded.
  const bool is_new = use == uses.end();
  if (is_new) {
    // The reference forgets this use, because it remembers the stream from an earlier block (U2).
    const auto stale = stale_uses_.find(block);
    const bool remembered = stale != stale_uses_.end() && stale->second.contains(stream);
    use = uses.insert(use, {stream, false, remembered, "U2"});
  }
  if (captures_.is_capture_context(current_stream)) {
    if (!use->reference_forgets) use->defect = "U1";
    use->reference_forgets = true;
    // A use from before the capture stays one to wait for, which the reference forgets (U1).
    use->is_captured = (is_new || use->is_captured) && captures_.is_capturing(stream);
  } else {
    use->is_captured = false;
  }
}

void PendingFrees::forget_stale_uses(const Block* block) {
  if (stale_uses_.erase(block) != 0) update_flags();
}

// Doubles the room, since a capture defers many frees.
void PendingFrees::reserve() { reserve_one_more(deferred_); }

void PendingFrees::add_deferred(Block* block) {
  CACHALOT_ASSERT(1, deferred_.size() < deferred_.capacity());
  deferred_.push_back({block, {}});
  update_flags();
}

// Whether the free of a recorded block has to wait for the end of a capture. Where the driver does not
// say so, the free waits too. pre: reserve().
bool PendingFrees::must_defer(Block* block, std::optional<Stream> current_stream) try {
  return captures_.is_capture_context(current_stream);
} catch (...) {
  add_deferred(block);
  throw;
}

// Without memory for its bookkeeping a free is deferred, as after an error of the driver, so the call
// need not fail.
void PendingFrees::wait(Block* block, std::optional<Stream> current_stream, bool tracks_nodes) try {
  if (must_defer(block, current_stream)) {
    defer_free(block, tracks_nodes);
  } else {
    insert_events(block);
  }
} catch (const std::bad_alloc&) {
}

// ---- Events [core 12.3, 12.5, 12.6]

// Defers the free where the driver refuses an event, so that nothing is lost and nothing is reused
// too early. pre: a waiting block without recorded events; reserve().
void PendingFrees::insert_events(Block* block) try {
  auto& uses = block->detail().uses->uses;
  if (uses.size() > 1) order_as_reference(uses, [this](const StreamUse&) { return device_; });
  while (!uses.empty()) {
    // One by one: after a refusal the uses that are left are those without an event.
    record_event(block, uses.front());
    uses.erase(uses.begin());
  }
  update_flags();
} catch (...) {
  add_deferred(block);
  throw;
}

// look: returns whether the stream's queue stays; otherwise it has erased the queue.
template <class Look>
void PendingFrees::look_at_queues(Look look) {
  if (!looks_in_stream_order_) return event_order_.retain(look);
  // look may erase the queue, so the walk moves on first.
  for (auto queue = events_.begin(); queue != events_.end();) look((queue++)->first);
}

// What a look at a stream's queue returns.
bool PendingFrees::keep_unless_empty(Stream stream) {
  if (!events_[stream].empty()) return true;
  events_.erase(stream);
  return false;
}

void PendingFrees::record_event(Block* block, const StreamUse& use) {
  if (event_cache_.empty()) {
    event_cache_.reserve(1);
    uint64_t made = 0;
    // The room comes before the event: an event that could not be kept would be lost.
    require_success(driver_, driver_.event_create(device_, &made));
    event_cache_.push_back(made);
  }
  require_success(driver_, driver_.event_record(device_, event_cache_.back(), use.stream));
  // The reference keeps this stream for the object, and takes it for known when the object stands
  // for a later block (U2). It keeps streams that were captured too. They are left out here: while
  // kStaleUses is set no call is a hit, and programs with graphs would often set it.
  if (use.reference_forgets && !use.is_captured) stale_uses_[block].insert(use.stream);
  if (!looks_in_stream_order_) event_order_.insert(use.stream, stream_hash(device_, use.stream));
  events_[use.stream].push_back({event_cache_.back(), block});
  event_cache_.pop_back();
  block->detail().uses->events++;
}

void PendingFrees::forget_uses(Block* block) {
  if (!block->is(Block::kRecorded)) return;
  block->clear(Block::kRecorded);
  std::unique_ptr<StreamUses> uses(std::exchange(block->detail().uses, nullptr));
  uses->uses.clear();
  uses->events = 0;
  // Never beyond the room it has: this runs where nothing may fail.
  if (spare_uses_.size() < spare_uses_.capacity()) spare_uses_.push_back(std::move(uses));
}

// A block without uses is not recorded: its free would wait for nothing, for ever.
void PendingFrees::forget_use(Block* block, Stream stream) {
  CACHALOT_ASSERT(1, block->is(Block::kUsed));
  if (!block->is(Block::kRecorded)) return;
  auto& uses = block->detail().uses->uses;
  std::erase_if(uses, [&](const StreamUse& use) { return use.stream == stream; });
  if (uses.empty()) forget_uses(block);
}

// What is deferred may be free now, which the next look finds.
void PendingFrees::forget_deferred_uses(Stream stream) {
  for (const DeferredFree& deferred : deferred_) {
    std::erase_if(deferred.block->detail().uses->uses,
                  [&](const StreamUse& use) { return use.stream == stream; });
  }
}

// The uses go first: complete_free() may merge the block, and then the object stands for another
// one.
void PendingFrees::complete(Block* block, ContextId context) {
  forget_uses(block);
  block->clear(Block::kWaiting);
  completion_.complete_free(block, context);
}

// Takes an event that has come out of its queue, and completes the free that waited for it last.
void PendingFrees::finish_event(Queue& queue, size_t place, ContextId context) {
  const PendingEvent pending = queue[place];
  event_cache_.push_back(pending.event);
  queue.erase(queue.begin() + static_cast<std::ptrdiff_t>(place));
  Block* block = pending.block;
  // A block can be deferred with events recorded already, where the driver refused a later one.
  if (--block->detail().uses->events != 0 || !block->detail().uses->uses.empty()) return;
  complete(block, context);
}

// [core 12.5] Runs at each request of a device with waiting frees. Deferred frees come first:
// outside of a capture they get their events now, and these are looked at in the same call.
void PendingFrees::process_events(ContextId context) {
  flush_deferred_frees(context);
  look_at_queues([&](Stream stream) {
    auto& queue = events_[stream];
    while (!queue.empty()) {
      // Events of a stream complete in their order, so the first that has not ends the look.
      const DriverCode code = driver_.event_query(device_, queue.front().event);
      if (code == kNotReady) {
        // The runtime keeps the answer as its last error, which the program must not meet [core 12.5].
        driver_.take_pending_error(device_);
        return true;
      }
      require_success(driver_, code);
      finish_event(queue, 0, context);
    }
    return keep_unless_empty(stream);
  });
  update_flags();
}

// pool: waits for its blocks only; null: for all.
void PendingFrees::synchronize_and_free_events(ContextId context,
                                               std::optional<Stream> current_stream,
                                               const PrivatePool* pool) {
  if (captures_.is_capture_context(current_stream)) {
    throw_invalid_state(
        "cannot wait for recorded streams while a capture or a pool routing is under way");
  }
  flush_deferred_frees(context);
  look_at_queues([&](Stream stream) {
    auto& queue = events_[stream];
    for (size_t i = 0; i < queue.size();) {
      if (pool && queue[i].block->segment()->pool->owner != pool) {
        i++;
        continue;
      }
      require_success(driver_, driver_.event_synchronize(device_, queue[i].event));
      finish_event(queue, i, context);
    }
    return keep_unless_empty(stream);
  });
  update_flags();
}

// ---- Deferred frees [core 18.1 to 18.3]

// With graph_capture_record_stream_reuse, notes the present end nodes of all streams that use the
// block: once they lie before a later allocation in the graph, the block can serve it.
void PendingFrees::defer_free(Block* block, bool tracks_nodes) {
  add_deferred(block);  // first: what follows may throw, and the free must not be lost
  // A block that was lent is not recovered, and its streams may have ended.
  if (!tracks_nodes || block->is(Block::kForeign)) return;
  std::vector<Stream> streams{block->segment()->stream};
  for (const StreamUse& use : block->detail().uses->uses) streams.push_back(use.stream);
  uint64_t graph = 0;
  std::vector<uint64_t> nodes;
  for (const Stream stream : streams) {
    const CaptureInfo info = captures_.info(stream);
    if (!info.capturing) return;
    // No graph orders nodes of another one, so there would be no moment at which the block is free.
    if (graph != 0 && info.graph != graph) {
      throw_invalid_state("a block is used by streams that are captured into different graphs");
    }
    graph = info.graph;
    for (const uint64_t node : info.nodes) {
      if (std::find(nodes.begin(), nodes.end(), node) == nodes.end()) {
        nodes.push_back(node);
      }
    }
  }
  deferred_.back().nodes = std::move(nodes);
}

// Forgets the uses that a capture orders, and waits for all others. The reference forgets more (U1, U2).
void PendingFrees::complete_deferred_free(Block* block, ContextId context) {
  auto& uses = block->detail().uses->uses;
  for (const StreamUse& use : uses) {
    if (use.reference_forgets && !use.is_captured) {
      log_.differ(use.defect, "waited for a stream whose use the reference forgets");
    }
  }
  std::erase_if(uses, [](const StreamUse& use) { return use.is_captured; });
  for (StreamUse& use : uses) use.reference_forgets = false;
  stale_uses_.erase(block);
  if (!uses.empty()) return insert_events(block);
  // Some of its events were recorded before the driver refused one: the last of them completes it.
  if (block->detail().uses->events != 0) return;
  complete(block, context);
}

// pool: only its blocks (R20).
void PendingFrees::flush_deferred_frees(ContextId context, std::optional<PoolId> pool) {
  // One at a time: where the driver refuses one, the frees behind it stay deferred.
  for (size_t i = 0; i < deferred_.size();) {
    Block* block = deferred_[i].block;
    if (pool && pool_id_of(*block->segment()->pool) != *pool) {
      i++;
      continue;
    }
    deferred_.erase(deferred_.begin() + static_cast<std::ptrdiff_t>(i));
    complete_deferred_free(block, context);
  }
  update_flags();
}

// ---- Recovery within a capture [core 18.4]

void PendingFrees::visit_nodes_before(const std::vector<uint64_t>& nodes,
                                      std::set<uint64_t>* visited) {
  // `visited` is kept for the capture, so each node is asked about once.
  std::vector<uint64_t> open = nodes;
  while (!open.empty()) {
    const uint64_t node = open.back();
    open.pop_back();
    if (!visited->insert(node).second) continue;
    std::vector<uint64_t> before;
    require_success(driver_, driver_.node_dependencies(device_, node, &before));
    open.insert(open.end(), before.begin(), before.end());
  }
}

void PendingFrees::recover_deferred_frees(Stream stream, const RouteOf& route_of,
                                          ContextId context) {
  const CaptureInfo info = captures_.info(stream);
  if (!info.capturing || info.nodes.empty()) return;
  auto state = capture_states_.find(info.capture_id);
  if (state == capture_states_.end()) {
    const PoolId* const route = route_of(stream);
    if (!route) throw_invalid_state("the stream is captured, and no pool is routed to for it");
    state = capture_states_.emplace(info.capture_id, CaptureState{*route, {}}).first;
  }
  std::set<uint64_t>& visited = state->second.visited[stream];
  visit_nodes_before(info.nodes, &visited);
  // The reference completes these too (U1). Without nodes they wait for the end of the capture.
  for (DeferredFree& deferred : deferred_) {
    if (!lies_before(deferred, stream, visited) || is_ordered_by_graph(deferred.block)) continue;
    log_.differ("U1", "waited for a stream whose use the reference forgets");
    deferred.nodes.clear();
  }
  // All of them are taken out of `deferred_` before the first one completes, since completing a
  // free merges blocks and may change the list.
  std::vector<Block*> ready;
  ready.reserve(deferred_.size());
  std::erase_if(deferred_, [&](const DeferredFree& deferred) {
    const bool is_ready = lies_before(deferred, stream, visited);
    if (is_ready) ready.push_back(deferred.block);
    return is_ready;
  });
  for (Block* block : ready) {
    stale_uses_.erase(block);
    complete(block, context);
  }
  update_flags();
}

// R21: a stream that was recovered for must not be captured any more when its pool's routing ends.
void PendingFrees::forget_captures_of(PoolId pool) {
  for (auto state = capture_states_.begin(); state != capture_states_.end();) {
    if (state->second.pool != pool) {
      ++state;
      continue;
    }
    for (const auto& [stream, visited] : state->second.visited) {
      if (captures_.is_capturing(stream))
        throw_invalid_state("a stream is still captured when the routing to its pool ends");
    }
    state = capture_states_.erase(state);
  }
}

// ---- The end and the auditor

void PendingFrees::destroy_events() {
  for (auto& [stream, queue] : events_) {
    for (const PendingEvent& pending : queue) {
      driver_.event_synchronize(device_, pending.event);
      driver_.event_destroy(device_, pending.event);
    }
  }
  destroy_idle_events();
}

// Answers are ignored: no call is left that could act on them.
void PendingFrees::destroy_idle_events() {
  for (const uint64_t event : event_cache_) driver_.event_destroy(device_, event);
  event_cache_.clear();
}

std::map<const Block*, uint32_t> PendingFrees::queued_events() const {
  std::map<const Block*, uint32_t> events;
  for (const auto& [stream, queue] : events_) {
    for (const PendingEvent& pending : queue) events[pending.block]++;
  }
  return events;
}

std::set<const Block*> PendingFrees::deferred_blocks() const {
  std::set<const Block*> blocks;
  for (const DeferredFree& free : deferred_) blocks.insert(free.block);
  return blocks;
}

}  // namespace cachalot
