// SPDX-License-Identifier: MIT OR Apache-2.0
// The cuda driver with everything that it is asked written down as the oracle writes it, and with
// the streams of a script in place of real ones.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "device/cuda_driver.h"
#include "held_streams.h"

namespace cachalot::gpu {

class LoggedDriver final : public Driver {
 public:
  // word: of `log`, for a line that is printed only where the script asks for it; else null.
  using Print = std::function<void(const char* word, std::string line)>;

  LoggedDriver(const CudaOptions& options, HeldStreams& streams, Print print)
      : cuda_(options), streams_(streams), print_(std::move(print)) {}

  // Since the last question: addresses that the device gave, in order...
  std::vector<Address> take_addresses() { return std::exchange(addresses_, {}); }
  // ...and whether a call waited for all work, as giving memory back does.
  bool take_finished_all() { return std::exchange(finished_all_, false); }
  // Whether an event that belongs to a capture was asked for: that ends a real capture.
  bool take_captured_event() { return std::exchange(captured_event_, false); }
  // What creating a page with a fabric handle gave, and what the management library said.
  DriverCode fabric_create_code() const { return fabric_create_code_; }
  int32_t fabric_state_seen() const { return fabric_state_; }

  const char* name() const override { return cuda_.name(); }
  int device_count() const override { return 1; }
  bool supports_virtual_memory() const override { return cuda_.supports_virtual_memory(); }
  bool supports_memory_pools() const override { return false; }  // the scripts have none

  DriverCode memory_info(int device, uint64_t* free_bytes, uint64_t* total_bytes) override;
  DriverCode total_memory(int device, uint64_t* total_bytes) override;
  DriverCode allocate(int device, uint64_t size, Address* address) override;
  DriverCode free(int device, Address address) override;

  DriverCode reserve(int device, uint64_t size, Address* address) override;
  DriverCode unreserve(int device, Address address, uint64_t size) override;
  DriverCode granularity(int device, uint64_t* bytes) override;
  DriverCode create(int device, uint64_t size, HandleType type, bool rdma,
                    uint64_t* handle) override;
  DriverCode export_handle(int device, uint64_t handle, HandleType type,
                           ShareableHandle* out) override;
  DriverCode import_handle(int device, const ShareableHandle& shareable, HandleType type,
                           uint64_t* handle) override;
  DriverCode release(int device, uint64_t handle) override;
  DriverCode map(int device, Address address, uint64_t size, uint64_t handle) override;
  DriverCode unmap(int device, Address address, uint64_t size) override;
  DriverCode set_access(int device, Address address, uint64_t size, int accessing_device) override;
  DriverCode fabric_state(int device, int32_t* state) override;

  DriverCode event_create(int device, uint64_t* event) override;
  DriverCode event_destroy(int device, uint64_t event) override;
  DriverCode event_record(int device, uint64_t event, Stream stream) override;
  DriverCode event_query(int device, uint64_t event) override;
  DriverCode event_synchronize(int device, uint64_t event) override;
  DriverCode stream_synchronize(int device, Stream stream) override;
  DriverCode device_synchronize(int device) override;

  DriverCode capture_info(int device, Stream stream, CaptureInfo* info) override;
  DriverCode node_dependencies(int device, uint64_t node, std::vector<uint64_t>* nodes) override;
  DriverCode exchange_capture_mode(int device, int32_t* mode) override;

  DriverCode enable_peer(int device, int peer) override;
  // None: the oracle's management library knows of no process either.
  std::vector<DeviceProcess> processes(int) override { return {}; }
  DriverCode take_pending_error(int device) override { return cuda_.take_pending_error(device); }
  std::string error_text(DriverCode code) override { return cuda_.error_text(code); }

 private:
  struct Mark {
    Stream stream = 0;
    uint64_t piece = 0;
  };

  Stream real(Stream stream) { return reinterpret_cast<Stream>(streams_.real(stream)); }
  void print(const std::string& call, DriverCode code);
  void finish_all();
  DriverCode note_captured_event(DriverCode code);

  CudaDriver cuda_;
  HeldStreams& streams_;
  Print print_;
  std::vector<Address> addresses_;
  bool finished_all_ = false;
  bool captured_event_ = false;
  DriverCode fabric_create_code_ = kSuccess;
  int32_t fabric_state_ = -1;
  std::unordered_map<uint64_t, Mark> marks_;  // of events
};

}  // namespace cachalot::gpu
