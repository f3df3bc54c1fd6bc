// SPDX-License-Identifier: MIT OR Apache-2.0
// Where a run's decisions come from: a seed, or the bytes that a fuzzer made.
#pragma once

#include <cstddef>
#include <cstdint>

namespace cachalot_test {

class Choices {
 public:
  explicit Choices(uint64_t seed) : state_(seed) {}
  Choices(const uint8_t* bytes, size_t size) : at_(bytes), left_(size), are_bytes_(true) {}

  bool are_bytes() const { return are_bytes_; }
  // Bytes only; every further choice is 0.
  bool have_ended() const { return are_bytes_ && left_ == 0; }

  // end > 0.
  uint64_t below(uint64_t end) {
    if (are_bytes_) return end <= 256 ? byte() % end : (byte() << 8 | byte()) % end;
    return ((next() >> 32) * end) >> 32;  // end is far below 2^32 in all uses
  }
  uint64_t between(uint64_t first, uint64_t last) { return first + below(last - first + 1); }
  bool one_in(uint64_t n) { return below(n) == n - 1; }
  template <typename Container>
  auto& pick(Container& container) {
    return container[static_cast<size_t>(below(container.size()))];
  }
  template <typename Item, size_t kCount>
  auto& pick(Item (&items)[kCount]) {
    return items[below(kCount)];
  }
  // Each power of two from 2^0 to below 2^bits is as likely as any other.
  uint64_t of_any_magnitude(unsigned bits) {
    const uint64_t high = uint64_t{1} << below(bits);
    return high + (are_bytes_ ? (high * byte()) >> 8 : next() & (high - 1));
  }

 private:
  uint64_t byte() {
    if (left_ == 0) return 0;
    left_--;
    return *at_++;
  }
  // Splitmix64.
  uint64_t next() {
    uint64_t x = state_ += 0x9e3779b97f4a7c15;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    return x ^ (x >> 31);
  }

  uint64_t state_ = 0;
  const uint8_t* at_ = nullptr;
  size_t left_ = 0;
  bool are_bytes_ = false;
};

}  // namespace cachalot_test
