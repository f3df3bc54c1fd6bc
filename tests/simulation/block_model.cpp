// SPDX-License-Identifier: MIT OR Apache-2.0
#include "block_model.h"

namespace cachalot_test {
namespace {

constexpr size_t kMostBusy = 256;

std::string hex_range(cachalot_address begin, cachalot_address end) {
  char text[64];
  std::snprintf(text, sizeof text, "[0x%llx, 0x%llx)", static_cast<unsigned long long>(begin),
                static_cast<unsigned long long>(end));
  return text;
}

}  // namespace

void BlockModel::add(const LiveBlock& block) {
  require_unused(block.address, std::max<uint64_t>(block.size, 1), "handed out");
  ranges_[block.address] = {block.address + block.size, block.pool};
  hand_out(block);
}

void BlockModel::hand_out(const LiveBlock& block) {
  live_.push_back(block);
  DeviceModel& model = device(block.device);
  if (block.is_uncached) {
    model.uncached_bytes += block.size;
    return;
  }
  model.blocks.add(1);
  model.bytes.add(static_cast<int64_t>(block.size));
  model.requested += static_cast<int64_t>(block.requested);
}

LiveBlock BlockModel::take(size_t index) {
  const LiveBlock block = live_[index];
  live_[index] = live_.back();
  live_.pop_back();
  ranges_.erase(block.address);
  return block;
}

void BlockModel::freed(const LiveBlock& block) {
  DeviceModel& model = device(block.device);
  if (block.is_uncached) {
    model.uncached_bytes -= block.size;
    return;
  }
  model.blocks.take(1);
  model.bytes.take(static_cast<int64_t>(block.size));
  note_uses(block);
}

void BlockModel::put_back(const LiveBlock& block) {
  ranges_[block.address] = {block.address + block.size, block.pool};
  live_.push_back(block);
}

std::vector<LiveBlock> BlockModel::fall_asleep(const PoolKey& pool) {
  std::vector<LiveBlock> asleep;
  for (size_t i = 0; i < live_.size();) {
    if (!(live_[i].pool == pool)) {
      i++;
      continue;
    }
    DeviceModel& model = device(pool.device);
    model.blocks.take(1);
    model.bytes.take(static_cast<int64_t>(live_[i].size));
    live_[i].use_count = 0;
    asleep.push_back(live_[i]);
    live_[i] = live_.back();
    live_.pop_back();
  }
  return asleep;
}

void BlockModel::wake(const std::vector<LiveBlock>& blocks) {
  for (const LiveBlock& block : blocks) hand_out(block);
}

void BlockModel::note_uses(const LiveBlock& block) {
  if (busy_.size() > kMostBusy) busy_.clear();
  for (uint32_t i = 0; i < block.use_count; i++) {
    const Use& use = block.uses[i];
    const uint64_t ticket = machine_.queued(block.device, use.stream);
    if (!use.must_wait || machine_.finished(block.device, use.stream) >= ticket) continue;
    busy_.push_back({block.address, block.address + block.size, use.stream, block.device, ticket});
  }
}

void BlockModel::require_unused(cachalot_address address, uint64_t size, const char* what,
                                const PoolKey* but) {
  const cachalot_address end = address + size;
  auto range = ranges_.lower_bound(address);
  if (range != ranges_.begin() && std::prev(range)->second.end > address) --range;
  for (; range != ranges_.end() && range->first < end; ++range) {
    const auto& [begin, row] = *range;
    if (but != nullptr && row.pool == *but) continue;
    report_defect(hex_range(address, end) + " is " + what + " while " + hex_range(begin, row.end) +
                  " is live");
  }
  for (size_t i = 0; i < busy_.size();) {
    const Busy& busy = busy_[i];
    if (machine_.finished(busy.device, busy.stream) >= busy.ticket) {
      busy_[i] = busy_.back();
      busy_.pop_back();
      continue;
    }
    if (busy.begin < end && address < busy.end)
      report_defect(hex_range(address, end) + " is " + what + " while a stream still uses " +
                    hex_range(busy.begin, busy.end));
    i++;
  }
}

}  // namespace cachalot_test
