// SPDX-License-Identifier: MIT OR Apache-2.0
// The device that the reference ran on, told again: it hands out the recorded addresses, prints the
// same lines for the same calls, and does what the script says about work, captures and failures.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cachalot/cachalot.h"
#include "transcript.h"

namespace cachalot::differential {

// All devices of a script share one memory and one set of streams, as on the oracle's. The library's thread in the
// background calls the device beside the script, so each call goes through `Locked`, but for create_driver, which lets
// the library call back.
class ScriptDevice {
 public:
  // The device to one thread alone.
  class Locked {
   public:
    explicit Locked(ScriptDevice& device) : lock_(device.mutex_), device_(device) {}
    ScriptDevice* operator->() const { return &device_; }
    ScriptDevice& operator*() const { return device_; }

   private:
    std::lock_guard<std::mutex> lock_;
    ScriptDevice& device_;
  };

  // transcript: gets a line for each call; must outlive this.
  explicit ScriptDevice(Transcript& transcript) : transcript_(transcript) {}
  virtual ~ScriptDevice() = default;
  ScriptDevice(const ScriptDevice&) = delete;
  ScriptDevice& operator=(const ScriptDevice&) = delete;

  // The functions of a driver whose user_data is a ScriptDevice.
  static cachalot_device_ops driver_functions();
  // A driver over this device, which must outlive it.
  virtual cachalot_status create_driver(cachalot_driver** out_driver, cachalot_error* error);
  // A pool's own source of segments, which prints its calls too.
  cachalot_pool_source pool_source();

  void set_memory(uint64_t bytes, int32_t devices);
  int32_t device_count() const { return devices_; }

  // The addresses that the reference got in the operation to come, in the order of its expected
  // lines.
  void expect_addresses(std::span<const std::string_view> expected);
  // Also prints the calls that a word of `log` names.
  void show(std::string_view word) { shown_.emplace(word); }
  void stop_printing() { printing_ = false; }

  virtual void begin_work(cachalot_stream stream) { streams_[stream].submitted++; }
  virtual void finish_oldest(cachalot_stream stream);
  virtual void finish_stream(cachalot_stream stream);
  virtual void finish_all();

  void fail_allocations(uint64_t count, uint64_t after);
  void fail_once(int32_t code, uint64_t after) { allocation_error_ = {code, after}; }
  void fail_event(int32_t code, uint64_t after) { event_error_ = {code, after}; }
  void fail_host_free(int32_t code, uint64_t after) { host_free_error_ = {code, after}; }
  void fail_pool_source(uint64_t count) { failing_sources_ = count; }
  void set_pending_error(int32_t code);
  void set_fabric_result(int32_t code) { fabric_result_ = code; }
  void set_fabric_state(int32_t state) { fabric_state_ = state; }
  // Whether shared memory can be opened.
  void set_sharing(bool works) { opens_shared_ = works; }
  void set_graph_memory(uint64_t used, uint64_t reserved);
  void add_process(uint64_t pid, uint64_t used);

  virtual void begin_capture(cachalot_stream stream, uint64_t capture);
  virtual void end_capture(uint64_t capture);
  virtual void end_all_captures();
  virtual void add_node(cachalot_stream stream);
  virtual void fork(cachalot_stream from, cachalot_stream to);
  virtual void join(cachalot_stream into, cachalot_stream other);

  // What is still obtained, in words; empty if nothing is.
  virtual std::string leftovers() const;

 protected:
  void print(std::string line);
  void print_if_shown(const char* word, std::string line);
  virtual cachalot_address own_allocate(uint64_t size, cachalot_stream stream);

 private:
  struct Stream {
    uint64_t submitted = 0;
    uint64_t completed = 0;
    uint64_t capture = 0;
    std::vector<uint64_t> end_nodes;
  };
  // A number of bytes, and the highest that it was.
  struct Watermark {
    uint64_t current = 0;
    uint64_t high = 0;
    void set(uint64_t bytes);
  };
  // A code that a call gives once, after others that work.
  struct OrderedError {
    int32_t code = 0;
    uint64_t after = 0;

    int32_t take();  // 0: this call works
  };
  struct Event {
    cachalot_stream stream = 0;
    uint64_t mark = 0;
  };
  // Calls whose results the expected file names.
  enum Source {
    kMalloc,
    kReserve,
    kOwnMalloc,
    kMallocAsync,
    kHostAlloc,
    kRegistered,
    kIpcOpen,
    kSourceCount
  };

  static Locked of(void* user_data) { return Locked(*static_cast<ScriptDevice*>(user_data)); }
  static void add_pool_functions(cachalot_device_ops& ops);
  static void add_host_functions(cachalot_device_ops& ops);
  static void add_sharing_functions(cachalot_device_ops& ops);

  int32_t runtime_failure(int32_t code);
  int32_t driver_failure(int32_t code);
  bool refuses(uint64_t size);
  bool overlaps(cachalot_address address, uint64_t size) const;
  cachalot_address place(Source source, uint64_t size);

