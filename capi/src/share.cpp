// SPDX-License-Identifier: MIT OR Apache-2.0
// Memory between processes.
#include "cachalot/share.h"

#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "alloc/native/block_exchange.h"
#include "alloc/native/memory_sharing.h"
#include "core_of.h"

// Both hold the exchange weakly: it goes with its allocator.
struct cachalot_shared_block : cachalot::capi::Handle<cachalot::capi::HandleKind::kSharedBlock> {
  std::weak_ptr<cachalot::BlockExchange> exchange;
  cachalot::Ticket ticket;
};

struct cachalot_opened_block : cachalot::capi::Handle<cachalot::capi::HandleKind::kOpenedBlock> {
  std::weak_ptr<cachalot::BlockExchange> exchange;
  cachalot::OpenedBlock block;
};

using namespace cachalot;
using namespace cachalot::capi;

// ---- Blocks with lifetimes

cachalot_status cachalot_shared_block_create(cachalot_allocator* allocator,
                                             cachalot_address address,
                                             cachalot_shared_block** out_shared,
                                             cachalot_error* error) {
  return guard(error, [&] {
    const auto& exchange = core_of(allocator).exchange("shareIpcHandle");
    cachalot_shared_block*& out = require(out_shared, "out_shared");
    auto shared = std::make_unique<cachalot_shared_block>();
    shared->ticket = exchange->share(address);
    shared->exchange = exchange;
    out = shared.release();
  });
}

cachalot_status cachalot_shared_block_ticket(const cachalot_shared_block* shared, char* buffer,
                                             size_t capacity, size_t* out_length,
                                             cachalot_error* error) {
  return guard(error, [&] {
    write_text(buffer, capacity, out_length, require(shared, "shared").ticket.text());
  });
}

size_t cachalot_shared_block_users(const cachalot_shared_block* shared) {
  const auto exchange = live_or_null(shared) ? shared->exchange.lock() : nullptr;
  return exchange ? static_cast<size_t>(exchange->users(shared->ticket)) : 0;
}

void cachalot_shared_block_destroy(cachalot_shared_block* shared) {
  const std::unique_ptr<cachalot_shared_block> ended(live_or_null(shared));
  const auto exchange = ended ? ended->exchange.lock() : nullptr;
  if (exchange) exchange->end(ended->ticket);
}

cachalot_status cachalot_opened_block_create(cachalot_allocator* allocator, int32_t device,
                                             const char* ticket, cachalot_opened_block** out_opened,
                                             cachalot_error* error) {
  return guard(error, [&] {
    const auto& exchange = core_of(allocator).exchange("getIpcDevPtr");
    if (ticket == nullptr) throw_null("ticket");
    cachalot_opened_block*& out = require(out_opened, "out_opened");
    auto opened = std::make_unique<cachalot_opened_block>();
    opened->block = exchange->open(device, ticket);
    opened->exchange = exchange;
    out = opened.release();
  });
}

cachalot_status cachalot_opened_block_address(const cachalot_opened_block* opened,
                                              cachalot_address* out_address, uint64_t* out_size,
                                              cachalot_error* error) {
  return guard(error, [&] {
    const cachalot_opened_block& in = require(opened, "opened");
    cachalot_address& out = require(out_address, "out_address");
    if (in.exchange.expired())
      throw_invalid_state("the allocator that opened the block is gone, and the memory with it");
    out = in.block.address;
    if (out_size != nullptr) *out_size = in.block.size;
  });
}

int32_t cachalot_opened_block_has_sharer(const cachalot_opened_block* opened) {
  return live_or_null(opened) && opened->block.client->is_sharer_alive() ? 1 : 0;
}

// The memory is closed before the sharer hears of it.
void cachalot_opened_block_destroy(cachalot_opened_block* opened) {
  const std::unique_ptr<cachalot_opened_block> ended(live_or_null(opened));
  const auto exchange = ended ? ended->exchange.lock() : nullptr;
  if (exchange) guard(nullptr, [&] { exchange->close(ended->block); });
}

// ---- PyTorch's bytes

cachalot_status cachalot_share(cachalot_allocator* allocator, cachalot_address address,
                               void* buffer, size_t capacity, size_t* out_size,
                               uint64_t* out_offset, cachalot_error* error) {
  return guard(error, [&] {
    MemorySharing& sharing = core_of(allocator).sharing("shareIpcHandle");
    if (capacity > 0 && buffer == nullptr) throw_null("buffer");
    size_t& size = require(out_size, "out_size");
    uint64_t& offset = require(out_offset, "out_offset");
    uint64_t block_offset = 0;
    const std::string bytes = sharing.share_as_bytes(address, &block_offset);
    if (bytes.size() <= capacity) std::memcpy(buffer, bytes.data(), bytes.size());
    size = bytes.size();
    offset = block_offset;
  });
}

cachalot_status cachalot_open_shared(cachalot_allocator* allocator, int32_t device,
                                     const void* shared, size_t size, cachalot_address* out_address,
                                     cachalot_error* error) {
  return guard(error, [&] {
    MemorySharing& sharing = core_of(allocator).sharing("getIpcDevPtr");
    if (shared == nullptr) throw_null("shared");
    cachalot_address& out = require(out_address, "out_address");
    out = sharing.open_bytes(device, std::string_view(static_cast<const char*>(shared), size));
  });
}

cachalot_status cachalot_close_shared(cachalot_allocator* allocator, cachalot_address address,
                                      cachalot_error* error) {
  return guard(error, [&] { core_of(allocator).sharing("getIpcDevPtr").close(address); });
}
