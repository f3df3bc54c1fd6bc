// SPDX-License-Identifier: MIT OR Apache-2.0
// The other end of share_server.h: a block that another process shares.
#pragma once

#include <utility>
#include <vector>

#include "alloc/sharing/local_socket.h"
#include "alloc/sharing/share_messages.h"
#include "alloc/sharing/shared_memory.h"
#include "alloc/sharing/ticket.h"

namespace cachalot {

// The block is held for this process from the creation of this object to its end. By then
// nothing of this process uses it any more.
class ShareClient {
 public:
  // Throws Error where the block, or the process that shared it, is gone.
  explicit ShareClient(const Ticket& ticket);

  // Its descriptors are this object's.
  const SharedBlock& block() const { return block_; }
  // They have been used.
  void close_descriptors() { descriptors_.clear(); }
  // Whether the process that shared it is still there.
  bool is_sharer_alive() const { return connection_.socket.is_connected(); }

 private:
  // Tells the sharer when this process is done, also where the block could not be opened.
  struct Connection {
    explicit Connection(LocalSocket connected) : socket(std::move(connected)) {}
    ~Connection();
    Connection(const Connection&) = delete;
    Connection& operator=(const Connection&) = delete;

    const LocalSocket socket;
  };

  Packet ask(ShareCall call, uint64_t first_page, const Token& block);
  void read(const OpenReply& reply);
  void fetch_pages(SharedPages* pages, uint64_t count);

  const Connection connection_;
  SharedBlock block_;
  std::vector<Descriptor> descriptors_;
};

}  // namespace cachalot
