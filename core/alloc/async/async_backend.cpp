// SPDX-License-Identifier: MIT OR Apache-2.0
#include "alloc/async/async_backend.h"

#include <mutex>
#include <unordered_set>

#include "base/error.h"
#include "base/text.h"
#include "device/device_count.h"
#include "device/driver_error.h"

namespace cachalot {

AsyncBackend::AsyncBackend(SharedState& shared)
    : shared_(shared), driver_(shared.driver), capture_(shared.driver) {
  if (!driver_.supports_memory_pools()) {
    throw_not_supported(
        std::string("backend:cudaMallocAsync needs stream-ordered memory, which the driver ") +
        driver_.name() + " does not have");
  }
  if (shared_.debug.any())
    throw_not_supported("backend:cudaMallocAsync has no blocks of ours to watch: no debugging");
  {
    const auto lock = shared_.settings.lock();
    shared_.settings.current().is_backend_async = true;
  }
  for (int i = 0; i < driver_.device_count(); i++)
    devices_.push_back(std::make_unique<AsyncDevice>(shared_, i, lock_, capture_));
  blocks_.reserve(16);  // an empty table has room for none, whatever reserve_row() is told
}

// Waits for the work first: the frees are issued on the streams that made the blocks, whatever
// streams used them.
AsyncBackend::~AsyncBackend() {
  for (int i = 0; i < driver_.device_count(); i++)
    if (at(i).is_prepared()) driver_.device_synchronize(i);
  free_quietly();
  for (const auto& d : devices_)
    if (d->is_prepared()) d->close();
}

DeviceBackend& AsyncBackend::device(int index) {
  require_device(index, static_cast<int>(devices_.size()));
  return at(index);
}

void AsyncBackend::raise_pending_error(int device) {
  require_success(driver_, driver_.take_pending_error(device));
}

// ---- Allocate

Address AsyncBackend::allocate(const Request& request) {
  if (request.at != 0) refuse("allocateWithAddress");
  require_one_stream(request.stream);
  require_one_stream(request.current_stream);
  // Such a request takes nothing, so it neither prepares the device nor meets a pending error.
  if (request.size == 0) return 0;
  std::lock_guard guard(lock_);
  AsyncDevice& device = at(request.device);
  device.prepare();
  // The reference's order: a failure of one step keeps the later ones from being taken [async 2.2].
  if (!capture_.is_under_way()) issue_deferred_frees();
  raise_pending_error(request.device);
  device.require_within_limit(request);
  Blocks made;  // a row that is ready, so that nothing can fail once the driver has given memory
  made.emplace(
      0, Block{request.size, request.stream, request.device, capture_.is_under_way(), false, {}});
  auto row = made.extract(made.begin());
  // Room for the row, so that its insertion behind the driver's answer cannot fail.
  reserve_row();
  const Address address = row.key() = device.allocate(request);
  capture_.note_request(request.current_stream);
  const auto inserted = blocks_.insert(std::move(row));
  if (!inserted.inserted) throw_handed_out_twice(address, inserted.position->second);
  device.count(request.size);
  return address;
}

// Doubles the room, so that rows seldom move: reserve() alone makes just enough.
void AsyncBackend::reserve_row() {
  const auto room =
      static_cast<size_t>(static_cast<double>(blocks_.bucket_count()) * blocks_.max_load_factor());
  if (blocks_.size() + 1 > room) blocks_.reserve(2 * (blocks_.size() + 1));
}

// The driver has taken the memory back with a graph that is gone, without a free here. The old row
// stands for the new block from now on.
void AsyncBackend::throw_handed_out_twice(Address address, const Block& block) {
  throw_invalid_state("the driver handed out " + hex_address(address) +
                      format(" again, while its block of %llu bytes is live",
                             static_cast<unsigned long long>(block.size)));
}

// ---- Free

AsyncBackend::Blocks::iterator AsyncBackend::find_live(Address address) {
  lock_.assert_held();
  const auto found = blocks_.find(address);
  if (found == blocks_.end() || found->second.is_deferred) throw invalid_pointer(address);
  return found;
}

void AsyncBackend::free(Address address, std::optional<Stream>) {
  std::lock_guard guard(lock_);
  // A pending error comes before the look at the address, so an unknown one raises it too [async 3.1].
  const auto known = blocks_.find(address);
  raise_pending_error(known == blocks_.end() ? 0 : known->second.device);
  const auto found = find_live(address);
  Block& block = found->second;
  if (capture_.is_under_way() && !block.was_captured) return defer_free(address, block);
  if (!capture_.is_under_way() && block.was_captured) {
    shared_.log.warn("Attempting uncaptured free of a captured allocation with address " +
                     hex_address(address));
  }
  issue_free(found);
}

// [async 3.5]
void AsyncBackend::defer_free(Address address, Block& block) {
  CACHALOT_ASSERT(1, capture_.is_under_way() && !block.was_captured && !block.is_deferred);
  shared_.log.warn_once(
      "cudaMallocAsync uncaptured",
      "freeAsync() was called on an uncaptured allocation during graph capture (address = " +
          hex_address(address) + "). " + shared_.rules.wording().free_during_capture);
  deferred_.push_back(address);
  block.is_deferred = true;
}

// A free that fails stays the first, and the next request tries it again.
void AsyncBackend::issue_deferred_frees() {
  CACHALOT_ASSERT(1, !capture_.is_under_way());
  for (; !deferred_.empty(); deferred_.pop_front()) {
    const auto found = blocks_.find(deferred_.front());
    CACHALOT_ASSERT(1, found != blocks_.end() && found->second.is_deferred);
    issue_free(found);
  }
}

void AsyncBackend::issue_free(Blocks::iterator found) {
  lock_.assert_held();
  const Block& block = found->second;
  AsyncDevice& device = at(block.device);
  const Stream stream = device.stream_after(block.stream, block.uses.keys());
  // Noting can fail, so it comes first: a free that is not noted leaves the graph a loose branch.
  const bool is_noted = capture_.note_free(block.device, stream);
  const DriverCode code = driver_.pool_free(block.device, found->first, stream);
  if (code != kSuccess && is_noted) capture_.forget_free(block.device, stream);
  require_success(driver_, code);
  // `block` is read for the last time here: the row goes next.
  device.uncount(block.size);
  blocks_.erase(found);
}

// Ignores errors of the driver: at the end no call is left that could act on them.
void AsyncBackend::free_quietly() {
  for (const auto& [address, block] : blocks_)
    driver_.pool_free(block.device, address, block.stream);
  for (const auto& d : devices_) d->forget_blocks();
  blocks_.clear();
  deferred_.clear();
}

// Ignores errors of the driver: a device that is lost has no work to wait for.
void AsyncBackend::free_all() {
  std::lock_guard guard(lock_);
  std::unordered_set<int> waited_for;
  for (const auto& [address, block] : blocks_) {
    if (waited_for.insert(block.device).second) driver_.device_synchronize(block.device);
  }
  free_quietly();
  capture_.abandon();
}

// ---- Blocks

// [async 4] A use is only noted; the free makes a stream wait for it.
void AsyncBackend::record_stream(Address address, Stream stream, std::optional<Stream>) {
  if (address == 0) return;
  require_one_stream(stream);
  std::lock_guard guard(lock_);
  const auto found = blocks_.find(address);
  if (found == blocks_.end() || found->second.is_deferred)
    throw_invalid_state(hex_address(address) + " is not a live block");
  Block& block = found->second;
  if (stream != block.stream)
    return block.uses.insert(stream, stream + static_cast<uint64_t>(block.device));
  shared_.log.warn_once("cudaMallocAsync record_stream", shared_.rules.wording().use_on_own_stream);
}

// Nothing is rounded, so a block has the size that was requested.
BlockInfo AsyncBackend::block(Address address) {
  std::lock_guard guard(lock_);
  const Block& block = find_live(address)->second;
  return {address, block.size, block.size, block.stream, {}, block.device};
}

std::pair<Address, uint64_t> AsyncBackend::base_allocation(Address address) {
  return {address, block(address).size};
}

// Warns whatever the address is: so does the reference.
void AsyncBackend::annotate(Address, const std::string&) {
  shared_.log.warn_once("cudaMallocAsync annotation", shared_.rules.wording().no_annotations);
}

// A deferred free is a free as far as the caller knows.
uint64_t AsyncBackend::live_blocks() {
  std::lock_guard guard(lock_);
  return blocks_.size() - deferred_.size();
}

// ---- The auditor

// Compares the numbers that are kept with the rows that they come from.
std::string AsyncBackend::check() {
  std::lock_guard guard(lock_);
  std::vector<uint64_t> used(devices_.size());
  size_t deferred = 0;
  for (const auto& [address, block] : blocks_) {
    used[static_cast<size_t>(block.device)] += block.size;
    deferred += block.is_deferred ? 1 : 0;
  }
  for (size_t i = 0; i < devices_.size(); i++) {
    if (used[i] == devices_[i]->used()) continue;
    return format("device %zu counts %llu bytes as used, its blocks have %llu", i,
                  static_cast<unsigned long long>(devices_[i]->used()),
                  static_cast<unsigned long long>(used[i]));
  }
  if (deferred != deferred_.size())
    return format("%zu blocks are put off, and %zu frees", deferred, deferred_.size());
  if (!capture_.is_consistent()) return "streams wait to be joined without a capture";
  return "";
}

}  // namespace cachalot
