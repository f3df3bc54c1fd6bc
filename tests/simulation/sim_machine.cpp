// SPDX-License-Identifier: MIT OR Apache-2.0
#include "sim_machine.h"

#include <cstring>

namespace cachalot_test {

SimMachine::SimMachine(uint64_t capacity, int32_t device_count) {
  cachalot_sim_options options;
  std::memset(&options, 0, sizeof options);
  options.struct_size = sizeof options;
  options.capacity = capacity;
  options.device_count = device_count;
  cachalot_error error = CACHALOT_ERROR_INIT;
  if (cachalot_sim_create(&options, &driver_, &error) != CACHALOT_OK) report_defect(error.message);
}

void SimMachine::fail(uint32_t calls, int32_t code, uint64_t after, uint64_t count) {
  cachalot_sim_failure failure;
  std::memset(&failure, 0, sizeof failure);
  failure.struct_size = sizeof failure;
  failure.calls = calls;
  failure.code = code;
  failure.after = after;
  failure.count = count;
  cachalot_sim_fail(driver_, &failure, nullptr);
  failures_.push_back(failure);
}

// There is no call that takes a failure back: one that comes after all others takes its place.
void SimMachine::forget_faults() {
  for (cachalot_sim_failure& failure : failures_) {
    failure.after = UINT64_MAX;
    cachalot_sim_fail(driver_, &failure, nullptr);
  }
  failures_.clear();
  set_pending_error(0);
}

}  // namespace cachalot_test
