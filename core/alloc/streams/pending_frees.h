// SPDX-License-Identifier: MIT OR Apache-2.0
// Frees of blocks that other streams use: events outside of captures, deferral inside, recovery
// [core 12, 18].
//
// Note [Pending frees]
// Approach: record_stream() notes the streams that use a block. The free of such a block waits: an event
// is recorded on each of these streams, and the block is free when all of them have come. Within a
// capture no event can be recorded, so the free is deferred until the capture is over.
// Invariants: a block that waits is in the queue of an event or deferred; kPendingFrees is set exactly
// while one waits. A free is never lost: where the driver refuses an event the free is deferred, and a
// later call goes on with it.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <unordered_map>
#include <vector>

#include "alloc/heap/hash_order.h"
#include "alloc/streams/captures.h"
#include "alloc/streams/stream_uses.h"
#include "alloc/sync/slow_path_flags.h"
#include "alloc/trace/log.h"

namespace cachalot {

struct PrivatePool;

// The end of a free, once nothing is left to wait for.
class FreeCompletion {
 public:
  // pre: the block is neither used nor waiting.
  virtual void complete_free(Block* block, ContextId context) = 0;

 protected:
  ~FreeCompletion() = default;
};

// Owns the events of the device, the queues that they wait in, and the deferred frees.
// pre: the whole device, unless a function says otherwise.
class PendingFrees : private SlowPath {
 public:
  // looks_in_stream_order: looks at the events by the handles of their streams. A replay needs
  // that: it chooses its streams so that late frees complete as they were recorded.
  PendingFrees(Driver& driver, int device, bool looks_in_stream_order, const Log& log,
               const Captures& captures, SlowPathFlags& flags, FreeCompletion& completion);

  // ---- Uses
  // Another stream uses the block from now on. pre: the device's lock and the block's shard; the block
  // is used. current_stream: of the call, where it is known.
  void record_use(Block* block, Stream stream, std::optional<Stream> current_stream);
  void forget_uses(Block* block);
  // All work of the stream is done, and none will come. pre: the block is in use.
  void forget_use(Block* block, Stream stream);
  // The same for blocks whose frees are deferred.
  void forget_deferred_uses(Stream stream);
  // For an object that is about to stand for another block: keeps U2 from that block.
  void forget_stale_uses(const Block* block);

  // ---- Frees that wait
  // Makes room, so that the next free can be deferred whatever happens. Throws std::bad_alloc.
  void reserve();
  // The free of a block that others use begins to wait. tracks_nodes: deferred frees are to be recovered
  // within their capture. pre: reserve(); the block is marked as waiting.
  void wait(Block* block, std::optional<Stream> current_stream, bool tracks_nodes);
  // Completes the frees whose work is done [core 12.5].
  void process_events(ContextId context);
  // Waits for the work of the blocks of a pool; null: of all [core 12.6].
  void synchronize_and_free_events(ContextId context, std::optional<Stream> current_stream,
                                   const PrivatePool* pool);
  // Ends the deferral of a pool's blocks (R20); nothing: of all.
  void flush_deferred_frees(ContextId context, std::optional<PoolId> pool = {});

  // ---- Recovery within a capture [core 18.4]
  // Completes deferred frees of the stream's blocks that the capture has ordered. route_of: the pool that
  // a stream's requests go to; null: none.
  using RouteOf = std::function<const PoolId*(Stream)>;
  void recover_deferred_frees(Stream stream, const RouteOf& route_of, ContextId context);
  // R21: a stream that was recovered for must not be captured any more when its pool's routing ends.
  void forget_captures_of(PoolId pool);

  // ---- The end and the auditor
  bool has_deferred() const { return !deferred_.empty(); }
  // Waits for all events, whatever the driver says, and destroys them.
  void destroy_events();
  // Destroys those that no free waits for.
  void destroy_idle_events();
  std::map<const Block*, uint32_t> queued_events() const;  // by block
  std::set<const Block*> deferred_blocks() const;

 private:
  // In the order in which the events were recorded, which is the one in which they complete.
  using Queue = std::deque<PendingEvent>;

  // After any change of a queue, of `deferred_` or of `stale_uses_`.
  void update_flags();
  // The free waits without an event, until a later call tries again.
  void add_deferred(Block* block);
  bool must_defer(Block* block, std::optional<Stream> current_stream);
  // Records an event on each stream that uses the block.
  void insert_events(Block* block);
  void record_event(Block* block, const StreamUse& use);
  void finish_event(Queue& queue, size_t place, ContextId context);
  template <class Look>
  void look_at_queues(Look look);
  bool keep_unless_empty(Stream stream);
  void defer_free(Block* block, bool tracks_nodes);
  void complete_deferred_free(Block* block, ContextId context);
  void complete(Block* block, ContextId context);
  void visit_nodes_before(const std::vector<uint64_t>& nodes, std::set<uint64_t>* visited);

  Driver& driver_;
  const int device_;
  const bool looks_in_stream_order_;
  const Log& log_;
  const Captures& captures_;
  SlowPathFlags& flags_;
  FreeCompletion& completion_;
  std::map<Stream, Queue> events_;
  HashOrder<Stream> event_order_;  // of its streams, unless looked at in ascending order
  // Events are reused, since making one is a call of the driver.
  std::vector<uint64_t> event_cache_;  // last in, first out
  std::vector<DeferredFree> deferred_;
  std::map<uint64_t, CaptureState> capture_states_;  // by the capture's id
  std::vector<std::unique_ptr<StreamUses>> spare_uses_;
  // The streams that the reference wrongly remembers for a block (U2).
  std::unordered_map<const Block*, std::set<Stream>> stale_uses_;
};

}  // namespace cachalot
