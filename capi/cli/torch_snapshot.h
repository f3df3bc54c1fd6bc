// SPDX-License-Identifier: MIT OR Apache-2.0
// Snapshots of PyTorch's (torch.cuda.memory._dump_snapshot, or a pickled memory_snapshot) as traces.
#pragma once

#include <string>

namespace cachalot::cli {

// bytes: of the file. Throws Failure. Time and memory grow with the size of the file.
std::string trace_of_snapshot(std::string bytes);

}  // namespace cachalot::cli
