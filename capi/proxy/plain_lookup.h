// SPDX-License-Identifier: MIT OR Apache-2.0
// While an object lives, this thread finds the driver's own functions, also where the driver looks them up by the names
// that the proxy exports: the allocator of the proxy is to call the driver.
#pragma once

namespace cachalot::proxy {

class PlainLookup {
 public:
  PlainLookup() { count_++; }
  ~PlainLookup() { count_--; }
  PlainLookup(const PlainLookup&) = delete;
  PlainLookup& operator=(const PlainLookup&) = delete;

  static bool is_on() { return count_ != 0; }

 private:
  static inline thread_local int count_ = 0;
};

}  // namespace cachalot::proxy
