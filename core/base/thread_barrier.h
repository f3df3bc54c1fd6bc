// SPDX-License-Identifier: MIT OR Apache-2.0
// The expensive half of an agreement whose other half costs its threads a store and a load.
#pragma once

namespace cachalot {

// A full barrier on every running thread of the process; false where the system refuses it.
bool barrier_on_all_threads();

}  // namespace cachalot
