// SPDX-License-Identifier: MIT OR Apache-2.0
// What the two ends of a shared block's connection say. Both are processes of one machine;
// their libraries may differ.
//
//   opener  kOpen with the block's token        sharer  OpenReply: what the memory is, or that there is no such block
//   opener  kPages from a number on             sharer  handles of at most kMostDescriptors pages
//   opener  kDone                               (nothing: the opener has closed the block)
// The block is held for the opener from the reply to kOpen on, until kDone or the end of
// the opener's process.
#pragma once

#include <cstdint>
#include <cstring>
#include <optional>
#include <string>

#include "alloc/sharing/ticket.h"
#include "device/device.h"

namespace cachalot {

inline constexpr uint32_t kShareProtocol = 0x63423101;  // and its version, the last byte

enum class ShareCall : uint32_t { kOpen = 1, kPages = 2, kDone = 3 };

struct ShareRequest {
  uint32_t protocol = kShareProtocol;
  ShareCall call = ShareCall::kOpen;
  // Of kPages: the number of the first page that is asked for.
  uint64_t first_page = 0;
  // Of kOpen. Later requests mean the block that the connection has opened.
  Token block{};
};
static_assert(sizeof(ShareRequest) == 32);

struct OpenReply {
  uint32_t protocol = kShareProtocol;
  uint32_t is_open = 0;     // 0: no such block
  int32_t handle_type = 0;  // of its pages; kNone: it lies in a plain segment
  uint32_t reserved = 0;
  // Where the block begins in the memory that is opened, and how many bytes were asked for.
  uint64_t offset = 0;
  uint64_t size = 0;
  // Of pages. Their handles come by kPages, since a packet has room for some of them only.
  uint64_t page_size = 0;
  uint64_t pages = 0;
  // Of a plain segment.
  ShareableHandle segment;
};
static_assert(sizeof(OpenReply) == 112);

template <class T>
std::string message_of(const T& value) {
  return std::string(reinterpret_cast<const char*>(&value), sizeof value);
}

// Nothing: the bytes are not of this protocol.
template <class T>
std::optional<T> read_message(const std::string& bytes) {
  T value;
  if (bytes.size() != sizeof value) return {};
  std::memcpy(&value, bytes.data(), sizeof value);
  return value.protocol == kShareProtocol ? std::optional(value) : std::nullopt;
}

}  // namespace cachalot
