// SPDX-License-Identifier: MIT OR Apache-2.0
#include "run.h"

#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/PeerToPeerAccess.h>
#include <c10/util/Exception.h>

#include <cstdio>
#include <cstdlib>
#include <utility>

#include "context.h"
#include "errors.h"
#include "fakecuda.h"
#include "output.h"
#include "rejections.h"
#include "release.h"
#include "report.h"
#include "verbosity.h"

namespace c10::cuda::_internal {
C10_CUDA_API void setHasPrimaryContext(bool (*)(DeviceIndex));
}

namespace oracle {
namespace {

class WarningLine : public c10::WarningHandler {
 public:
  void process(const c10::Warning& warning) override { line("W " + first_line(warning.msg())); }
};

WarningLine warning_line;

// What a client may register: here it frees the armed allocations.
class FreeArmed : public c10::FreeMemoryCallback {
 public:
  bool Execute() override {
    if (run.armed.empty()) return false;
    line("C callback");
    for (long id : std::exchange(run.armed, {})) run.live.erase(id);
    return true;
  }
};

void observe_out_of_memory(int64_t device, size_t asked, size_t limit, size_t free) {
  if (!verbosity.observer) return;
  line("O " + std::to_string(device) + " " + std::to_string(asked) + " " + std::to_string(limit) +
       " " + std::to_string(free));
}

void start_device() {
  fakecuda::configure(run.total, run.seed);
  fakecuda::set_devices(run.devices);
  fakecuda::set_log([](const std::string& text) {
    if (run.device_lines) line(text);
  });
}

void start_allocator() {
  c10::WarningUtils::set_warning_handler(&warning_line);
  c10::cuda::_internal::setHasPrimaryContext([](c10::DeviceIndex) { return true; });
#if SINCE(13)
  // The expandable segments ask this cache whether the device has fabric handles.
  c10::cuda::detail::init_p2p_access_cache(static_cast<c10::DeviceIndex>(run.devices));
#endif
  try {
    cca::init(run.devices);
  } catch (const std::exception& error) {
    line("E init " + describe(error));
    fclose(out);
    exit(0);
  }
}

void attach_observers() {
  cca::attachAllocatorTraceTracker(report_event);
  observe_rejections();
  cca::attachOutOfMemoryObserver(observe_out_of_memory);
  cca::recordHistory(true, capture_context, 1, cca::RecordContext::NEVER, true, {});
}

}  // namespace

Run run;

void Run::start() {
  if (std::exchange(ready, true)) return;
  start_device();
  start_allocator();
  native = cca::name() == "native";
  if (native) attach_observers();
}

const c10::DataPtr* Run::find(long id) const {
  auto it = live.find(id);
  return it == live.end() ? nullptr : &it->second;
}

}  // namespace oracle

namespace c10 {
REGISTER_FREE_MEMORY_CALLBACK("oracle", oracle::FreeArmed)
}
