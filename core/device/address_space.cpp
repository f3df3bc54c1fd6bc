// SPDX-License-Identifier: MIT OR Apache-2.0
#include "device/address_space.h"

#include <algorithm>
#include <iterator>

#include "base/assert.h"

namespace cachalot {
namespace {

Address saturating_add(Address address, uint64_t size) {
  return address > UINT64_MAX - size ? UINT64_MAX : address + size;
}

}  // namespace

AddressSpace::AddressSpace(Address begin, Address end) : begin_(begin), end_(end) {
  CACHALOT_ASSERT(1, begin < end);
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
  const bool is_given = !given_.empty();
  if (is_given) {
    address = given_.front();
  } else {
    address = choose(need);
  }
  if (!address) return {};
  Gaps::node_type spare = new_gap();
  in_use_[*address] = need;
  if (is_given) given_.pop_front();
  close_gaps(*address, saturating_add(*address, need), std::move(spare));
  return address;
}

void AddressSpace::put_back(Address address) {
  const auto range = in_use_.find(address);
  if (range == in_use_.end()) return;
  const Address end = saturating_add(address, range->second);
  // A given address may reach out of what is chosen from here.
  open_gap(std::max(address, begin_), std::min(end, end_));
  in_use_.erase(range);
}

std::optional<Address> AddressSpace::choose(uint64_t size) const {
  CACHALOT_ASSERT(1, size > 0 && size % kUnit == 0);
  for (const auto& [gap_begin, gap_end] : gaps_) {
    const Address begin = round_up(gap_begin, kUnit);
    if (begin < gap_end && gap_end - begin >= size) return begin;
  }
  return {};
}

AddressSpace::Gaps::node_type AddressSpace::new_gap() {
  Gaps one;
  one.emplace();
  return one.extract(one.begin());
}

// What is left of a gap in front keeps its node. Only one gap can leave something behind, for which
// there is the spare.
void AddressSpace::close_gaps(Address begin, Address end, Gaps::node_type spare) {
  CACHALOT_ASSERT(1, begin < end && !spare.empty());
  auto gap = gaps_.upper_bound(begin);
  if (gap != gaps_.begin() && std::prev(gap)->second > begin) --gap;
  while (gap != gaps_.end() && gap->first < end) {
    const Address gap_end = gap->second;
    if (gap->first < begin) {
      gap->second = begin;
      ++gap;
    } else {
      gap = gaps_.erase(gap);
    }
    if (gap_end > end) {
      spare.key() = end;
      spare.mapped() = gap_end;
      const auto rest = gaps_.insert(gap, std::move(spare));
      CACHALOT_ASSERT(1, is_apart(rest));
      return;
    }
  }
}

void AddressSpace::open_gap(Address begin, Address end) {
  if (begin >= end) return;
  Gaps::node_type opened = new_gap();
  auto gap = gaps_.upper_bound(begin);
  if (gap != gaps_.begin() && std::prev(gap)->second >= begin) --gap;
  while (gap != gaps_.end() && gap->first <= end) {
    begin = std::min(begin, gap->first);
    end = std::max(end, gap->second);
    gap = gaps_.erase(gap);
  }
  opened.key() = begin;
  opened.mapped() = end;
  const auto place = gaps_.insert(gap, std::move(opened));
  CACHALOT_ASSERT(1, is_apart(place));
}

bool AddressSpace::is_apart(Gaps::const_iterator gap) const {
  if (gap->first >= gap->second || gap->first < begin_ || gap->second > end_) return false;
  if (gap != gaps_.begin() && std::prev(gap)->second >= gap->first) return false;
  return std::next(gap) == gaps_.end() || gap->second < std::next(gap)->first;
}

}  // namespace cachalot
