// SPDX-License-Identifier: MIT OR Apache-2.0
// What a seed chooses of a run.
#pragma once

#include <string>

#include "../test_seed.h"
#include "library.h"
#include "model.h"

namespace cachalot::policy_model {

enum class Sizes { kFew, kNearThresholds, kOfAnyMagnitude, kEven };

struct Setup {
  uint64_t capacity;
  uint64_t streams;
  uint64_t largest_request;
  uint64_t most_live;  // blocks, about
  Sizes sizes;
  bool has_failures;  // of the driver
  bool has_captures;
  bool has_pools;
  bool has_pins;
  bool has_ends;  // of streams
  LibraryOptions library;

  ModelOptions model(Fault fault) const;
  std::string text() const;
};

Setup setup_of(uint64_t seed);

}  // namespace cachalot::policy_model
