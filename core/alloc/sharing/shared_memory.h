// SPDX-License-Identifier: MIT OR Apache-2.0
// What a process has to know to open memory of another one, and the bytes that it travels
// in [core 23.2, exp 7.3, R61].
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "alloc/config/rules.h"
#include "device/device.h"

namespace cachalot {

// Note [The bytes of shared memory]
// They are the reference's, so that its processes and ours open each other's memory.
// Numbers are in the machine's byte order.
//
//   version            1   2 in release 2.11, 3 in 2.15 (R61)
//   kind of memory     1   c: a plain segment, e: pages
//   of a segment:
//     handle          64   the driver's
//   of pages:
//     process          4   whose descriptors follow; of fabric handles it says nothing
//     padding          4
//     bytes of a page  8
//     pages            8
//     kind of handles  4   since version 3: 1 descriptors, 2 fabric handles
//     padding          4   since version 3
//     handles              4 bytes each of descriptors, 64 of fabric handles
//
// 64 bytes without the first two are a segment's handle alone. Of an older version, which
// does not say the kind of its handles, only one of the two fits the length.

// Neighbouring pages of an expandable segment.
struct SharedPages {
  std::optional<int32_t> process;  // whose descriptors the handles are; none: our own
  uint64_t page_size = 0;
  HandleType type = HandleType::kPosixFd;
  std::vector<ShareableHandle> handles;  // one a page

  uint64_t bytes() const { return page_size * handles.size(); }
};

// A whole plain segment, by the driver's handle, or pages.
using SharedMemory = std::variant<ShareableHandle, SharedPages>;

struct SharedBlock {
  SharedMemory memory;
  uint64_t offset = 0;  // of the block from the beginning of that memory
  uint64_t size = 0;
};

// The reference's bytes. One memory has one text: padding is 0 (U15).
std::string to_bytes(const SharedMemory& memory, const Rules& rules);
// Throws Error for bytes that are no such text. process is as the text says.
SharedMemory read_shared_memory(std::string_view bytes, const Rules& rules);

}  // namespace cachalot
