// SPDX-License-Identifier: MIT OR Apache-2.0
#include "device/address_space.h"

#include <algorithm>

namespace cachalot {
namespace {

Address saturating_add(Address address, uint64_t size) {
  return address > UINT64_MAX - size ? UINT64_MAX : address + size;
}

}  // namespace

AddressSpace::AddressSpace(Address begin, Address end) : begin_(begin), end_(end) {
  open_gap(begin, end);
}

void AddressSpace::give(std::span<const Address> addresses) {
  given_.insert(given_.end(), addresses.begin(), addresses.end());
}

std::optional<Address> AddressSpace::take(uint64_t size) {
  if (size > UINT64_MAX - kUnit) return {};
  // A range of 0 bytes too has an address of its own.
  const uint64_t need = round_up(std::max(size, uint64_t{1}), kUnit);
  std::optional<Address> address;
  if (given_.empty()) {
    address = choose(need);
  } else {
    address = given_.front();
    given_.pop_front();
  }
  if (!address) return {};
  in_use_[*address] = need;
  close_gaps(*address, saturating_add(*address, need));
  return address;
}

void AddressSpace::put_back(Address address) {
  const auto range = in_use_.find(address);
  if (range == in_use_.end()) return;
  const Address end = saturating_add(address, range->second);
  in_use_.erase(range);
  // A given address may reach out of what is chosen from here.
  open_gap(std::max(address, begin_), std::min(end, end_));
}

std::optional<Address> AddressSpace::choose(uint64_t size) const {
  for (const auto& [gap_begin, gap_end] : gaps_) {
    const Address begin = round_up(gap_begin, kUnit);
    if (begin < gap_end && gap_end - begin >= size) return begin;
  }
  return {};
}

void AddressSpace::close_gaps(Address begin, Address end) {
  auto gap = gaps_.upper_bound(begin);
  if (gap != gaps_.begin() && std::prev(gap)->second > begin) --gap;
  while (gap != gaps_.end() && gap->first < end) {
    const auto [gap_begin, gap_end] = *gap;
    gap = gaps_.erase(gap);
    if (gap_begin < begin) gaps_.emplace_hint(gap, gap_begin, begin);
    if (gap_end > end) gaps_.emplace_hint(gap, end, gap_end);
  }
}

void AddressSpace::open_gap(Address begin, Address end) {
  if (begin >= end) return;
  auto gap = gaps_.upper_bound(begin);
  if (gap != gaps_.begin() && std::prev(gap)->second >= begin) --gap;
  while (gap != gaps_.end() && gap->first <= end) {
    begin = std::min(begin, gap->first);
    end = std::max(end, gap->second);
    gap = gaps_.erase(gap);
  }
  gaps_.emplace_hint(gap, begin, end);
}

}  // namespace cachalot
