// SPDX-License-Identifier: MIT OR Apache-2.0
#include "alloc/sharing/share_client.h"

#include <utility>

#include "base/error.h"
#include "device/address_range.h"

namespace cachalot {
namespace {

[[noreturn]] void throw_no_answer() {
  throw_invalid_state("the process that shared the block gives no answer that can be understood");
}

bool is_known(int32_t handle_type) {
  return handle_type == static_cast<int32_t>(HandleType::kPosixFd) ||
         handle_type == static_cast<int32_t>(HandleType::kFabric);
}

}  // namespace

ShareClient::Connection::~Connection() {
  ShareRequest request;
  request.call = ShareCall::kDone;
  socket.send(message_of(request));  // a sharer that is gone needs no word
}

// The sharer counts this process from its reply on; the connection ends that, also where the rest fails.
ShareClient::ShareClient(const Ticket& ticket)
    : connection_(LocalSocket::connect(socket_name(ticket.server))) {
  const auto reply = read_message<OpenReply>(ask(ShareCall::kOpen, 0, ticket.block).bytes);
  if (!reply) throw_no_answer();
  if (reply->is_open == 0)
    throw_invalid_state("the block is not shared any more, or never was under this ticket");
  read(*reply);
}

Packet ShareClient::ask(ShareCall call, uint64_t first_page, const Token& block) {
  ShareRequest request;
  request.call = call;
  request.first_page = first_page;
  request.block = block;
  if (!connection_.socket.send(message_of(request))) throw_no_answer();
  return connection_.socket.receive();
}

// Numbers of another process: none is used before it was looked at.
void ShareClient::read(const OpenReply& reply) {
  block_.offset = reply.offset;
  block_.size = reply.size;
  if (reply.handle_type == static_cast<int32_t>(HandleType::kNone)) {
    block_.memory = reply.segment;
    return;
  }
  const bool is_possible = is_known(reply.handle_type) && reply.page_size != 0 &&
                           reply.pages != 0 && reply.pages <= kAddressEnd / reply.page_size &&
                           reply.offset < reply.pages * reply.page_size;
  if (!is_possible) throw_no_answer();
  SharedPages pages{.process = {},
                    .page_size = reply.page_size,
                    .type = static_cast<HandleType>(reply.handle_type),
                    .handles = {}};
  fetch_pages(&pages, reply.pages);
  block_.memory = std::move(pages);
}

// Packet by packet. A packet has handles of all its pages and a descriptor for each, or is refused.
void ShareClient::fetch_pages(SharedPages* pages, uint64_t count) {
  while (pages->handles.size() < count) {
    Packet packet = ask(ShareCall::kPages, pages->handles.size(), {});
    const size_t got = packet.bytes.size() / sizeof(ShareableHandle);
    const bool has_descriptors = pages->type == HandleType::kPosixFd;
    if (got == 0 || got > count - pages->handles.size() ||
        packet.bytes.size() % sizeof(ShareableHandle) != 0 ||
        packet.descriptors.size() != (has_descriptors ? got : 0))
      throw_no_answer();
    for (size_t i = 0; i < got; i++) {
      ShareableHandle handle;
      std::memcpy(handle.bytes, packet.bytes.data() + i * sizeof handle, sizeof handle);
      if (has_descriptors) {
        handle = ShareableHandle::of_descriptor(packet.descriptors[i].number());
        descriptors_.push_back(std::move(packet.descriptors[i]));
      }
      pages->handles.push_back(handle);
    }
  }
}

}  // namespace cachalot
