// SPDX-License-Identifier: MIT OR Apache-2.0
// Requests that were refused before the driver was asked (2.12).
#pragma once

namespace oracle {

void observe_rejections();

// Writes what the observers have seen since the last call. They run in threads of their own, so
// this waits until all have reported.
void report_rejections();

}  // namespace oracle
