// SPDX-License-Identifier: MIT OR Apache-2.0
// What the metrics page shows of an allocator.
#pragma once

#include "alloc/allocator.h"
#include "alloc/tools/metrics.h"

namespace cachalot::capi {

Metrics metrics_of(Allocator& core);

}  // namespace cachalot::capi
