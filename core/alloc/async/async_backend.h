// SPDX-License-Identifier: MIT OR Apache-2.0
// backend:cudaMallocAsync: requests go to the driver's stream-ordered pools, which do the caching.
//
// Nothing is rounded, split or searched here. The backend keeps two things that the driver does not
// know: the streams that use a block, and the frees that a capture puts off.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "alloc/async/async_capture.h"
#include "alloc/async/async_device.h"
#include "alloc/backend/backend.h"
#include "alloc/backend/shared_state.h"
#include "alloc/heap/hash_order.h"
#include "base/assert.h"
#include "base/mutex.h"

namespace cachalot {

// Owns the devices, the capture and a row for each block that the driver's pools have handed out.
// One lock guards all of it, as in the reference [async 1.3]. Invariants: the bytes that a device
// counts as used are those of the rows of its blocks; a free is deferred exactly while its address
// is in `deferred_`.
class AsyncBackend final : public Backend {
 public:
  // Throws where the driver has no stream-ordered memory, or debugging is asked for.
  explicit AsyncBackend(SharedState& shared);
  ~AsyncBackend() override;  // gives back the memory that the pools keep

  const char* name() const override { return "cudaMallocAsync"; }
  DeviceBackend& device(int index) override;

  Address allocate(const Request& request) override;
  void free(Address address, std::optional<Stream> current_stream) override;
  void record_stream(Address address, Stream stream, std::optional<Stream> current_stream) override;
  BlockInfo block(Address address) override;
  std::pair<Address, uint64_t> base_allocation(Address address) override;
  void annotate(Address address, const std::string& text) override;
  uint64_t live_blocks() override;
  void free_all() override;
  std::string check() override;

 private:
  // A row. It begins when the driver has given the memory and ends when the driver has taken the
  // free, so a deferred free keeps it.
  struct Block {
    uint64_t size = 0;
    Stream stream = 0;
    int device = 0;
    bool was_captured = false;  // made during a capture
    bool is_deferred = false;   // freed by the caller, not yet by us [async 3.5]
    HashOrder<Stream> uses;     // by other streams
  };
  using Blocks = std::unordered_map<Address, Block>;

  AsyncDevice& at(int device) {
    CACHALOT_ASSERT(1, device >= 0 && static_cast<size_t>(device) < devices_.size());
    return *devices_[static_cast<size_t>(device)];
  }
  // pre of all these but free_quietly: the lock.
  // Throws the error that an earlier call of the program has left as the runtime's last one
  // [async 2.2].
  void raise_pending_error(int device);
  void reserve_row();
  [[noreturn]] static void throw_handed_out_twice(Address address, const Block& block);
  // Throws for an address that no live block has.
  Blocks::iterator find_live(Address address);
  void defer_free(Address address, Block& block);
  void issue_deferred_frees();
  void issue_free(Blocks::iterator found);
  void free_quietly();

  SharedState& shared_;
  Driver& driver_;
  Mutex lock_{LockRank::kAsyncBackend};  // [async 1.3]
  AsyncCapture capture_;
  std::vector<std::unique_ptr<AsyncDevice>> devices_;
  Blocks blocks_;
  std::deque<Address> deferred_;  // in the order of their frees
};

}  // namespace cachalot
