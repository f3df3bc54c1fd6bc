// SPDX-License-Identifier: MIT OR Apache-2.0
#include "alloc/native/block_exchange.h"

#include <mutex>
#include <string>

#include "base/error.h"
#include "base/text.h"

namespace cachalot {

// ---- Blocks of this allocator

Ticket BlockExchange::share(Address address) {
  const SharedBlock block = sharing_.hold(address);
  try {
    const std::lock_guard lock(lock_);
    if (!server_) server_ = std::make_unique<ShareServer>(free_);
    return server_->add(address, block);
  } catch (...) {
    sharing_.end_hold(address);
    throw;
  }
}

// Its blocks are freed outside of the lock, by the server.
ShareServer* BlockExchange::server_if_used() {
  const std::lock_guard lock(lock_);
  return server_.get();
}

void BlockExchange::end(const Ticket& ticket) {
  if (ShareServer* const server = server_if_used()) server->end(ticket.block);
}

uint64_t BlockExchange::users(const Ticket& ticket) {
  ShareServer* const server = server_if_used();
  return server != nullptr ? server->users(ticket.block) : 0;
}

// Outside of the lock, since the thread that is waited for may be freeing a block.
void BlockExchange::stop() {
  std::unique_ptr<ShareServer> stopped;  // goes behind the lock
  {
    const std::lock_guard lock(lock_);
    stopped = std::move(server_);
  }
}

// ---- Blocks of others

// A driver opens a segment once a device, whichever of its blocks is meant. Pages are opened as often as they are asked
// for: the numbers of descriptors say nothing. Where the driver refuses the memory the client goes, and with it the use
// that the sharer counted.
OpenedBlock BlockExchange::open(int device, std::string_view ticket) {
  OpenedBlock opened{.client = std::make_unique<ShareClient>(Ticket::of(ticket)), .device = device};
  const SharedBlock& block = opened.client->block();
  const bool is_segment = std::holds_alternative<ShareableHandle>(block.memory);
  opened.memory = sharing_.open(
      device, is_segment ? sharing_.name_of(block.memory) : std::string(ticket), block.memory);
  opened.client->close_descriptors();
  opened.address = opened.memory + block.offset;
  opened.size = block.size;
  return opened;
}

// A device that is lost has no work to wait for, so its answer does not matter.
void BlockExchange::close(const OpenedBlock& block) {
  driver_.device_synchronize(block.device);
  sharing_.close(block.memory);
}

}  // namespace cachalot
