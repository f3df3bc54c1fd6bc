// SPDX-License-Identifier: MIT OR Apache-2.0
// The library under the same calls as the model, with a look inside.
#pragma once

#include <memory>
#include <optional>

#include "alloc/allocator.h"
#include "alloc/serving/serving_policy.h"
#include "noting_driver.h"
#include "picture.h"

namespace cachalot::policy_model {

struct LibraryOptions {
  ServingOptions serving;
  uint64_t divisions = 0;  // roundup_power2_divisions
  Release release = Release::k2_15;
  bool checks_every_call = false;
};

class Library {
 public:
  Library(std::shared_ptr<NotingDriver> driver, const LibraryOptions& options);

  Allocator& allocator() { return *allocator_; }
  // As the C interface does: a hit is tried first.
  Address allocate(uint64_t size, Stream stream);
  void free(Address address);
  Picture picture();
  Numbers numbers();

 private:
  DeviceState* device_ = nullptr;
  const ServingPolicy* policy_ = nullptr;
  std::unique_ptr<Allocator> allocator_;
};

}  // namespace cachalot::policy_model
