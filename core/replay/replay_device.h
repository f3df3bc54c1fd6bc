// SPDX-License-Identifier: MIT OR Apache-2.0
// The device under a replay: a simulated one that knows where the recorded one placed its memory,
// and that counts the calls by which memory is obtained.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <tuple>
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

// Calls of one function with one size, those that failed included, behind the same gap: a call costs more the longer the
// processor has done other things since the function's last one.
struct MemoryCallCount {
  MemoryCall call;
  uint64_t size;
  // Of the program's work since the function's call before, rounded down to a power of two.
  uint64_t gap_us;
  uint64_t count;
};

// Of the first call, and the longest that is told.
inline constexpr uint64_t kLongestGapUs = uint64_t{1} << 16;

class ReplayDevice : public SimDriver {
 public:
  explicit ReplayDevice(const SimOptions& options);

  // The next segment, and the next reservation, of a device lie at the addresses that were offered,
  // in this order, where they fit between what is there. Afterwards, and where they do not fit, the
  // device chooses.
  void offer_segment(int device, Address address);
  void offer_mapping(int device, Address address);  // ignored inside a reservation
  void withdraw_offers();

  // How long the program has worked so far. One thread at a time.
  void set_work_time(uint64_t us) { work_us_ = us; }
  // Calls from now on are not the program's, and are not counted by function.
  void pause_counts(bool is_paused) { are_counts_paused_ = is_paused; }

  // Of all segments and reservations so far, in their order.
  const std::vector<Address>& places() const { return places_; }

  MemoryCalls calls();
  // By function, then by size, then by gap.
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
  uint64_t gap_us(MemoryCall call) const;
  void hand_out(int device, uint64_t size);
  void take_back(int device, uint64_t size);

  Mutex mutex_{LockRank::kReplayDevice};
  std::vector<Offers> offers_;
  std::map<Address, uint64_t> ranges_;  // sizes of segments and reservations of all devices
  std::vector<Address> places_;
  std::unordered_map<uint64_t, uint64_t> handle_sizes_;
  std::vector<uint64_t> handed_out_;  // bytes, by device
  MemoryCalls calls_;
  // By function, size and gap.
  std::map<std::tuple<MemoryCall, uint64_t, uint64_t>, uint64_t> counts_;
  uint64_t work_us_ = 0;
  std::map<MemoryCall, uint64_t> last_calls_us_;  // of work_us_
  bool are_counts_paused_ = false;
};

}  // namespace cachalot
