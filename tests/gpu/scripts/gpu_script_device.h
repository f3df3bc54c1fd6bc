// SPDX-License-Identifier: MIT OR Apache-2.0
// The device of a script that is a real one.
#pragma once

#include <memory>
#include <string>

#include "held_streams.h"
#include "logged_driver.h"
#include "script_device.h"

namespace cachalot::gpu {

// All controls that make failures up are the base's, and have no effect here.
class GpuScriptDevice final : public differential::ScriptDevice {
 public:
  GpuScriptDevice(differential::Transcript& transcript, const CudaOptions& options,
                  bool is_default_legacy);

  LoggedDriver& driver() { return *driver_; }
  HeldStreams& streams() { return streams_; }
  // Whether the last begin_work was of a stream without work of its own.
  bool take_left_out_work() { return std::exchange(left_out_work_, false); }

  cachalot_status create_driver(cachalot_driver** out_driver, cachalot_error* error) override;
  void begin_work(cachalot_stream stream) override;
  void finish_oldest(cachalot_stream stream) override { streams_.finish_oldest(stream); }
  void finish_stream(cachalot_stream stream) override { streams_.finish_stream(stream); }
  void finish_all() override { streams_.finish_all(); }
  void begin_capture(cachalot_stream stream, uint64_t capture) override;
  void end_capture(uint64_t capture) override { streams_.end_capture(capture); }
  void end_all_captures() override;
  void add_node(cachalot_stream stream) override { streams_.add_node(stream); }
  void fork(cachalot_stream from, cachalot_stream to) override { streams_.fork(from, to); }
  void join(cachalot_stream into, cachalot_stream other) override { streams_.join(into, other); }
  // The driver knows of what is left.
  std::string leftovers() const override { return ""; }

 protected:
  cachalot_address own_allocate(uint64_t size, cachalot_stream stream) override;

 private:
  HeldStreams streams_;
  const std::shared_ptr<LoggedDriver> driver_;
  bool left_out_work_ = false;
  cachalot_address next_own_ = 0x100000000000;
};

}  // namespace cachalot::gpu
