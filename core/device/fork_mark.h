// SPDX-License-Identifier: MIT OR Apache-2.0
// Tells whether this process is a child that was forked after the mark was made, without a system
// call: a page that the kernel clears in children. Old kernels have no such pages: there the process
// number is asked for each time.
#pragma once

namespace cachalot {

class ForkMark {
 public:
  ForkMark();
  ~ForkMark();
  ForkMark(const ForkMark&) = delete;
  ForkMark& operator=(const ForkMark&) = delete;

  bool is_in_child() const {
    if (page_ != nullptr) [[likely]]
      return *page_ == 0;
    return is_other_process();
  }

 private:
  bool is_other_process() const;

  volatile char* page_ = nullptr;  // null where the kernel has no such pages
  const int process_;
};

}  // namespace cachalot
