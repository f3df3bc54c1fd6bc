// SPDX-License-Identifier: MIT OR Apache-2.0
#include "progress.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <utility>

namespace cachalot::cli {
namespace {

using namespace std::chrono_literals;

// What is done sooner needs no bar.
constexpr auto kPatience = 300ms;
constexpr auto kInterval = 50ms;
constexpr uint64_t kWidth = 40;

}  // namespace

ProgressBar::ProgressBar(std::string label)
    : label_(std::move(label)),
      is_on_terminal_(isatty(STDERR_FILENO) != 0),
      next_(Clock::now() + kPatience) {}

ProgressBar::~ProgressBar() {
  if (is_shown_) std::fputs("\r\x1b[K", stderr);
}

void ProgressBar::show(uint64_t done, uint64_t total) {
  if (!is_on_terminal_ || total == 0) return;
  const auto now = Clock::now();
  if (now < next_) return;
  next_ = now + kInterval;
  is_shown_ = true;
  const double share = std::min(1.0, static_cast<double>(done) / static_cast<double>(total));
  const auto filled = static_cast<size_t>(share * static_cast<double>(kWidth));
  const std::string bar = std::string(filled, '#') + std::string(kWidth - filled, '.');
  std::fprintf(stderr, "\r\x1b[K%s [%s] %3.0f %%", label_.c_str(), bar.c_str(), 100 * share);
}

}  // namespace cachalot::cli
