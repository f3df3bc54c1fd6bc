// SPDX-License-Identifier: MIT OR Apache-2.0
// Graph captures of a simulated device: which streams are captured, and the nodes of the graphs.
#pragma once

#include <unordered_map>
#include <vector>

#include "device/device.h"

namespace cachalot {

class SimCaptures {
 public:
  // pre: capture_id > 0.
  void begin(Stream stream, uint64_t capture_id);
  void end(uint64_t capture_id);  // for every stream in it
  // A new node depends on the stream's end nodes and takes their place.
  void add_node(Stream stream);
  void fork(Stream from, Stream to);
  void join(Stream into, Stream other);

  CaptureInfo info(Stream stream) const;
  std::vector<uint64_t> dependencies(uint64_t node) const;

 private:
  struct Captured {
    uint64_t capture_id = 0;  // 0: the stream is not captured
    std::vector<uint64_t> end_nodes;
  };

  std::unordered_map<Stream, Captured> streams_;
  // The nodes that each node depends on, in the order in which the nodes were made.
  std::vector<std::vector<uint64_t>> nodes_;
};

}  // namespace cachalot
