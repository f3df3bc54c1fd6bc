// SPDX-License-Identifier: MIT OR Apache-2.0
// Devices that keep a ledger: every segment, reservation, page, mapping, event and stream-ordered
// block is entered once and struck out once, and a call that does not fit the ledger is a defect.
#pragma once

#include <array>
#include <map>
#include <unordered_map>
#include <vector>

#include "machine.h"

namespace cachalot_test {

class LedgerMachine final : public Machine {
 public:
  LedgerMachine(uint64_t capacity, int32_t device_count, Plant plant = Plant::kNothing);
  ~LedgerMachine() override;

  cachalot_driver* driver() override { return driver_; }
  void watch(MachineWatcher* watcher) override { watcher_ = watcher; }

  void queue_work(int32_t device, cachalot_stream stream) override;
  void finish_oldest(int32_t device, cachalot_stream stream) override;
  void finish_stream(int32_t device, cachalot_stream stream) override;
  uint64_t queued(int32_t device, cachalot_stream stream) override;
  uint64_t finished(int32_t device, cachalot_stream stream) override;

  void begin_capture(int32_t device, cachalot_stream stream, uint64_t capture) override;
  void end_capture(int32_t device, uint64_t capture) override;
  void add_node(int32_t device, cachalot_stream stream) override;
  void fork(int32_t device, cachalot_stream from, cachalot_stream to) override;
  void join(int32_t device, cachalot_stream into, cachalot_stream other) override;

  void fail(uint32_t calls, int32_t code, uint64_t after, uint64_t count) override;
  void set_pending_error(int32_t code) override { pending_error_ = code; }
  void forget_faults() override;
  uint64_t faults() const override { return faults_; }
  uint64_t held(int32_t device) const override;
  std::string leaks() const override;

  // How often each kind of call was made to fail, by the number of its bit.
  const std::array<uint64_t, 32>& faults_by_kind() const { return faults_by_kind_; }

 private:
  struct Stream {
    cachalot_stream handle;
    uint64_t queued = 0;
    uint64_t finished = 0;
    uint64_t capture = 0;
    std::vector<uint64_t> nodes = {};
  };
  struct Mapping {
    uint64_t size;
    uint64_t handle;
    bool has_access;
  };
  struct Page {
    uint64_t size;
    bool is_released;
    uint64_t mappings;
  };
  struct Event {
    bool is_live = false;
    cachalot_stream stream = 0;
    uint64_t ticket = 0;
  };
  using Ranges = std::map<cachalot_address, uint64_t>;
  struct Device {
    uint64_t used = 0;
    Ranges segments;
    Ranges reservations;
    std::map<cachalot_address, Mapping> mappings;
    std::unordered_map<uint64_t, Page> pages;
    std::unordered_map<cachalot_address, uint64_t> pool_blocks;
    uint64_t pool_used = 0;
    uint64_t pool_used_high = 0;
    uint64_t pool_reserved_high = 0;
    std::vector<Stream> streams;
    std::vector<Event> events;
    std::vector<uint64_t> spare_events;
    uint64_t live_events = 0;
  };
  struct Fault {
    uint32_t calls;
    int32_t code;
    uint64_t after;
    uint64_t count;
  };

  static LedgerMachine& of(void* self) { return *static_cast<LedgerMachine*>(self); }
  static void fill_memory(cachalot_device_ops* ops);
  static void fill_virtual_memory(cachalot_device_ops* ops);
  static void fill_events(cachalot_device_ops* ops);
  static void fill_captures(cachalot_device_ops* ops);
  static void fill_pool(cachalot_device_ops* ops);

  Device& at(int32_t device) { return devices_[static_cast<size_t>(device)]; }
  const Device& at(int32_t device) const { return devices_[static_cast<size_t>(device)]; }
  Stream& stream(int32_t device, cachalot_stream handle);
  Event& event(int32_t device, uint64_t handle);
  int32_t due(uint32_t call) { return (armed_ & call) == 0 ? 0 : count_fault(call); }
  int32_t count_fault(uint32_t call);
  bool fits(const Device& device, uint64_t size) const {
    return size <= capacity_ && device.used <= capacity_ - size;
  }
  cachalot_address place(int32_t device, uint64_t size) const;
  void tell_of_giving_back(cachalot_address address, uint64_t size) {
    if (watcher_) watcher_->giving_back(address, size);
  }
  void tell_under_way(bool is_allocation) {
    if (watcher_) watcher_->under_way(is_allocation);
  }

  int32_t allocate(int32_t device, uint64_t size, cachalot_address* out);
  int32_t free(int32_t device, cachalot_address address);
  int32_t reserve(int32_t device, uint64_t size, cachalot_address* out);
  int32_t unreserve(int32_t device, cachalot_address address, uint64_t size);
  int32_t create(int32_t device, uint64_t size, uint64_t* out);
  int32_t release(int32_t device, uint64_t handle);
  int32_t map(int32_t device, cachalot_address address, uint64_t size, uint64_t handle);
  int32_t unmap(int32_t device, cachalot_address address, uint64_t size);
  int32_t set_access(int32_t device, cachalot_address address, uint64_t size);
  void drop_page(Device& device, uint64_t handle);
  int32_t event_create(int32_t device, uint64_t* out);
  int32_t event_destroy(int32_t device, uint64_t handle);
  int32_t event_record(int32_t device, uint64_t handle, cachalot_stream on);
  int32_t event_query(int32_t device, uint64_t handle);
  int32_t event_synchronize(int32_t device, uint64_t handle);
  int32_t device_synchronize(int32_t device);
  int32_t capture_info(int32_t device, cachalot_stream on, cachalot_capture_info* out);
  int32_t pool_allocate(int32_t device, uint64_t size, cachalot_address* out);
  int32_t pool_free(int32_t device, cachalot_address address);
  int32_t pool_get_attribute(int32_t device, int32_t attribute, uint64_t* out);

  const uint64_t capacity_;
  const Plant plant_;
  cachalot_driver* driver_ = nullptr;
  MachineWatcher* watcher_ = nullptr;
  std::vector<Device> devices_;
  std::vector<std::vector<uint64_t>> nodes_;  // what each node depends on
  std::vector<Fault> faults_to_come_;
  uint32_t armed_ = 0;
  uint64_t faults_ = 0;
  uint64_t refused_returns_ = 0;  // calls that give something back and were made to fail
  std::array<uint64_t, 32> faults_by_kind_{};
  int32_t pending_error_ = 0;
  uint64_t last_handle_ = 0;
  cachalot_stream last_stream_ = 0x5000000;
};

}  // namespace cachalot_test
