// SPDX-License-Identifier: MIT OR Apache-2.0
// Snapshots in the form of torch.cuda.memory._dump_snapshot, which PyTorch's memory_viz reads: a pickle of plain
// dictionaries, lists, texts and numbers.
//
//   segments              a dictionary for each segment, or mapped range of an expandable one, with
//                         its blocks
//   device_traces         for each device a list of the entries of its history, the oldest first
//   allocator_settings    the option string, and the values in force
//   external_annotations  empty: scopes of PyTorch's profiler
//
// A stack is a list of frames, each a dictionary of a function's name, a file's name and a line.
// Blocks and entries with the same context share one list, which the pickle has once.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "alloc/trace/contexts.h"
#include "alloc/trace/snapshot.h"

namespace cachalot {

// describe: what a context means, one frame a line; a line "FILE:LINE:FUNCTION" tells all three, any other is the
// function's name. May be empty.
// write: gets the bytes in pieces; what it throws is passed on.
void write_snapshot_pickle(const Snapshot& snapshot,
                           const std::function<std::string(ContextId)>& describe,
                           const std::function<void(std::string_view bytes)>& write);

}  // namespace cachalot
