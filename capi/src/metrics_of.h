// SPDX-License-Identifier: MIT OR Apache-2.0
// What the metrics page shows of an allocator.
#pragma once

#include "alloc/allocator.h"
#include "alloc/tools/metrics.h"

namespace cachalot::capi {

Metrics metrics_of(Allocator& core);
// With figures of one device only, and without what the driver would have to be asked: that could make a context.
Metrics metrics_of_device(Allocator& core, int device);

}  // namespace cachalot::capi
