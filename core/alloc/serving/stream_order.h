// SPDX-License-Identifier: MIT OR Apache-2.0
// The order of streams over memory that goes from one to another [policy P4, P10].
//
// Note [Stamps]
// Rationale: a stream may have memory that another one used only behind that one's work, and an address may
// be unmapped only when the work that used it is done. So each free block has to tell whose work to wait for,
// and each wait has to tell which work it covers.
// Approach: a clock ticks with each wait, each event that tells how far the device is, and each request that
// no hit serves. A free stamps its block with the clock, for the stream that used it. A merge keeps the later
// stamp of each stream. A wait for a stream notes the clock: it covers the work of blocks with that stamp or
// an earlier one. A hand-out clears the stamps, since whoever waits for the new user waits for the earlier
// ones too.
// Nearly all memory stays with the stream of its range. Its stamp lies in the block's `requested`, which a
// free block needs for nothing else in this policy, so a hit writes no further line. The stamps of other
// streams lie in a table, and the flag kForeign sends the calls that meet such a block to the general path.
// Note [Streams that may be gone]
// Rationale: a program destroys streams. The driver has no call that tells whether a handle still stands for
// one, and ends the process at a handle that does not.
// Approach: unless the program has promised to announce the end of streams, no handle is used but the
// request's own. A borrower then waits for all work that the device has been given, by one event, and the host
// waits for the device. Such a wait covers the work of every stream.
// Invariants: the clock changes with the whole device held only, so frees that are put off (Note [Last
// free]) have the stamp of their moment. A block has an entry in the table exactly while it has the flag.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "alloc/heap/block_changes.h"
#include "alloc/native/device_state.h"
#include "alloc/serving/device_progress.h"

namespace cachalot {

// The clock of the latest work on memory, by the stream that did it.
using Stamps = std::map<Stream, uint64_t>;

// Owns the table, and what streams and host have waited for. pre of all functions: the whole device.
class StreamOrder : private DeviceOperation {
 public:
  explicit StreamOrder(DeviceState& device)
      : DeviceOperation(device), event_(device), progress_(device) {}
  StreamOrder(const StreamOrder&) = delete;
  StreamOrder& operator=(const StreamOrder&) = delete;

  // ---- Hand-outs
  // Makes the stream wait for all other work on the block. Throws what the driver says.
  void wait_in_stream(const Block* block, Stream stream);
  // Makes room for a loan to a stream, so that the next lend() cannot fail. Throws std::bad_alloc.
  void reserve_loan(Stream user);
  // `used` was cut from `found`, or is all of it.
  void handed_out(Block* found, Block* used);
  // The stream, which is not the range's, has the block now.
  void lend(Block* used, Stream user);
  // Of a block that the flag says is lent. None: no stream has it.
  std::optional<Stream> user_of(const Block* block) const;

  // ---- Frees and merges
  // By the stream that had it.
  void freed(Block* block);
  // Takes the stamps of another block over, which has been merged or is about to be.
  void absorb(Block* block, const Block* other, uint64_t stamp_of_other);
  // The parts of a block have its stamps. Throws std::bad_alloc, and then nothing has changed.
  void copy(const Block* from, Block* to);

  // ---- Pages that move
  // Adds a block's stamps, the later one of each stream. Throws std::bad_alloc.
  void add_stamps_of(const Block* block, Stamps* stamps) const;
  // Makes room for the next cut_out() of a part of the block. Throws std::bad_alloc.
  void reserve_cut(const Block* block);
  // The hole is the middle of a cached block. Its stamps go to what is left of that; null: nothing is on this
  // side.
  void cut_out(Block* hole, Block* before, Block* behind);
  // Makes room for the next put_stamps(), of these stamps. Throws std::bad_alloc.
  void reserve_stamps(const Stamps& stamps);
  // Gives them to a block of new or moved pages, which has none.
  void put_stamps(Block* block);

  // ---- The host
  // Whether the host has waited for all work on the block.
  bool is_finished(const Block* block) const;
  // Waits until no work is left on the block, and forgets the stamps of other streams.
  void wait_on_host(Block* block);
  // The same without a note of it, so that the device's lock and the block's shard are enough.
  void synchronize_before_unmap(Block* block);
  uint64_t latest_stamp(const Block* block) const;
  // Learns, without waiting, which work is done. False: the driver cannot tell.
  bool look_at_progress();
  // Waits for the device.
  void finish_all();
  // The host has nothing to wait for on blocks with this stamp or an earlier one.
  uint64_t all_finished() const { return all_finished_; }
  // Waits for the stream, and forgets it: no later free of its blocks has to be waited for.
  void stream_ended(Stream stream);
  // Destroys the events, which later calls make again.
  void destroy_events();

  // The auditor.
  std::string check() const;

  // ---- For tests
  uint64_t stream_waits() const { return stream_waits_; }
  uint64_t host_waits() const { return host_waits_; }
  // Of other streams than the range's.
  Stamps foreign_stamps(const Block* block) const {
    const auto entry = table_.find(block);
    return entry == table_.end() ? Stamps() : entry->second.stamps;
  }
  // The clock when the first stream waited for the second, and when the host waited for a stream.
  const std::map<std::pair<Stream, Stream>, uint64_t>& waited() const { return waited_; }
  const std::map<Stream, uint64_t>& finished() const { return finished_; }
  // The same for waits that covered all streams.
  const std::map<Stream, uint64_t>& waited_for_all() const { return waited_for_all_; }

 private:
  struct Entry {
    // While the block is in use. The range's own stream: the one that has the block has ended.
    std::optional<Stream> user;
    Stamps stamps;  // never the range's own stream's
  };
  using Table = std::map<const Block*, Entry>;

  static Table::node_type new_entry(const Stamps& stamps);
  void insert_spare(Block* block);
  bool announces() const { return device_.settings.serving().announces_streams; }
  bool is_finished(Stream stream, uint64_t stamp) const;
  bool is_known(Stream stream, Stream other, uint64_t stamp) const;
  void wait_for(Stream stream, Stream other, uint64_t stamp);
  DriverCode queue_wait(Stream stream, std::optional<Stream> other);
  void finish(Stream stream, uint64_t stamp);
  void synchronize(Stream stream);
  void synchronize_device();
  void forget(Block* block);
  void forget_stream(Block* block, Stream ended);
  template <class Visit>
  void for_each_own(Stream stream, Visit visit) const;

  Table table_;
  Table::node_type spare_;  // made beforehand, so that its insertion cannot fail
  std::map<std::pair<Stream, Stream>, uint64_t>
      waited_;                           // the clock when the first waited for the second
  std::map<Stream, uint64_t> finished_;  // the clock when the host did
  // The same for waits that cover all streams.
  std::map<Stream, uint64_t> waited_for_all_;
  uint64_t all_finished_ = 0;
  DeviceEvent event_;
  DeviceProgress progress_;
  uint64_t stream_waits_ = 0;
  uint64_t host_waits_ = 0;
};

}  // namespace cachalot
