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

// What the library keeps of each block, which changes no decision.
enum class Attribution { kNone, kLabels, kTenants, kHistory };

struct LibraryOptions {
  ServingOptions serving;
  uint64_t divisions = 0;  // roundup_power2_divisions
  Release release = Release::k2_15;
  bool checks_every_call = false;
  bool tries_hits = true;  // as programs do; else the general path has all calls
  Attribution attribution = Attribution::kNone;
};

class Library {
 public:
  Library(std::shared_ptr<NotingDriver> driver, const LibraryOptions& options);
  ~Library();
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  Allocator& allocator() { return *allocator_; }
  Address allocate(uint64_t size, Stream stream);
  void free(Address address);
  Picture picture();
  Numbers numbers();

 private:
  const LibraryOptions options_;
  DeviceState* device_ = nullptr;
  const ServingPolicy* policy_ = nullptr;
  std::unique_ptr<Allocator> allocator_;
  std::shared_ptr<Tenant> tenant_;
};

}  // namespace cachalot::policy_model
