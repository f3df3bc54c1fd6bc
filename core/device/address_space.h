// SPDX-License-Identifier: MIT OR Apache-2.0
// A range of addresses that is handed out in pieces: the lowest free place first, or where the
// caller says.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <span>
#include <unordered_map>

#include "base/units.h"
#include "device/device.h"

namespace cachalot {

class AddressSpace {
 public:
  // What is chosen here lies in [begin, end) and begins at a multiple of kUnit.
  AddressSpace(Address begin, Address end);

  // The next pieces lie at these addresses, whatever is there; they may be outside the range.
  void give(std::span<const Address> addresses);

  // Nothing where no place is large enough.
  std::optional<Address> take(uint64_t size);
  // An address that is not in use is ignored.
  void put_back(Address address);

  static constexpr uint64_t kUnit = 2 * MiB;

 private:
  using Gaps = std::map<Address, Address>;  // begin to end; apart from each other, none empty

  std::optional<Address> choose(uint64_t size) const;
  static Gaps::node_type new_gap();
  void close_gaps(Address begin, Address end, Gaps::node_type spare);
  void open_gap(Address begin, Address end);
  // A gap lies in the range, has addresses, and touches no other.
  bool is_apart(Gaps::const_iterator gap) const;

  const Address begin_;
  const Address end_;
  std::deque<Address> given_;
  std::unordered_map<Address, uint64_t> in_use_;  // sizes in whole units
  Gaps gaps_;
};

}  // namespace cachalot
