// SPDX-License-Identifier: MIT OR Apache-2.0
// Devices that keep a ledger: every segment, reservation, page, mapping, event, stream-ordered block,
// block of pinned memory and memory opened by a handle is entered once and struck out once, and a
// call that does not fit the ledger is a defect.
#pragma once

#include <array>
#include <iterator>
#include <map>
#include <set>
#include <unordered_map>
#include <vector>

#include "ledger_contents.h"
#include "machine.h"

namespace cachalot_test {

// The last of the ranges, sorted by where they begin, that begins at the address or before; the end without one.
template <class Ranges>
typename Ranges::const_iterator last_from(const Ranges& ranges, cachalot_address address) {
  const auto above = ranges.upper_bound(address);
  return above == ranges.begin() ? ranges.end() : std::prev(above);
}

// Whether one of the ranges, by where they begin and their sizes, has all of the bytes.
inline bool is_within(const std::map<cachalot_address, uint64_t>& ranges, cachalot_address address,
                      uint64_t size) {
  const auto range = last_from(ranges, address);
  return range != ranges.end() && address + size <= range->first + range->second;
}

class LedgerMachine final : public Machine {
 public:
  // has_fabric: pages go to other processes as fabric handles; else as descriptors.
  LedgerMachine(uint64_t capacity, int32_t device_count, bool has_fabric, Plant plant);
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
  uint64_t usable(int32_t device, cachalot_address address, uint64_t size) const override;
  bool is_same(int32_t device, cachalot_address one, cachalot_address other) const override;
  void write(cachalot_address address, uint64_t mark) override { contents_.write(address, mark); }
  uint64_t read(cachalot_address address) const override { return contents_.read(address); }

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
    uint64_t page;
    bool is_of_import;
    uint64_t access;  // a bit for each device
  };
  // Its name is the handle of its making. An import gives another one.
  struct Page {
    uint64_t size;
    int32_t type;           // CACHALOT_HANDLE_*
    uint64_t own = 1;       // the handle of its making, and mappings by it
    uint64_t imported = 0;  // handles of imports, and mappings by them
  };
  struct Event {
    bool is_live = false;
    cachalot_stream stream = 0;
    uint64_t ticket = 0;
    std::vector<uint64_t> tickets_of_all = {};  // of an event of all streams
  };
  struct Opened {
    uint64_t size;
    uint64_t name;
  };
  using Ranges = std::map<cachalot_address, uint64_t>;
  struct Device {
    uint64_t used = 0;
    uint64_t used_by_imports = 0;  // of that: pages that nothing but imports keep
    Ranges segments;
    std::unordered_map<cachalot_address, uint64_t> segment_names;  // of those with a handle
    std::map<cachalot_address, Opened> opened;                     // by handles of segments
    Ranges reservations;
    std::map<cachalot_address, Mapping> mappings;
    std::unordered_map<uint64_t, Page> pages;
    std::set<uint64_t> handles;                       // of pages, not released
    std::unordered_map<uint64_t, uint64_t> imported;  // handles and their pages
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
  static void fill_copies(cachalot_device_ops* ops);
  static void fill_sharing(cachalot_device_ops* ops);

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
  void tell_unlocked() {
    if (watcher_) watcher_->unlocked();
  }

  int32_t allocate(int32_t device, uint64_t size, cachalot_address* out);
  int32_t free(int32_t device, cachalot_address address);
  int32_t reserve(int32_t device, uint64_t size, cachalot_address* out);
  int32_t unreserve(int32_t device, cachalot_address address, uint64_t size);
  int32_t create(int32_t device, uint64_t size, int32_t type, uint64_t* out);
  int32_t release(int32_t device, uint64_t handle);
  int32_t map(int32_t device, cachalot_address address, uint64_t size, uint64_t handle);
  int32_t unmap(int32_t device, cachalot_address address, uint64_t size);
  int32_t set_access(int32_t device, cachalot_address address, uint64_t size, int32_t accessing);
  uint64_t page_of(int32_t device, uint64_t handle) const;
  void let_go(Device& device, uint64_t page, bool is_import);
  int32_t event_create(int32_t device, uint64_t* out);
  int32_t event_destroy(int32_t device, uint64_t handle);
  int32_t event_record(int32_t device, uint64_t handle, cachalot_stream on);
  int32_t event_record_all(int32_t device, uint64_t handle);
  int32_t event_query(int32_t device, uint64_t handle);
  int32_t event_synchronize(int32_t device, uint64_t handle);
  int32_t device_synchronize(int32_t device);
  int32_t capture_info(int32_t device, cachalot_stream on, cachalot_capture_info* out);
  int32_t pool_allocate(int32_t device, uint64_t size, cachalot_address* out);
  int32_t pool_free(int32_t device, cachalot_address address);
  int32_t pool_get_attribute(int32_t device, int32_t attribute, uint64_t* out);

  // ledger_copies.cpp
  int32_t host_allocate(uint64_t size, cachalot_address* out);
  int32_t host_free(cachalot_address address);
  int32_t copy(int32_t to_device, cachalot_address to, int32_t from_device, cachalot_address from,
               uint64_t size);
  void require_usable(int32_t device, cachalot_address address, uint64_t size) const;
  uint64_t mapped(const Device& of, int32_t device, cachalot_address address, uint64_t size) const;

  // ledger_sharing.cpp
  int32_t export_page(int32_t device, uint64_t handle, int32_t type,
                      cachalot_shareable_handle* out);
  int32_t import_page(int32_t device, const cachalot_shareable_handle& from, int32_t type,
                      uint64_t* out);
  int32_t ipc_get(int32_t device, cachalot_address address, cachalot_shareable_handle* out);
  int32_t ipc_open(int32_t device, const cachalot_shareable_handle& from, cachalot_address* out);
  int32_t ipc_close(int32_t device, cachalot_address address);
  std::pair<uint64_t, uint64_t> memory_at(int32_t device, cachalot_address address) const;

  const uint64_t capacity_;
  const bool has_fabric_;
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
  uint64_t last_segment_name_ = 0;
  Ranges host_blocks_;
  cachalot_address next_host_address_ = 0x300000000000;
  cachalot_address next_opened_address_ = 0x1000000000000;
  LedgerContents contents_;
  cachalot_stream last_stream_ = 0x5000000;
};

}  // namespace cachalot_test
