// SPDX-License-Identifier: MIT OR Apache-2.0
// Whose memory it is that tensors of libtorch lie in, how it is given back, and what an out of memory says.
#include <ATen/ATen.h>
#include <cachalot/libtorch.h>

#include <cinttypes>
#include <cstdio>
#include <cstdlib>

int main() {
  const bool is_test = std::getenv("CACHALOT_DRIVER") != nullptr;  // without a GPU
  const uint32_t flags = is_test ? CACHALOT_LIBTORCH_ANY_DRIVER : 0;
  cachalot_error error = CACHALOT_ERROR_INIT;
  cachalot_allocator* allocator = nullptr;  // never destroyed
  // Before the first tensor on the GPU.
  if (cachalot_allocator_create(nullptr, &allocator, &error) != CACHALOT_OK ||
      cachalot_libtorch_install(allocator, flags, &error) != CACHALOT_OK) {
    std::fprintf(stderr, "%s\n", error.message);
    return 1;
  }
  const auto on_gpu = at::TensorOptions().dtype(at::kByte).device(at::kCUDA);
  {
    const at::Tensor tensor = at::empty({20 << 20}, on_gpu);
    std::printf("tensor of %" PRId64 ": %" PRIu64 " bytes of %" PRIu64 "\n", tensor.numel(),
                cachalot_memory_allocated(allocator, 0), cachalot_memory_reserved(allocator, 0));
  }
  uint64_t released = 0;
  cachalot_trim(allocator, 0, 0, 0, &released, nullptr);
  std::printf("given back: %" PRIu64 " bytes\n", released);

  cachalot_set_memory_fraction(allocator, 0, 0.001, nullptr);
  try {
    at::empty({1 << 30}, on_gpu);
    std::printf("there was memory\n");
  } catch (const c10::OutOfMemoryError& refused) {
    std::printf("%s\n", refused.what_without_backtrace());
  }
}
