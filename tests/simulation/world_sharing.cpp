// SPDX-License-Identifier: MIT OR Apache-2.0
// Steps with copies, and with memory between processes, which both are this one.
#include <algorithm>

#include "sized.h"
#include "world.h"

namespace cachalot_test {

// ---- Copies

// Nothing is known of memory that a pool's own source gave. A program does not write to the memory of
// a pool that is about to sleep.
void World::copy() {
  if (model_.live().empty()) return;
  const LiveBlock from = choices_.pick(model_.live());
  LiveBlock& to = model_.live_at(static_cast<size_t>(choices_.below(model_.live().size())));
  if (from.is_from_source || to.is_from_source || from.requested == 0 || to.requested == 0) return;
  if (sleeping_.find(to.pool) != nullptr) return;
  begin_call();
  is_copying_ = true;
  const cachalot_status status = cachalot_copy(allocator_, to.address, to.device, from.address,
                                               from.device, 1, any_stream(), &error_);
  is_copying_ = false;
  const std::string text = status == CACHALOT_OK ? "" : error_.message;
  if (status != CACHALOT_OK) {
    if (!worked_or_unwilling(status)) report_defect("a copy is refused: " + text);
    return;
  }
  to.marks[0] = machine_->read(to.address);
  if (to.marks[0] != machine_->read(from.address)) report_defect("a copy has other contents");
}

// ---- Memory between processes

void World::share_and_open() {
  if (model_.live().empty()) return;
  const LiveBlock block = choices_.pick(model_.live());
  if (block.is_from_source) return;
  std::string bytes;
  uint64_t offset = 0;
  if (!share(block, &bytes, &offset)) return;
  for (uint64_t i = choices_.between(1, 2); i > 0; i--)
    if (!open(block, bytes, offset)) return;
}

bool World::share(const LiveBlock& block, std::string* bytes, uint64_t* offset) {
  bytes->resize(size_t{1} << 16);  // of 1,000 pages
  size_t size = 0;
  begin_call();
  const cachalot_status status = cachalot_share(allocator_, block.address, bytes->data(),
                                                bytes->size(), &size, offset, &error_);
  const std::string text = status == CACHALOT_OK ? "" : error_.message;
  if (status == CACHALOT_OK) {
    if (size > bytes->size()) return false;
    bytes->resize(size);
    return true;
  }
  const bool is_cached = !block.is_uncached && !is_async_;
  const bool may_be_refused = status == CACHALOT_ERROR_INVALID_STATE &&
                              (!setup_.shares_pages || sleeping_.find(block.pool) != nullptr);
  if (!worked_or_unwilling(status) && is_cached && !may_be_refused)
    report_defect("a live block cannot be shared: " + text);
  return false;
}

// The same memory is opened once.
bool World::open(const LiveBlock& block, const std::string& bytes, uint64_t offset) {
  cachalot_address address = 0;
  begin_call();
  const cachalot_status status =
      cachalot_open_shared(allocator_, block.device, bytes.data(), bytes.size(), &address, &error_);
  const std::string text = status == CACHALOT_OK ? "" : error_.message;
  if (status != CACHALOT_OK) {
    if (!worked_or_unwilling(status)) report_defect("shared memory cannot be opened: " + text);
    return false;
  }
  tally_.opened++;
  const auto known = std::find_if(opened_.begin(), opened_.end(), [&](const Opened& opened) {
    return opened.device == block.device && opened.bytes == bytes;
  });
  if (known != opened_.end()) {
    if (known->address != address) report_defect("memory is opened at two addresses");
    known->users++;
    return true;
  }
  opened_.push_back({block.device, bytes, address, 1});
  for (const uint64_t place : {uint64_t{0}, block.size - 1})
    if (!machine_->is_same(block.device, block.address + place, address + offset + place))
      report_defect("the memory that is opened is not that of the block");
  return true;
}

void World::close_opened() {
  if (opened_.empty()) return;
  const auto index = static_cast<size_t>(choices_.below(opened_.size()));
  const Opened opened = opened_[index];
  begin_call();
  require(cachalot_close_shared(allocator_, opened.address, &error_));
  if (--opened_[index].users > 0) return;
  opened_.erase(opened_.begin() + static_cast<std::ptrdiff_t>(index));
  begin_call();
  if (worked(cachalot_close_shared(allocator_, opened.address, &error_)))
    report_defect("memory is closed twice");
}

}  // namespace cachalot_test
