// SPDX-License-Identifier: MIT OR Apache-2.0
// The device under a replay: a simulated one that knows where the recorded one placed its memory,
// and that counts the calls by which memory is obtained.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <vector>

#include "base/mutex.h"
#include "device/sim_driver.h"

namespace cachalot {

struct MemoryCalls {
  uint64_t obtained = 0;    // segments and pages
  uint64_t given_back = 0;  // likewise
  uint64_t segments = 0;    // now; an expandable segment is one from its reservation on
  uint64_t segments_peak = 0;
};

class ReplayDevice : public SimDriver {
 public:
  explicit ReplayDevice(const SimOptions& options);

  // The next segment, and the next reservation, of a device lie at the addresses that were offered,
  // in this order, where they fit between what is there. Afterwards, and where they do not fit, the
  // device chooses.
  void offer_segment(int device, Address address);
  void offer_mapping(int device, Address address);  // ignored inside a reservation
  void withdraw_offers();

  MemoryCalls calls();

  DriverCode allocate(int device, uint64_t size, Address* address) override;
  DriverCode free(int device, Address address) override;
  DriverCode reserve(int device, uint64_t size, Address* address) override;
  DriverCode unreserve(int device, Address address, uint64_t size) override;
  DriverCode create(int device, uint64_t size, HandleType type, bool rdma,
                    uint64_t* handle) override;
  DriverCode release(int device, uint64_t handle) override;

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

  Mutex mutex_{LockRank::kReplayDevice};
  std::vector<Offers> offers_;
  std::map<Address, uint64_t> ranges_;  // sizes of segments and reservations of all devices
  MemoryCalls calls_;
};

}  // namespace cachalot
