// SPDX-License-Identifier: MIT OR Apache-2.0
// Numbers and texts in a run of bytes of any contents: a read behind the end gives 0 or "", and all
// later ones too.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace cachalot {

// So a caller reads a whole record and asks has_failed() once, and a loop up to is_at_end() ends.
class ByteReader {
 public:
  ByteReader() = default;
  explicit ByteReader(std::span<const uint8_t> bytes) : left_(bytes) {}

  size_t size() const { return left_.size(); }  // of what is left
  bool is_at_end() const { return left_.empty(); }
  bool has_failed() const { return has_failed_; }
  // Of a caller that finds something it does not understand.
  void fail() {
    has_failed_ = true;
    left_ = {};
  }

  // All of them, or none.
  std::span<const uint8_t> bytes(uint64_t count) {
    if (count > left_.size()) fail();
    const auto taken = left_.first(has_failed_ ? 0 : static_cast<size_t>(count));
    left_ = left_.subspan(taken.size());
    return taken;
  }

  uint8_t byte() {
    if (left_.empty()) {
      fail();
      return 0;
    }
    const uint8_t first = left_.front();
    left_ = left_.subspan(1);
    return first;
  }

  // Of up to 8 bytes, the lowest first.
  uint64_t number(size_t size) {
    uint64_t value = 0;
    int shift = 0;
    for (const uint64_t each : bytes(size)) {
      value |= each << shift;
      shift += 8;
    }
    return value;
  }

  // LEB128: seven bits a byte, the lowest first. Bits above the 64th are dropped.
  uint64_t unsigned_leb() { return leb(nullptr); }
  int64_t signed_leb() {
    int bits = 0;
    const uint64_t value = leb(&bits);
    const bool is_negative = bits > 0 && bits < 64 && (value >> (bits - 1) & 1) != 0;
    return static_cast<int64_t>(is_negative ? value | ~uint64_t{0} << bits : value);
  }

  // Up to a zero, which is skipped.
  std::string_view text() {
    size_t length = 0;
    while (length < left_.size() && left_[length] != 0) ++length;
    if (length == left_.size()) fail();
    const auto taken = bytes(has_failed_ ? 0 : length + 1);
    if (taken.empty()) return {};
    return {reinterpret_cast<const char*>(taken.data()), length};
  }

 private:
  // bits: how many the bytes have, up to the first multiple of seven above 63.
  uint64_t leb(int* bits) {
    uint64_t value = 0;
    for (int shift = 0; !has_failed_;) {
      const uint64_t next = byte();
      if (shift < 64) {
        value |= (next & 0x7f) << shift;
        shift += 7;
      }
      if (bits) *bits = shift;
      if ((next & 0x80) == 0) break;
    }
    return value;
  }

  std::span<const uint8_t> left_;
  bool has_failed_ = false;
};

}  // namespace cachalot
