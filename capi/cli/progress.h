// SPDX-License-Identifier: MIT OR Apache-2.0
// A bar that shows how far a long command has come; seen on a terminal only.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace cachalot::cli {

class ProgressBar {
 public:
  explicit ProgressBar(std::string label);
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;
  ~ProgressBar();  // wipes the bar

  void show(uint64_t done, uint64_t total);

 private:
  using Clock = std::chrono::steady_clock;

  std::string label_;
  bool is_on_terminal_;
  bool is_shown_ = false;
  Clock::time_point next_;
};

}  // namespace cachalot::cli
