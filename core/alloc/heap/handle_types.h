// SPDX-License-Identifier: MIT OR Apache-2.0
// Which handle type the pages of expandable segments are created with, once a process.
#pragma once

#include <map>

#include "alloc/config/rules.h"
#include "alloc/trace/log.h"
#include "base/mutex.h"
#include "device/device.h"

namespace cachalot {

// Owns what was found out about the devices. It belongs to the allocator, not to a device, because
// the reference keeps the answer once a process. Any thread.
class HandleTypes {
 public:
  HandleTypes(Driver& driver, const Rules& rules, bool shareable, const Log& log)
      : driver_(driver), rules_(rules), shareable_(shareable), log_(log) {}

  enum class Probed { kUndecided, kPosixFd, kFabric };

  bool are_by_trial() const { return rules_.fabric_by_trial; }
  // Whether out of memory decides for fabric, as any success does (mend_handle_type: it does not).
  bool out_of_memory_decides() const { return !rules_.mend_handle_type; }
  bool unmaps_shared_fabric_pages() const { return rules_.unmaps_shared_fabric_pages; }
  // Whether pages are created so that they can be shared.
  bool are_shareable() const { return shareable_; }
  // The type to ask of the driver; none where pages are not to be shared.
  HandleType requested(HandleType type) const { return shareable_ ? type : HandleType::kNone; }
  // R60: fabric iff the device has it, found out once.
  HandleType for_device(int device);
  // [exp 7.2] The first answer of a page creation decides for all.
  Probed probed();
  void decide(Probed type);  // pre: it is decided

 private:
  // pre (here and below): the lock.
  bool is_part_of_fabric(int device);
  bool try_fabric(int device);

  Driver& driver_;
  const Rules rules_;
  bool shareable_;
  const Log& log_;
  Mutex lock_{LockRank::kHandleTypes};
  bool has_warned_ = false;
  Probed probed_ = Probed::kUndecided;
  std::map<int, bool> has_fabric_;
};

}  // namespace cachalot
