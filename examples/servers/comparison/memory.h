// SPDX-License-Identifier: MIT OR Apache-2.0
// How much memory is used, over time, and a limit to it. The same for all that are compared: it is read from and set
// with the system or the GPU, not the allocators.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace comparison {

class Memory {
 public:
  virtual ~Memory() = default;
  // Bytes.
  virtual uint64_t used() const = 0;
  // From now on no more than these beyond what is used already.
  virtual void limit(uint64_t bytes) = 0;
  // How often it may be asked without being in anybody's way.
  virtual std::chrono::milliseconds period() const = 0;
};

// "cpu": anonymous memory of the process; "cuda": what is used of GPU 0.
std::unique_ptr<Memory> make_memory(const std::string& provider);

// Looks at the memory all the time.
class Sampler {
 public:
  struct Sample {
    double seconds;
    uint64_t bytes;
  };

  // It begins with begin().
  explicit Sampler(const Memory& memory);
  ~Sampler();

  // Counts from what is used now, which is the base; it makes no thread, for which there may be no memory left.
  void begin();
  uint64_t base() const { return base_; }
  uint64_t peak() const { return peak_; }
  // Once it has been stopped.
  const std::vector<Sample>& samples() const { return samples_; }
  void stop();
  double seconds() const;

 private:
  void watch();

  const Memory& memory_;
  uint64_t base_ = 0;
  std::chrono::steady_clock::time_point begin_;
  std::atomic<uint64_t> peak_{0};
  std::atomic<bool> has_begun_{false};
  std::atomic<bool> is_done_{false};
  std::vector<Sample> samples_;
  std::thread thread_;
};

}  // namespace comparison
