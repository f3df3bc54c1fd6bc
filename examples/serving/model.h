// SPDX-License-Identifier: MIT OR Apache-2.0
// A model of a server as the allocator sees it: weights that stay, memory of requests that are being
// served, and a cache of finished ones that it can do without.
#pragma once

#include <cachalot/cachalot.h>

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

namespace serving {

inline constexpr uint64_t MiB = uint64_t{1} << 20;
inline constexpr uint64_t GiB = uint64_t{1} << 30;

// Milliseconds of the simulated clock.
using Time = uint64_t;

struct ModelPlan {
  std::string name;
  uint64_t weights;  // bytes
  uint64_t guaranteed;
  int32_t priority;
  // Of a request: pages, how large they are, and how long it takes.
  uint64_t fewest_pages;
  uint64_t most_pages;
  uint64_t page;
  Time takes;
  // How long the pages of a finished request stay, in case it is asked again.
  Time keeps;
};

class Model {
 public:
  // Loads the weights. As a tenant: what it can do without is given up when the allocator asks.
  Model(cachalot_allocator* allocator, const ModelPlan& plan, bool is_tenant);
  ~Model();
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  // False: refused for lack of memory.
  bool serve(uint64_t pages, Time now);
  // Finishes requests, and forgets what was kept long enough.
  void tick(Time now);

  const ModelPlan& plan() const { return plan_; }
  uint64_t bytes() const { return bytes_; }
  uint64_t refusals() const { return refusals_; }
  // Of these, with less than the guarantee at that moment.
  uint64_t broken_guarantees() const { return broken_guarantees_; }
  // What the allocator says that it has; bytes() if it is no tenant.
  uint64_t counted_bytes() const;

 private:
  using Pages = std::vector<cachalot_address>;
  struct Kept {
    Pages pages;
    Time until;
  };

  cachalot_address allocate(uint64_t size);
  void free(Pages& pages);
  uint64_t give(uint64_t bytes);

  cachalot_allocator* const allocator_;
  const ModelPlan plan_;
  cachalot_tenant* tenant_ = nullptr;
  Pages weights_;
  std::multimap<Time, Pages> running_;  // by the time of their end
  std::deque<Kept> kept_;               // the oldest first
  uint64_t bytes_ = 0;
  uint64_t refusals_ = 0;
  uint64_t broken_guarantees_ = 0;
};

// Ends the program if a call has not done what it must.
void require(cachalot_status status, const cachalot_error& error);

}  // namespace serving
