// SPDX-License-Identifier: MIT OR Apache-2.0
// The library's own `sim` driver as a machine.
#pragma once

#include <vector>

#include "machine.h"

namespace cachalot_test {

class SimMachine final : public Machine {
 public:
  SimMachine(uint64_t capacity, int32_t device_count);
  ~SimMachine() override { cachalot_driver_destroy(driver_); }

  cachalot_driver* driver() override { return driver_; }
  void watch(MachineWatcher*) override {}

  void queue_work(int32_t device, cachalot_stream stream) override {
    cachalot_sim_queue_work(driver_, device, stream, nullptr);
  }
  void finish_oldest(int32_t device, cachalot_stream stream) override {
    cachalot_sim_finish_oldest(driver_, device, stream, nullptr);
  }
  void finish_stream(int32_t device, cachalot_stream stream) override {
    cachalot_sim_finish_stream(driver_, device, stream, nullptr);
  }
  uint64_t queued(int32_t, cachalot_stream) override { return 0; }
  uint64_t finished(int32_t, cachalot_stream) override { return 0; }

  void begin_capture(int32_t device, cachalot_stream stream, uint64_t capture) override {
    cachalot_sim_begin_capture(driver_, device, stream, capture, nullptr);
  }
  void end_capture(int32_t device, uint64_t capture) override {
    cachalot_sim_end_capture(driver_, device, capture, nullptr);
  }
  void add_node(int32_t device, cachalot_stream stream) override {
    cachalot_sim_add_node(driver_, device, stream, nullptr);
  }
  void fork(int32_t device, cachalot_stream from, cachalot_stream to) override {
    cachalot_sim_fork_capture(driver_, device, from, to, nullptr);
  }
  void join(int32_t device, cachalot_stream into, cachalot_stream other) override {
    cachalot_sim_join_capture(driver_, device, into, other, nullptr);
  }

  void fail(uint32_t calls, int32_t code, uint64_t after, uint64_t count) override;
  void set_pending_error(int32_t code) override {
    cachalot_sim_set_pending_error(driver_, code, nullptr);
  }
  void forget_faults() override;
  uint64_t faults() const override { return UINT64_MAX; }
  uint64_t held(int32_t) const override { return UINT64_MAX; }
  std::string leaks() const override { return ""; }
  uint64_t usable(int32_t, cachalot_address, uint64_t) const override { return UINT64_MAX; }
  bool is_same(int32_t, cachalot_address, cachalot_address) const override { return true; }
  void write(cachalot_address, uint64_t) override {}
  uint64_t read(cachalot_address) const override { return UINT64_MAX; }

 private:
  cachalot_driver* driver_ = nullptr;
  std::vector<cachalot_sim_failure> failures_;
};

}  // namespace cachalot_test