  int32_t memory_info(uint64_t* out_free, uint64_t* out_total) const;
  int32_t allocate(uint64_t size, cachalot_address* out_address);
  int32_t hand_out(Source source, const std::string& call, uint64_t size,
                   cachalot_address* out_address);
  int32_t free(cachalot_address address);
  int32_t reserve(uint64_t size, cachalot_address* out_address);
  int32_t unreserve(cachalot_address address, uint64_t size);
  int32_t create(int32_t device, uint64_t size, int32_t handle_type, int32_t rdma,
                 uint64_t* out_handle);
  int32_t create_failure(uint64_t size, int32_t handle_type);
  int32_t export_handle(uint64_t handle, int32_t handle_type, cachalot_shareable_handle* out);
  int32_t import_handle(int32_t handle_type, uint64_t* out_handle);
  int32_t release(uint64_t handle);
  int32_t map(cachalot_address address, uint64_t size);
  int32_t unmap(cachalot_address address, uint64_t size);
  int32_t set_access(cachalot_address address, uint64_t size, int32_t accessing_device);
  int32_t fabric_state(int32_t* out_state) const;
  int32_t event_failure(const std::string& call);
  int32_t event_create(uint64_t* out_event);
  int32_t event_destroy(uint64_t event);
  int32_t event_record(uint64_t event, cachalot_stream stream);
  int32_t event_query(uint64_t event);
  int32_t event_synchronize(uint64_t event);
  int32_t stream_synchronize(cachalot_stream stream);
  int32_t device_synchronize();
  int32_t capture_info(cachalot_stream stream, cachalot_capture_info* out_info);
  int32_t node_dependencies(uint64_t node, const uint64_t** out_nodes, size_t* out_count);
  int32_t exchange_capture_mode(int32_t* inout_mode);
  int32_t pool_allocate(uint64_t size, cachalot_stream stream, cachalot_address* out_address);
  int32_t pool_free(cachalot_address address, cachalot_stream stream);
  int32_t pool_trim(uint64_t keep_bytes);
  int32_t pool_get_attribute(int32_t attribute, uint64_t* out_value) const;
  int32_t pool_set_attribute(int32_t attribute, uint64_t value);
  int32_t pool_set_access(int32_t device, int32_t accessing_device);
  int32_t graph_get_attribute(int32_t attribute, uint64_t* out_value) const;
  int32_t graph_set_attribute(int32_t attribute, uint64_t value);
  int32_t stream_create(cachalot_stream* out_stream);
  int32_t stream_wait_event(cachalot_stream stream);
  void change_pool_use(int64_t bytes);
  int32_t host_allocate(uint64_t size, bool is_registered, cachalot_address* out_address);
  int32_t host_free(cachalot_address address, bool is_registered);
  int32_t ipc_get(cachalot_address address, cachalot_shareable_handle* out);
  int32_t ipc_open(const cachalot_shareable_handle& handle, cachalot_address* out_address);
  int32_t ipc_close(cachalot_address address);
  int32_t enable_peer(int32_t device, int32_t peer);
  int32_t processes(cachalot_device_process* rows, size_t capacity, size_t* out_count) const;
  int32_t take_pending_error();
  const char* error_text(int32_t code) const;
  void own_free(cachalot_address address);

  std::mutex mutex_;
  Transcript& transcript_;
  bool printing_ = true;
  std::set<std::string, std::less<>> shown_;
  uint64_t total_ = uint64_t{80} << 30;
  uint64_t used_ = 0;
  int32_t devices_ = 1;

  std::deque<cachalot_address> recorded_[kSourceCount];
  cachalot_address next_made_up_ = 0x600000000000;
  // Everything that was placed, so that no two ranges overlap.
  std::map<cachalot_address, uint64_t> ranges_;
  std::unordered_map<cachalot_address, uint64_t> mallocs_;
  std::unordered_map<cachalot_address, uint64_t> own_mallocs_;
  std::unordered_map<cachalot_address, uint64_t> host_blocks_;
  std::unordered_map<uint64_t, uint64_t> handles_;
  uint64_t next_handle_ = 1;
  std::map<cachalot_address, uint64_t> maps_;
  std::set<cachalot_address> opened_;
  bool opens_shared_ = false;

  std::unordered_map<cachalot_stream, Stream> streams_;
  std::unordered_map<uint64_t, Event> events_;
  uint64_t next_event_ = 1;
  std::unordered_map<uint64_t, std::vector<uint64_t>> dependencies_;
  int32_t capture_mode_ = 0;

  uint64_t failing_allocations_ = 0;
  uint64_t failing_after_ = 0;
  OrderedError allocation_error_;
  OrderedError event_error_;
  OrderedError host_free_error_;
  uint64_t failing_sources_ = 0;
  int32_t pending_error_ = 0;
  bool last_failure_was_of_runtime_ = true;
  int32_t fabric_result_ = 0;
  int32_t fabric_state_ = 0;
  std::vector<cachalot_device_process> processes_;
  Watermark pool_used_;
  Watermark pool_reserved_;
  Watermark graph_used_;
  Watermark graph_reserved_;
  cachalot_stream last_stream_made_ = 0x500000;
};

}  // namespace cachalot::differential
