// SPDX-License-Identifier: MIT OR Apache-2.0
// The driver's calls of a GPU, timed.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace cachalot::cli {

// Retains the primary context of a device while it lives.
class MeasuredDevice {
 public:
  // Throws Failure where there is no driver or no such device.
  explicit MeasuredDevice(int ordinal);
  MeasuredDevice(const MeasuredDevice&) = delete;
  MeasuredDevice& operator=(const MeasuredDevice&) = delete;
  ~MeasuredDevice();

  std::string name() const;
  int driver_version() const;
  uint64_t free_bytes() const;

  // Bytes of the host's memory that are written before each block is obtained and given back: what a program does
  // meanwhile to the processor's caches. The device is busy with a kernel then, but before a block is given back, since
  // the driver would wait for it.
  void set_touched(size_t bytes) { touched_ = bytes; }

  // Nanoseconds of each call by the function's name: `blocks` blocks of this size are obtained one after another, then
  // given back, as a cache does that fills and is emptied. Throws Failure.
  using Samples = std::map<std::string, std::vector<double>>;
  void time_plain(uint64_t size, unsigned blocks, Samples* samples) const;
  // The same with virtual memory, a handle a block.
  void time_virtual(uint64_t size, unsigned blocks, Samples* samples) const;

 private:
  struct Functions;

  template <class Call>
  void time(const char* function, Samples* samples, Call call) const;
  void work() const;
  void work_and_wait() const;
  void check(int code, const char* function) const;

  std::unique_ptr<Functions> functions_;
  void* library_ = nullptr;
  int device_ = 0;
  uint64_t scratch_ = 0;  // device memory that the kernel fills
  size_t touched_ = 0;
  mutable std::vector<unsigned char> memory_;
};

}  // namespace cachalot::cli
