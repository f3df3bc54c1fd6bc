// SPDX-License-Identifier: MIT OR Apache-2.0
// An allocator of the library as the GPU programs use it: owned, failures thrown, CUDA's types.
#pragma once

#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <string>
#include <utility>

#include "check.h"

namespace gpu {

inline cachalot_stream handle_of(cudaStream_t stream) {
  return reinterpret_cast<cachalot_stream>(stream);
}

inline cachalot_driver* open_driver(const std::string& name) {
  cachalot_driver* driver = nullptr;
  cachalot_error error = CACHALOT_ERROR_INIT;
  check_status(cachalot_driver_open(name.c_str(), &driver, &error), error,
               ("driver " + name).c_str());
  return driver;
}

class Allocator {
 public:
  explicit Allocator(const std::string& config, const std::string& driver_name = "cuda",
                     int32_t release = CACHALOT_RELEASE_DEFAULT, const std::string& policy = "")
      : Allocator(open_driver(driver_name), config, release, policy) {}
  // Takes the caller's reference to the driver. policy: as CACHALOT_POLICY has it; "": the
  // environment decides.
  Allocator(cachalot_driver* driver, const std::string& config, int32_t release,
            const std::string& policy, bool tracks_labels = false) {
    cachalot_allocator_options options = {};
    options.struct_size = sizeof options;
    options.driver = driver;
    options.config = config.c_str();
    options.release = release;
    options.track_labels = tracks_labels ? 1 : 0;
    cachalot_error error = CACHALOT_ERROR_INIT;
    cachalot_status status = policy.empty() ? CACHALOT_OK : read_policy(policy, options, error);
    if (status == CACHALOT_OK) status = cachalot_allocator_create(&options, &allocator_, &error);
    cachalot_driver_destroy(driver);
    check_status(status, error, ("allocator \"" + config + "\", \"" + policy + "\"").c_str());
  }
  Allocator(const Allocator&) = delete;
  Allocator& operator=(const Allocator&) = delete;
  ~Allocator() { cachalot_allocator_destroy_all(allocator_, nullptr); }

  cachalot_allocator* get() const { return allocator_; }

  cachalot_address allocate(uint64_t size, int device, cudaStream_t stream) {
    cachalot_address address = 0;
    cachalot_error error = CACHALOT_ERROR_INIT;
    check_status(cachalot_allocate(allocator_, size, device, handle_of(stream), &address, &error),
                 error, "cachalot_allocate");
    return address;
  }

  // 0 where the device has not enough memory.
  cachalot_address allocate_if_possible(uint64_t size, int device, cudaStream_t stream) {
    cachalot_address address = 0;
    cachalot_error error = CACHALOT_ERROR_INIT;
    const cachalot_status status =
        cachalot_allocate(allocator_, size, device, handle_of(stream), &address, &error);
    if (status == CACHALOT_ERROR_OUT_OF_MEMORY) return 0;
    check_status(status, error, "cachalot_allocate");
    return address;
  }

  void free(cachalot_address address) { call("cachalot_free", cachalot_free, address); }
  void record_stream(cachalot_address address, cudaStream_t stream) {
    call("cachalot_record_stream", cachalot_record_stream, address, handle_of(stream));
  }
  void empty_cache() { call("cachalot_empty_cache", cachalot_empty_cache); }
  void set_limit(int device, uint64_t bytes) {
    call("cachalot_set_memory_limit", cachalot_set_memory_limit, device, bytes);
  }
  void set_fraction(int device, double fraction) {
    call("cachalot_set_memory_fraction", cachalot_set_memory_fraction, device, fraction);
  }
  void enable_peer_access(int device, int peer) {
    call("cachalot_enable_peer_access", cachalot_enable_peer_access, device, peer);
  }
  void stream_ended(int device, cudaStream_t stream) {
    call("cachalot_stream_ended", cachalot_stream_ended, device, handle_of(stream));
  }
  void check() { call("cachalot_check", cachalot_check); }

  cachalot_device_totals totals(int device) {
    cachalot_device_totals totals = {};
    totals.struct_size = sizeof totals;
    call("cachalot_get_device_totals", cachalot_get_device_totals, device, &totals);
    return totals;
  }
  cachalot_stats stats(int device) {
    cachalot_stats stats = {};
    stats.struct_size = sizeof stats;
    call("cachalot_get_stats", cachalot_get_stats, device, &stats);
    return stats;
  }
  cachalot_policy_stats policy_stats(int device) {
    cachalot_policy_stats stats = {};
    stats.struct_size = sizeof stats;
    call("cachalot_get_policy_stats", cachalot_get_policy_stats, device, &stats);
    return stats;
  }

 private:
  static cachalot_status read_policy(const std::string& text, cachalot_allocator_options& options,
                                     cachalot_error& error) {
    cachalot_policy policy = {};
    policy.struct_size = sizeof policy;
    const cachalot_status status = cachalot_policy_read(text.c_str(), &policy, &error);
    options.policy = policy.policy;
    options.thrift = policy.thrift;
    options.borrow = policy.borrow;
    options.streams = policy.streams;
    options.page_bytes = policy.page_bytes;
    return status;
  }

  template <class Function, class... Arguments>
  void call(const char* name, Function function, Arguments... arguments) {
    cachalot_error error = CACHALOT_ERROR_INIT;
    check_status(function(allocator_, arguments..., &error), error, name);
  }

  cachalot_allocator* allocator_ = nullptr;
};

inline void print_policy_stats(const cachalot_policy_stats& stats) {
  printf("  pages_created %" PRIu64 ", pages_moved %" PRIu64 ", pages_released %" PRIu64
         ", blocks_borrowed %" PRIu64 ", stream_waits %" PRIu64 ", host_waits %" PRIu64 "\n",
         stats.pages_created, stats.pages_moved, stats.pages_released, stats.blocks_borrowed,
         stats.stream_waits, stats.host_waits);
}

}  // namespace gpu
