// SPDX-License-Identifier: MIT OR Apache-2.0
#include "gpu_script_device.h"

#include "handles.h"

namespace cachalot::gpu {

using differential::decimal;
using differential::hex;

GpuScriptDevice::GpuScriptDevice(differential::Transcript& transcript, const CudaOptions& options,
                                 bool is_default_legacy)
    : ScriptDevice(transcript),
      streams_(is_default_legacy),
      driver_(std::make_shared<LoggedDriver>(options, streams_,
                                             [this](const char* word, std::string line) {
                                               if (word == nullptr) {
                                                 print(std::move(line));
                                               } else {
                                                 print_if_shown(word, std::move(line));
                                               }
                                             })) {}

cachalot_status GpuScriptDevice::create_driver(cachalot_driver** out_driver, cachalot_error*) {
  *out_driver = new cachalot_driver(driver_);
  return CACHALOT_OK;
}

void GpuScriptDevice::begin_work(cachalot_stream stream) {
  left_out_work_ = !streams_.begin_work(stream);
}

void GpuScriptDevice::begin_capture(cachalot_stream stream, uint64_t capture) {
  streams_.begin_capture(stream, capture);
}

// At the end of a script: nothing may hold the device any more.
void GpuScriptDevice::end_all_captures() {
  streams_.end_all_captures();
  streams_.finish_all();
}

// As the oracle's own allocator places its segments: nobody looks into them.
cachalot_address GpuScriptDevice::own_allocate(uint64_t size, cachalot_stream stream) {
  constexpr uint64_t kAlignment = uint64_t{2} << 20;
  const cachalot_address address = next_own_;
  next_own_ += (size + 2 * kAlignment - 1) & ~(kAlignment - 1);
  print("own_malloc " + decimal(size) + " " + hex(stream) + " " + hex(address));
  return address;
}

}  // namespace cachalot::gpu
