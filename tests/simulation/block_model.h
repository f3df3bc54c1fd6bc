// SPDX-License-Identifier: MIT OR Apache-2.0
// What a run knows of its blocks: which bytes are whose, which are still in use by a stream after
// their free, and what the statistics have to say of them.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "machine.h"

namespace cachalot_test {

// Of which pool something is. Numbers of user pools and of graphs are never used twice.
struct PoolKey {
  int32_t device;
  cachalot_pool_id id;

  bool operator==(const PoolKey& other) const {
    return device == other.device && id.first == other.id.first && id.second == other.id.second;
  }
};

// A use on another stream than the block's own.
struct Use {
  cachalot_stream stream;
  bool must_wait;  // no capture was under way, so nothing excuses a reuse before its work is done
};

struct LiveBlock {
  cachalot_address address;
  uint64_t size;
  uint64_t requested;
  cachalot_stream stream;
  int32_t device;
  bool is_uncached;
  PoolKey pool;
  bool is_from_source;
  std::string label;       // of the thread, as the statistics have it
  uint64_t marks[2] = {};  // at its first and its last byte; 0: not known
  uint32_t use_count = 0;
  std::array<Use, 3> uses = {};
};

// One row of the statistics, kept by hand.
struct Row {
  int64_t current = 0;
  int64_t peak = 0;
  int64_t allocated = 0;
  int64_t freed = 0;

  void add(int64_t amount) {
    current += amount;
    allocated += amount;
    peak = std::max(peak, current);
  }
  void take(int64_t amount) {
    current -= amount;
    freed += amount;
  }
};

struct DeviceModel {
  Row blocks;
  Row bytes;
  int64_t requested = 0;  // of all hand-outs since the sums were reset
  int64_t out_of_memory = 0;
  uint64_t uncached_bytes = 0;
};

class BlockModel {
 public:
  BlockModel(Machine* machine, int32_t device_count)
      : machine_(*machine), devices_(static_cast<size_t>(device_count)) {}

  const std::vector<LiveBlock>& live() const { return live_; }
  LiveBlock& live_at(size_t index) { return live_[index]; }
  DeviceModel& device(int32_t index) { return devices_[static_cast<size_t>(index)]; }

  // A block was handed out. Ends the process if somebody else uses one of its bytes.
  void add(const LiveBlock& block);
  // Takes a block out before its free is requested.
  LiveBlock take(size_t index);
  // The free did what it should, by a failure even; is_counted: the statistics know the block.
  void freed(const LiveBlock& block);
  // The free was refused: the block is where it was.
  void put_back(const LiveBlock& block);

  // Takes the blocks of a pool out, which nobody else gets meanwhile. Their uses are over.
  std::vector<LiveBlock> fall_asleep(const PoolKey& pool);
  // They are handed out again.
  void wake(const std::vector<LiveBlock>& blocks);
  // One that slept was freed.
  void forget_asleep(const LiveBlock& block) { ranges_.erase(block.address); }

  // From now on it is not known what is waited for.
  void forget_uses() { busy_.clear(); }
  // A live block, or work that is under way, has a byte of the range; ends the process. Blocks of one
  // pool, if there is such a pool, may lie there.
  void require_unused(cachalot_address address, uint64_t size, const char* what,
                      const PoolKey* but = nullptr);
  bool is_live(cachalot_address address) const { return ranges_.count(address) != 0; }

 private:
  // Freed, while work that was queued before may still use it.
  struct Busy {
    cachalot_address begin;
    cachalot_address end;
    cachalot_stream stream;
    int32_t device;
    uint64_t ticket;
  };
  void note_uses(const LiveBlock& block);
  void hand_out(const LiveBlock& block);

  Machine& machine_;
  std::vector<DeviceModel> devices_;
  std::vector<LiveBlock> live_;
  struct Range {
    cachalot_address end;
    PoolKey pool;
  };
  std::map<cachalot_address, Range> ranges_;  // by their begins; also of blocks that sleep
  std::vector<Busy> busy_;
};

}  // namespace cachalot_test
