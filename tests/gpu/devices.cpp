// SPDX-License-Identifier: MIT OR Apache-2.0
// Two GPUs under one allocator: blocks of both, frees from either thread, and a kernel of one GPU
// that reads a block of the other, in plain and in expandable segments.
//
// Usage: devices
// Exit code: 0 passed, 1 failed, 77 fewer than two GPUs.
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "allocator.h"
#include "mismatches.h"
#include "streams.h"

namespace {

using gpu::Allocator;

constexpr int kDevices = 2;

struct Block {
  cachalot_address address;
  uint64_t size;
  uint32_t number;
  int device;
};

// What one device needs for kernels: made with it as the current one.
struct Side {
  explicit Side(int device) : set((check(device), device)), streams(1) {}
  cudaStream_t stream() const { return streams[0]; }

  int set;
  gpu::Streams streams;
  gpu::Mismatches mismatches;

 private:
  static void check(int device) { CHECK_CUDA(cudaSetDevice(device)); }
};

class Devices {
 public:
  explicit Devices(const std::string& config) : allocator_(config) {
    for (int device = 0; device < kDevices; device++) {
      sides_.push_back(std::make_unique<Side>(device));
    }
    CHECK_CUDA(cudaSetDevice(0));
  }

  // Every size class on both devices, whichever device is the thread's current one.
  void serve_each_device() {
    const std::vector<Block> blocks = make_blocks();
    verify_at_home(blocks);
    for (const Block& block : blocks) allocator_.free(block.address);
    require_nothing_live();
  }

  void free_from_other_threads() {
    std::vector<Block> blocks;
    std::thread maker([&] { guard([&] { blocks = make_blocks(); }); });
    maker.join();
    rethrow();
    verify_at_home(blocks);
    // Half is freed by a thread that never used a device, half by one that uses the other device.
    std::thread stranger([&] { guard([&] { free_every_second(blocks, 0); }); });
    std::thread neighbour([&] {
      guard([&] {
        CHECK_CUDA(cudaSetDevice(1));
        free_every_second(blocks, 1);
        require_current(1);
      });
    });
    stranger.join();
    neighbour.join();
    rethrow();
    require_nothing_live();
    require_current(0);
    require_reuse();
  }

  // One block from before the access was opened, one from after: future memory is meant too.
  void read_from_the_peer() {
    int possible = 0;
    CHECK_CUDA(cudaDeviceCanAccessPeer(&possible, 1, 0));
    if (!possible) throw gpu::Skip("GPU 1 cannot access GPU 0");
    const Block before = make_block(uint64_t{40} << 20, 0);
    allocator_.enable_peer_access(1, 0);
    const Block after = make_block(uint64_t{80} << 20, 0);
    require_current(0);
    CHECK_CUDA(cudaDeviceSynchronize());
    for (const Block& block : {before, after}) verify(block, 1);
    require_equal(1);
    allocator_.free(before.address);
    allocator_.free(after.address);
    require_nothing_live();
  }

 private:
  std::vector<Block> make_blocks() {
    std::vector<Block> blocks;
    for (int i = 0; i < 50; i++) {
      for (const uint64_t size : {uint64_t{512}, uint64_t{3} << 20, uint64_t{30} << 20}) {
        blocks.push_back(make_block(size, i % kDevices));
      }
    }
    return blocks;
  }

  // Filled; the current device stays as it is.
  Block make_block(uint64_t size, int device) {
    int current = 0;
    CHECK_CUDA(cudaGetDevice(&current));
    const cachalot_address address =
        allocator_.allocate(size, device, sides_[static_cast<size_t>(device)]->stream());
    require_current(current);
    const Block block = {address, size, ++last_number_, device};
    CHECK_CUDA(cudaSetDevice(device));
    CHECK_CUDA(gpu::fill_pattern(block.address, block.size, block.number,
                                 sides_[static_cast<size_t>(device)]->stream()));
    CHECK_CUDA(cudaSetDevice(current));
    require_home(block);
    return block;
  }

