// SPDX-License-Identifier: MIT OR Apache-2.0
// What libtorch pays for an empty tensor whose memory the cache serves, by its own allocator or by cachalot. No kernel
// runs.
//
//   libtorch_cost native|cachalot     prints the ns of a tensor: the least of 15 rounds
#include <ATen/ATen.h>
#include <cachalot/libtorch.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace {

constexpr int kRounds = 15;
constexpr int kTensors = 20'000;

double nanoseconds_of_a_tensor(int64_t bytes, const at::TensorOptions& options) {
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < kTensors; i++) at::empty({bytes}, options);
  const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - begin;
  return took.count() / kTensors;
}

bool install() {
  const bool is_test = std::getenv("CACHALOT_DRIVER") != nullptr;  // without a GPU
  cachalot_error error = CACHALOT_ERROR_INIT;
  cachalot_allocator* allocator = nullptr;  // never destroyed
  const uint32_t flags = is_test ? CACHALOT_LIBTORCH_ANY_DRIVER : 0;
  const bool is_installed = cachalot_allocator_create(nullptr, &allocator, &error) == CACHALOT_OK &&
                            cachalot_libtorch_install(allocator, flags, &error) == CACHALOT_OK;
  if (!is_installed) std::fprintf(stderr, "%s\n", error.message);
  return is_installed;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view way = argc == 2 ? argv[1] : "";
  if (way != "native" && way != "cachalot") {
    std::fprintf(stderr, "usage: libtorch_cost native|cachalot\n");
    return 2;
  }
  if (way == "cachalot" && !install()) return 1;
  const at::TensorOptions options = at::TensorOptions().dtype(at::kByte).device(at::kCUDA, 0);
  const at::Tensor kept[] = {at::empty({1 << 20}, options), at::empty({1 << 20}, options)};
  double least = nanoseconds_of_a_tensor(1 << 20, options);
  for (int round = 1; round < kRounds; round++)
    least = std::min(least, nanoseconds_of_a_tensor(1 << 20, options));
  std::printf("%s: %.0f ns a tensor of 1 MiB\n", argv[1], least);
}
