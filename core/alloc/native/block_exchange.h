// SPDX-License-Identifier: MIT OR Apache-2.0
// Shared blocks with lifetimes (sharing/share_server.h): those of this allocator, and those
// of others that are open here.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>

#include "alloc/native/memory_sharing.h"
#include "alloc/sharing/share_client.h"
#include "alloc/sharing/share_server.h"
#include "base/mutex.h"

namespace cachalot {

// Note [Two ways to share]
// The reference's bytes (memory_sharing.h) say where memory is and nothing of how long.
// PyTorch leaves that to its package for processes, which counts references in a file. A C
// library has no such package, so blocks that are shared here have their lifetimes with
// them: the sharer gives its block away to this object, and gets a ticket. A process that has the
// ticket asks the sharer's for the handles, over a connection that lasts as long as
// the use.
//   Descriptors go through the connection. So no process looks into another one's, which systems
// forbid more often than not, and a ticket works between containers that share their
// network.

// A block of another process, which is held for this one as long as the client lives.
struct OpenedBlock {
  std::unique_ptr<ShareClient> client;
  Address memory = 0;  // where the memory under the block begins here
  Address address = 0;
  uint64_t size = 0;
  int device = 0;
};

// Owned by its allocator; a handle of one of its blocks holds a weak reference. Every function
// throws Error; any thread.
class BlockExchange {
 public:
  // free: frees a block of the allocator, without an exception. All of it outlives this.
  BlockExchange(Driver& driver, MemorySharing& sharing, ShareServer::Free free)
      : driver_(driver), sharing_(sharing), free_(std::move(free)) {}

  // The block is the exchange's from now on: no free of its caller's frees it.
  Ticket share(Address address);
  // The block is freed when no process has it open any more, which may be at once.
  void end(const Ticket& ticket);
  uint64_t users(const Ticket& ticket);

  OpenedBlock open(int device, std::string_view ticket);
  // Waits for the device, since its work may use the block. The sharer is told when the
  // client goes.
  void close(const OpenedBlock& block);

  // Ends all connections: openers see it as the end of this process. Blocks stay where they
  // are.
  void stop();

 private:
  ShareServer* server_if_used();

  Driver& driver_;
  MemorySharing& sharing_;
  const ShareServer::Free free_;
  Mutex lock_{LockRank::kOpenedBlocks};
  std::unique_ptr<ShareServer> server_;  // made at the first use
};

}  // namespace cachalot