  static void require_home(const Block& block) {
    cudaPointerAttributes attributes = {};
    CHECK_CUDA(cudaPointerGetAttributes(&attributes, reinterpret_cast<void*>(block.address)));
    gpu::require(attributes.device == block.device,
                 "a block for device " + std::to_string(block.device) + " lies on device " +
                     std::to_string(attributes.device));
  }

  static void require_current(int device) {
    int current = -1;
    CHECK_CUDA(cudaGetDevice(&current));
    gpu::require(current == device, "the current device became " + std::to_string(current) +
                                        " instead of " + std::to_string(device));
  }

  // By a kernel on a device, which is then the thread's current one.
  void verify(const Block& block, int device) {
    const Side& side = *sides_[static_cast<size_t>(device)];
    CHECK_CUDA(cudaSetDevice(device));
    CHECK_CUDA(gpu::verify_pattern(block.address, block.size, block.number,
                                   side.mismatches.on_device(), side.stream()));
  }

  void verify_at_home(const std::vector<Block>& blocks) {
    for (const Block& block : blocks) verify(block, block.device);
    for (int device = 0; device < kDevices; device++) require_equal(device);
  }

  void require_equal(int device) {
    CHECK_CUDA(cudaSetDevice(device));
    const uint64_t differing = sides_[static_cast<size_t>(device)]->mismatches.print();
    CHECK_CUDA(cudaSetDevice(0));
    gpu::require(differing == 0,
                 std::to_string(differing) + " words differ on device " + std::to_string(device));
  }

  void free_every_second(const std::vector<Block>& blocks, size_t first) {
    for (size_t i = first; i < blocks.size(); i += 2) allocator_.free(blocks[i].address);
  }

  void require_nothing_live() {
    allocator_.check();
    for (int device = 0; device < kDevices; device++) {
      const uint64_t left = cachalot_memory_allocated(allocator_.get(), device);
      gpu::require(left == 0, std::to_string(left) + " bytes of device " + std::to_string(device) +
                                  " are still handed out");
    }
  }

  // What other threads freed is served again on its own device, without the driver.
  void require_reuse() {
    for (int device = 0; device < kDevices; device++) {
      const int64_t before = allocator_.stats(device).num_device_alloc;
      const Block block = make_block(uint64_t{3} << 20, device);
      gpu::require(allocator_.stats(device).num_device_alloc == before,
                   "freed memory of device " + std::to_string(device) + " is not used again");
      allocator_.free(block.address);
    }
  }

  void guard(const std::function<void()>& work) {
    try {
      work();
    } catch (...) {
      const std::lock_guard lock(mutex_);
      thrown_ = std::current_exception();
    }
  }

  void rethrow() {
    if (thrown_) std::rethrow_exception(std::exchange(thrown_, nullptr));
  }

  std::vector<std::unique_ptr<Side>> sides_;
  Allocator allocator_;
  uint32_t last_number_ = 0;
  std::mutex mutex_;
  std::exception_ptr thrown_;
};

bool attempt(const std::string& config, const char* what, void (Devices::*test)()) {
  const std::string name = std::string(what) + ", options \"" + config + "\"";
  try {
    Devices devices(config);
    (devices.*test)();
    printf("passed: %s\n", name.c_str());
    return true;
  } catch (const gpu::Skip& skip) {
    printf("skipped: %s: %s\n", name.c_str(), skip.what());
    return true;
  } catch (const gpu::Failure& failure) {
    printf("failed: %s: %s\n", name.c_str(), failure.what());
    return false;
  }
}

bool run() {
  gpu::require_gpus(kDevices);
  bool passed = true;
  for (const char* config : {"", "expandable_segments:True"}) {
    passed &=
        attempt(config, "each device is served from its own memory", &Devices::serve_each_device);
    passed &= attempt(config, "blocks are freed by threads of either device and of none",
                      &Devices::free_from_other_threads);
    passed &= attempt(config, "a kernel of one device reads a block of the other",
                      &Devices::read_from_the_peer);
  }
  return passed;
}

}  // namespace

int main() { return gpu::run_program(run); }
