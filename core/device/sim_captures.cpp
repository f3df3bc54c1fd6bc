// SPDX-License-Identifier: MIT OR Apache-2.0
#include "device/sim_captures.h"

#include <algorithm>

#include "base/assert.h"

namespace cachalot {
namespace {

constexpr uint64_t kFirstNode = 0x9010;
constexpr uint64_t kNodeStep = 0x10;

}  // namespace

void SimCaptures::begin(Stream stream, uint64_t capture_id) {
  CACHALOT_ASSERT(1, capture_id > 0);
  streams_[stream] = {capture_id, {}};
}

void SimCaptures::end(uint64_t capture_id) {
  for (auto& [stream, captured] : streams_) {
    if (captured.capture_id == capture_id) captured = {};
  }
}

void SimCaptures::add_node(Stream stream) {
  std::vector<uint64_t>& ends = streams_[stream].end_nodes;
  nodes_.push_back(ends);
  ends = {kFirstNode + kNodeStep * (nodes_.size() - 1)};
}

void SimCaptures::fork(Stream from, Stream to) {
  const Captured captured = streams_[from];
  streams_[to] = captured;
}

void SimCaptures::join(Stream into, Stream other) {
  const std::vector<uint64_t> others = streams_[other].end_nodes;
  std::vector<uint64_t>& ends = streams_[into].end_nodes;
  for (const uint64_t node : others) {
    if (std::find(ends.begin(), ends.end(), node) == ends.end()) ends.push_back(node);
  }
}

CaptureInfo SimCaptures::info(Stream stream) const {
  const auto found = streams_.find(stream);
  if (found == streams_.end()) return {};
  const auto& [capture_id, end_nodes] = found->second;
  return {capture_id != 0, capture_id, capture_id << 4, end_nodes};
}

std::vector<uint64_t> SimCaptures::dependencies(uint64_t node) const {
  if (node < kFirstNode || (node - kFirstNode) % kNodeStep != 0) return {};
  const uint64_t index = (node - kFirstNode) / kNodeStep;
  return index < nodes_.size() ? nodes_[index] : std::vector<uint64_t>();
}

}  // namespace cachalot
