// SPDX-License-Identifier: MIT OR Apache-2.0
#include "alloc/heap/handle_types.h"

#include <utility>

#include "base/assert.h"
#include "base/units.h"

namespace cachalot {
namespace {

// The unit of physical memory, which is the least that can be created.
constexpr uint64_t kTrialBytes = 2 * MiB;

}  // namespace

HandleType HandleTypes::for_device(int device) {
  CACHALOT_ASSERT(1, device >= 0 && device < driver_.device_count());
  if (!shareable_) return HandleType::kNone;
  // The lock stays during the trial, so that two threads do not both make it (R60).
  std::lock_guard guard(lock_);
  auto found = has_fabric_.find(device);
  if (found == has_fabric_.end()) found = has_fabric_.emplace(device, try_fabric(device)).first;
  return found->second ? HandleType::kFabric : HandleType::kPosixFd;
}

bool HandleTypes::is_part_of_fabric(int device) {
  lock_.assert_held();
  int32_t state = 0;
  const DriverCode code = driver_.fabric_state(device, &state);
  // State 0 is that of a device which does not support a fabric.
  if (code == kSuccess) return state != 0;
  if (code != kDriverNotSupported && !std::exchange(has_warned_, true)) {
    log_.warn("nvmlDeviceGetGpuFabricInfoV failed. This function is only supported on sm90+");
  }
  return false;
}

// A driver may create a fabric handle that no process can open, so the trial also opens it (R60).
bool HandleTypes::try_fabric(int device) {
  if (!is_part_of_fabric(device)) return false;
  uint64_t made = 0;
  if (driver_.create(device, kTrialBytes, HandleType::kFabric, false, &made) != kSuccess)
    return false;
  ShareableHandle shareable;
  uint64_t imported = 0;
  const bool works =
      driver_.export_handle(device, made, HandleType::kFabric, &shareable) == kSuccess &&
      driver_.import_handle(device, shareable, HandleType::kFabric, &imported) == kSuccess;
  // Both handles go, whatever the trial showed: pages get handles of their own.
  if (works) driver_.release(device, imported);
  driver_.release(device, made);
  return works;
}

HandleTypes::Probed HandleTypes::probed() {
  std::lock_guard guard(lock_);
  return probed_;
}

void HandleTypes::decide(Probed type) {
  CACHALOT_ASSERT(1, type != Probed::kUndecided);
  std::lock_guard guard(lock_);
  // The first answer stays: two devices may have asked at the same time.
  if (probed_ == Probed::kUndecided) probed_ = type;
}

}  // namespace cachalot
