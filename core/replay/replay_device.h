// SPDX-License-Identifier: MIT OR Apache-2.0
// The device under a replay: a simulated one that knows where the recorded one placed its memory,
// and that counts the calls by which memory is obtained.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "device/sim_driver.h"

namespace cachalot {

struct MemoryCalls {
  uint64_t obtained = 0;    // segments and pages
  uint64_t given_back = 0;  // likewise
  uint64_t segments = 0;    // now; an expandable segment is one from its reservation on
  uint64_t segments_peak = 0;
  uint64_t peak_device_bytes = 0;  // the most that one device had handed out
};

// The driver's functions that a replay counts.
enum class MemoryCall {
  kAlloc,
  kFree,
  kReserve,
  kUnreserve,
  kCreate,
  kRelease,
  kMap,
  kUnmap,
  kSetAccess
};

// "cuMemAlloc", as the CUDA driver calls it.
const char* driver_name(MemoryCall call);

// Calls of one function with one size, those that failed included.
struct MemoryCallCount {
  MemoryCall call;
  uint64_t size;
  uint64_t count;
  uint64_t cold;  // of them, those behind kColdRequests that needed none
};

// Calls of the driver cost more when the processor has done other things since the last one. From so many requests on a
// call counts as cold: a few hundred microseconds of a program.
inline constexpr uint64_t kColdRequests = 32;

class ReplayDevice : public SimDriver {
 public:
  explicit ReplayDevice(const SimOptions& options);

  // The next segment, and the next reservation, of a device lie at the addresses that were offered,
  // in this order, where they fit between what is there. Afterwards, and where they do not fit, the
  // device chooses.
  void offer_segment(int device, Address address);
  void offer_mapping(int device, Address address);  // ignored inside a reservation
  void withdraw_offers();

  // The program makes a request. One thread at a time.
  void begin_request() { requests_since_call_++; }
  // Calls from now on are not the program's, and are not counted by function.
  void pause_counts(bool is_paused) { are_counts_paused_ = is_paused; }

  // Of all segments and reservations so far, in their order.
  const std::vector<Address>& places() const { return places_; }

  MemoryCalls calls();
  // By function, then by size.
  std::vector<MemoryCallCount> call_counts();

  DriverCode allocate(int device, uint64_t size, Address* address) override;
  DriverCode free(int device, Address address) override;
  DriverCode reserve(int device, uint64_t size, Address* address) override;
  DriverCode unreserve(int device, Address address, uint64_t size) override;
  DriverCode create(int device, uint64_t size, HandleType type, bool rdma,
                    uint64_t* handle) override;
  DriverCode release(int device, uint64_t handle) override;
  DriverCode map(int device, Address address, uint64_t size, uint64_t handle) override;
  DriverCode unmap(int device, Address address, uint64_t size) override;
  DriverCode set_access(int device, Address address, uint64_t size, int accessing_device) override;

 private:
  struct CallCount {
    uint64_t all = 0;
    uint64_t cold = 0;
  };
  struct Offers {
    std::deque<Address> segments;
    std::deque<Address> mappings;
  };

  bool is_free(Address address, uint64_t size) const;
  bool is_in_use(Address address) const;
  void place_next(int device, std::deque<Address>* offers, uint64_t size);
  void add_range(Address address, uint64_t size);
  void remove_range(Address address);
  uint64_t range_size(Address address) const;
  void count(MemoryCall call, uint64_t size);
  void hand_out(int device, uint64_t size);
  void take_back(int device, uint64_t size);

  Mutex mutex_{LockRank::kReplayDevice};
  std::vector<Offers> offers_;
  std::map<Address, uint64_t> ranges_;  // sizes of segments and reservations of all devices
  std::vector<Address> places_;
  std::unordered_map<uint64_t, uint64_t> handle_sizes_;
  std::vector<uint64_t> handed_out_;  // bytes, by device
  MemoryCalls calls_;
  std::map<std::pair<MemoryCall, uint64_t>, CallCount> counts_;
  uint64_t requests_since_call_ = kColdRequests;
  bool are_counts_paused_ = false;
};

}  // namespace cachalot
