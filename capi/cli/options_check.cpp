// SPDX-License-Identifier: MIT OR Apache-2.0
#include "options_check.h"

#include "failure.h"

namespace cachalot::cli {

cachalot_policy read_policy(const std::string& text) {
  cachalot_policy policy{};
  policy.struct_size = sizeof policy;
  cachalot_error error = CACHALOT_ERROR_INIT;
  check(cachalot_policy_read(text.c_str(), &policy, &error), error);
  return policy;
}

void check_options(const std::string& config, const cachalot_policy& policy) {
  cachalot_driver* driver = nullptr;
  cachalot_error error = CACHALOT_ERROR_INIT;
  check(cachalot_driver_open("sim:1GiB", &driver, &error), error);
  cachalot_allocator_options options{};
  options.struct_size = sizeof options;
  options.config = config.c_str();
  options.driver = driver;
  options.policy = policy.policy;
  options.thrift = policy.thrift;
  options.borrow = policy.borrow;
  options.streams = policy.streams;
  options.page_bytes = policy.page_bytes;
  cachalot_allocator* allocator = nullptr;
  const cachalot_status status = cachalot_allocator_create(&options, &allocator, &error);
  cachalot_allocator_destroy(allocator, nullptr);
  cachalot_driver_destroy(driver);
  check(status, error);
}

}  // namespace cachalot::cli
