// SPDX-License-Identifier: MIT OR Apache-2.0
#include "rejections.h"

#include <c10/cuda/CUDACachingAllocator.h>

#include <chrono>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "output.h"
#include "release.h"
#include "verbosity.h"

namespace oracle {

#if SINCE(12)
namespace cca = c10::cuda::CUDACachingAllocator;

namespace {

constexpr int kTries = 2000;

std::mutex mutex;
std::vector<std::string> unwritten;
int64_t counted = 0;

void note(int64_t device, size_t asked, size_t obtained, size_t total) {
  std::lock_guard guard(mutex);
  if (!verbosity.rejection) return;
  unwritten.push_back("J " + std::to_string(device) + " " + std::to_string(asked) + " " +
                      std::to_string(obtained) + " " + std::to_string(total));
}

void wait_for(size_t reports) {
  for (int i = 0; i < kTries; i++) {
    {
      std::lock_guard guard(mutex);
      if (unwritten.size() >= reports) return;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

}  // namespace

void observe_rejections() { cca::attachOomRejectionObserver(note); }

void report_rejections() {
  if (!verbosity.rejection) return;
  const int64_t count = cca::getDeviceStats(0).num_oom_rejections;
  const int64_t before = std::exchange(counted, count);
  // The counter also falls: a reset of the accumulated statistics sets it to 0.
  if (count <= before) return;
  wait_for(static_cast<size_t>(count - before));
  std::lock_guard guard(mutex);
  for (const std::string& report : unwritten) line(report);
  unwritten.clear();
}
#else
void observe_rejections() {}

void report_rejections() {}
#endif

}  // namespace oracle
