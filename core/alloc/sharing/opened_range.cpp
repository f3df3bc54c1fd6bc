// SPDX-License-Identifier: MIT OR Apache-2.0
#include "alloc/sharing/opened_range.h"

#include <algorithm>
#include <optional>

#include "alloc/sharing/other_process.h"
#include "base/text.h"
#include "base/units.h"
#include "device/driver_error.h"

namespace cachalot {

// ---- A plain segment

OpenedSegment::OpenedSegment(Driver& driver, int device, const ShareableHandle& handle)
    : OpenedRange(driver, device) {
  const DriverCode code = driver_.segment_handles()->open(device_, handle, &address_);
  if (code != kSuccess) throw runtime_error(driver_, code);
}

OpenedSegment::~OpenedSegment() { driver_.segment_handles()->close(device_, address_); }

// ---- Pages

OpenedPages::OpenedPages(Driver& driver, HandleTypes& types, const Rules& rules, int device,
                         const SharedPages& pages, const std::vector<int>& peers)
    : OpenedRange(driver, device), rules_(rules), page_size_(pages.page_size) {
  require_usable(types, pages);
  handles_.reserve(pages.handles.size());
  const uint64_t size = bytes_to_reserve(pages);
  const DriverCode code = driver_.reserve(device_, size, &address_);
  if (code != kSuccess) throw driver_error(driver_, code);
  reserved_ = size;
  try {
    import_pages(pages);
    map_pages(peers);
  } catch (...) {
    give_back();
    throw;
  }
}

// Work may still use the pages. Answers are ignored: at the end no call is left that could
// act on them.
OpenedPages::~OpenedPages() {
  driver_.device_synchronize(device_);
  give_back();
}

// Before the addresses are reserved, as in the reference.
void OpenedPages::require_usable(HandleTypes& types, const SharedPages& pages) const {
  if (!driver_.supports_virtual_memory()) {
    throw_not_supported(format(
        "shared pages need virtual memory, which the driver %s does not have", driver_.name()));
  }
  if (pages.type != HandleType::kFabric || !rules_.fabric_by_trial) return;
  if (types.for_device(device_) == HandleType::kFabric) return;
  throw_invalid_state(
      format("expandable_segments IPC: received FABRIC handle from producer but consumer device %d "
             "does not support fabric access. Configure "
             "%s=expandable_segments_handle_type:posix_fd on the producer, or "
             "disable expandable_segments.",
             device_, rules_.wording().config_variable));
}

// R63: before, as much as for any segment [exp 1.4].
uint64_t OpenedPages::bytes_to_reserve(const SharedPages& pages) const {
  if (rules_.reserves_opened_pages_only) return pages.bytes();
  uint64_t total = 0;
  const DriverCode code = driver_.total_memory(device_, &total);
  if (code != kSuccess) throw runtime_error(driver_, code);
  return round_up(std::max(total + total / 8, pages.bytes()), page_size_);
}

// The driver takes copies of descriptors, so those that were taken for it are closed at
// once.
void OpenedPages::import_pages(const SharedPages& pages) {
  const bool of_another = pages.type == HandleType::kPosixFd && pages.process;
  std::optional<OtherProcess> process;
  if (of_another) process.emplace(*pages.process, rules_.wording());
  for (const ShareableHandle& shared : pages.handles) {
    const Descriptor taken = of_another ? process->take(shared.descriptor()) : Descriptor();
    uint64_t handle = 0;
    const DriverCode code = driver_.import_handle(
        device_, of_another ? ShareableHandle::of_descriptor(taken.number()) : shared, pages.type,
        &handle);
    if (code != kSuccess) throw driver_error(driver_, code);
    handles_.push_back(handle);
  }
}

// Access is given to the whole range at once, for the own device first [exp 4.2].
void OpenedPages::map_pages(const std::vector<int>& peers) {
  DriverCode code = kSuccess;
  while (mapped_ < handles_.size() && code == kSuccess) {
    code = driver_.map(device_, address_ + mapped_ * page_size_, page_size_, handles_[mapped_]);
    if (code == kSuccess) mapped_++;
  }
  const uint64_t size = handles_.size() * page_size_;
  if (code == kSuccess) code = driver_.set_access(device_, address_, size, device_);
  for (size_t i = 0; i < peers.size() && code == kSuccess; i++)
    code = driver_.set_access(device_, address_, size, peers[i]);
  if (code != kSuccess) throw driver_error(driver_, code);
}

// In the order of the addresses. Pages that were imported before a call that failed have no mapping.
void OpenedPages::give_back() {
  for (uint64_t i = 0; i < handles_.size(); i++) {
    if (i < mapped_) driver_.unmap(device_, address_ + i * page_size_, page_size_);
    driver_.release(device_, handles_[i]);
  }
  driver_.unreserve(device_, address_, reserved_);
}

}  // namespace cachalot
