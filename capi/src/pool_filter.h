// SPDX-License-Identifier: MIT OR Apache-2.0
// Which requests a caller routes to a pool.
#pragma once

#include <memory>

#include "alloc/pools/pool_route.h"
#include "cachalot/pool.h"

namespace cachalot::capi {

// A route as the caller gave it, with its data, which is given back whatever comes. To be made before anything
// else can throw.
class CallerRoute {
 public:
  // NULL: requests of this thread.
  explicit CallerRoute(const cachalot_pool_route* route);

  // Keeps the caller's data until it goes.
  PoolFilter filter(Driver& driver, int device) const;

 private:
  const cachalot_pool_route route_;
  const std::shared_ptr<void> user_data_;
};

}  // namespace cachalot::capi
