// SPDX-License-Identifier: MIT OR Apache-2.0
// Tells whether this process is a child that was forked after the mark was made, without a system
// call: a page that the kernel clears in children.
#pragma once

namespace cachalot {

class ForkMark {
 public:
  ForkMark();
  ~ForkMark();
  ForkMark(const ForkMark&) = delete;
  ForkMark& operator=(const ForkMark&) = delete;

  bool is_in_child() const { return page_ != nullptr && *page_ == 0; }

 private:
  volatile char* page_ = nullptr;  // null where the kernel has no such pages: a child is not told
};

}  // namespace cachalot
