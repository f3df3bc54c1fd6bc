// SPDX-License-Identifier: MIT OR Apache-2.0
// Computes on a block of another process in place: reads its ticket, squares its numbers, and answers with a line.
#include <cachalot/cachalot.h>

#include <cstdint>
#include <cstdio>
#include <iostream>
#include <string>

namespace {

struct Worker {
  cachalot_driver* driver = nullptr;
  cachalot_allocator* allocator = nullptr;
  cachalot_opened_block* block = nullptr;
  cachalot_error error = CACHALOT_ERROR_INIT;

  ~Worker() {
    cachalot_opened_block_destroy(block);
    cachalot_allocator_destroy(allocator, nullptr);
    cachalot_driver_destroy(driver);
  }

  bool open(const std::string& ticket) {
    if (cachalot_driver_open("host-shared", &driver, &error) != CACHALOT_OK) return false;
    cachalot_allocator_options options = {};
    options.struct_size = sizeof options;
    options.driver = driver;
    return cachalot_allocator_create(&options, &allocator, &error) == CACHALOT_OK &&
           cachalot_opened_block_create(allocator, 0, ticket.c_str(), &block, &error) ==
               CACHALOT_OK;
  }
};

}  // namespace

int main() {
  std::string ticket;
  std::getline(std::cin, ticket);
  Worker worker;
  if (!worker.open(ticket)) {
    std::fprintf(stderr, "worker: %s\n", worker.error.message);
    return 1;
  }
  cachalot_address address = 0;
  uint64_t size = 0;
  cachalot_opened_block_address(worker.block, &address, &size, &worker.error);
  auto* const numbers = reinterpret_cast<float*>(address);
  const uint64_t count = size / sizeof *numbers;
  for (uint64_t i = 0; i < count; i++) numbers[i] *= numbers[i];
  std::printf("%llu squares, in C++\n", static_cast<unsigned long long>(count));
  return 0;
}
