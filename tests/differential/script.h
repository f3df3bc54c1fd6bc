// SPDX-License-Identifier: MIT OR Apache-2.0
// A script under way: the allocator and the device that it runs on, and what its operations share.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cachalot/cachalot.h"
#include "script_device.h"
#include "transcript.h"

namespace cachalot::differential {

// Ids of a script's blocks and their addresses.
using Blocks = std::unordered_map<int64_t, cachalot_address>;

struct DestroyCheckpoint {
  void operator()(cachalot_checkpoint* checkpoint) const {
    cachalot_checkpoint_destroy(checkpoint);
  }
};
using CheckpointHandle = std::unique_ptr<cachalot_checkpoint, DestroyCheckpoint>;

// What an allocator is made with.
struct Setup {
  // As cachalot_allocator_options.
  int32_t release = CACHALOT_RELEASE_2_15;
  std::string config;
  // NAME and VALUE; if there are any, the option string comes from the environment.
  std::vector<std::pair<std::string, std::string>> environment;
  // No observer is attached and no history recorded, so the library takes its hot path.
  bool unobserved = false;
};

// Scripts allocate on device 0.
inline constexpr int32_t kDevice = 0;

// What the words of `log` switch on here; those of the device are told to the device.
struct LogWords {
  bool observer = false;
  bool rejection = false;
  bool context = false;
  bool metadata = false;
  bool counter = false;
  bool whole_text = false;
};

std::unique_ptr<ScriptDevice> make_simulated_device(Transcript& transcript);

class Script {
 public:
  // Makes the device that a script runs on.
  using MakeDevice = std::function<std::unique_ptr<ScriptDevice>(Transcript& transcript)>;

  // Stands in the transcript for a failed call that has left no text.
  static constexpr const char* kNoMessage = "(no message)";

  explicit Script(Setup setup, const MakeDevice& make_device = make_simulated_device);
  ~Script();
  Script(const Script&) = delete;
  Script& operator=(const Script&) = delete;

  int32_t release() const { return setup_.release; }
  ScriptDevice::Locked device() { return ScriptDevice::Locked(*device_); }
  Transcript& transcript() { return transcript_; }
  cachalot_allocator* allocator() const { return allocator_; }
  cachalot_error* error() { return &error_; }

  // Makes the allocator, if there is none yet. False if that failed: then the script has ended.
  bool start();
  // Gives everything back; in words what is wrong about it, empty if nothing is.
  std::string finish();

  // Before each operation: its number among those of the file, counted from 1, and what the
  // reference did.
  void begin_operation(uint64_t number, std::span<const std::string_view> expected);
  // The same lines, while the operation runs.
  std::span<const std::string_view> expected() const { return expected_; }
  // After it: adds the lines that stand last.
  void end_operation();

  // Whether a call worked; if not its failure is in the transcript.
  bool worked(cachalot_status status);

  // Frees a tensor block; does nothing if the id is not live.
  void free_live(int64_t id);
  // The same for a block of pinned memory.
  void free_pinned(int64_t id);
  // Closes what an id has open; does nothing if it has nothing.
  void close_import(int64_t id);
  // Whether the script is of backend:cudaMallocAsync.
  bool is_backend_async() const;
  // Whether requests are cached now.
  bool is_caching() const;

  // The line is not comparable: the C interface leaves out on purpose what it shows.
  void exempt_operation() { exempt_operation_ = true; }
  void exempt_error_text() { exempt_error_text_ = true; }
  // From this operation on nothing is.
  void exempt_rest() { exempt_rest_ = true; }
  bool is_operation_exempt() const { return exempt_operation_; }
  bool is_error_text_exempt() const { return exempt_error_text_; }
  bool is_rest_exempt() const { return exempt_rest_; }

  // The defect ("U3") that the library has just mended; empty if there is none.
  const std::string& mended() const { return mended_; }

  LogWords log;
  cachalot_stream current_stream = 0;
  bool caching_switched_on = true;
  // Blocks of tensors; raw blocks; the address that an id had last.
  Blocks live;
  Blocks raw;
  Blocks pinned;
  Blocks last;
  Blocks imported;
  std::unordered_map<std::string, CheckpointHandle> checkpoints;  // by name
  // What the free-memory callback is to free.
  std::vector<int64_t> armed;

 private:
  cachalot_allocator_options options();
  bool attach_observers();
  void add_failure(cachalot_status status, bool at_init);
  void set_environment() const;
  void reset_environment() const;

  void on_log(int32_t level, std::string_view message);
  void on_event(const cachalot_trace_entry& entry);
  void on_out_of_memory(const cachalot_out_of_memory& numbers);
  void on_rejection(const cachalot_rejection& numbers);
  int32_t on_free_memory();

  Setup setup_;
  Transcript transcript_;
  std::unique_ptr<ScriptDevice> device_;
  cachalot_driver* driver_ = nullptr;
  cachalot_allocator* allocator_ = nullptr;
  cachalot_error error_ = CACHALOT_ERROR_INIT;
  uint64_t operation_ = 0;
  std::span<const std::string_view> expected_;
  std::vector<std::string> rejections_;
  std::string mended_;
  bool exempt_operation_ = false;
  bool exempt_error_text_ = false;
  bool exempt_rest_ = false;
};

// The texts behind a history entry that `log metadata` asks for, with a blank before; else empty.
std::string metadata_marks(const Script& script, const cachalot_trace_entry& entry);

}  // namespace cachalot::differential
