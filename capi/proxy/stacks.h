// SPDX-License-Identifier: MIT OR Apache-2.0
// Where in the program a call is made: stacks of return addresses, each written once (docs/trace-format.md).
#pragma once

#include <array>
#include <cstdio>
#include <string>
#include <unordered_map>

#include "alloc/trace/history.h"
#include "base/mutex.h"
#include "loaded_code.h"

namespace cachalot::proxy {

class Recording;

#ifdef CACHALOT_HAS_STACKS

class Stacks {
 public:
  static constexpr size_t kMostFrames = 128;

  // frames: how many of each stack are kept; 0: no stacks are taken.
  Stacks(size_t frames, Recording* recording);

  // The number of this thread's stack. What the recording does not know of it yet is written first.
  ContextId of_this_thread();
  // Writes again what the recording has to know of them. Nobody takes one meanwhile.
  void write_all();

 private:
  struct Shard {
    Mutex mutex{LockRank::kStacks};
    std::unordered_map<ContextId, std::string> known;  // with its frames
  };

  size_t walk(std::array<uint64_t, kMostFrames>* frames);
  void add(ContextId context, const uint64_t* frames, size_t count);
  void write(ContextId context, const std::string& frames);
  void write(const CodeFile& file);

  const size_t frames_;
  Recording* const recording_;
  LoadedCode code_;
  std::array<Shard, 16> shards_;
};

#else

// Without the unwinder.
class Stacks {
 public:
  Stacks(size_t frames, Recording*) {
    if (frames != 0)
      std::fprintf(stderr, "cachalot: no stacks are taken: this build has no unwinder (Cargo)\n");
  }
  ContextId of_this_thread() { return kNoContext; }
  void write_all() {}
};

#endif

}  // namespace cachalot::proxy
