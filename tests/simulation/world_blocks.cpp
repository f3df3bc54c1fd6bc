// SPDX-License-Identifier: MIT OR Apache-2.0
// Steps with blocks.
#include "sized.h"
#include "world.h"

namespace cachalot_test {

cachalot_stream World::any_stream() { return actor().streams[choices_.below(3)]; }

// Half of the requests repeat a size, as programs do.
uint64_t World::any_size() {
  if (choices_.below(2) == 0) return actor().favourites[choices_.below(4)];
  if (choices_.one_in(1024)) return uint64_t{1} << choices_.between(18, 62);
  return choices_.of_any_magnitude(23);
}

// ---- Hand-outs

void World::allocate() {
  if (model_.live().size() >= kMostLive) return free_one();
  const uint64_t size = any_size();
  const int32_t device = actor().device;
  const cachalot_stream stream = any_stream();
  cachalot_address address = 0;
  if (ask(size, device, stream, &address)) add_block(address, size, stream, device);
}

bool World::ask(uint64_t size, int32_t device, cachalot_stream stream, cachalot_address* address) {
  begin_call(!is_caching_ && !is_async_);
  const uint64_t resets = resets_;
  cachalot_status status;
  if (choices_.one_in(16)) {
    auto request = sized<cachalot_request>();
    request.size = size;
    request.device = device;
    request.stream = stream;
    request.has_current_stream = 1;
    request.current_stream = any_stream();
    status = cachalot_allocate_with(allocator_, &request, address, &error_);
  } else {
    status = cachalot_allocate(allocator_, size, device, stream, address, &error_);
  }
  if (status == CACHALOT_OK) return *address != 0;
  if (*address != 0) report_defect("a failed request gave an address");
  const uint64_t told = error_.requested;
  if (status == CACHALOT_ERROR_OUT_OF_MEMORY) {
    if (told != size) report_defect("the failure names another size than was requested");
    const bool is_counted = size < uint64_t{1} << 60 && resets == resets_;
    if (is_counted) model_.device(device).out_of_memory++;
  }
  worked(status);
  return false;
}

void World::add_block(cachalot_address address, uint64_t requested, cachalot_stream stream,
                      int32_t device) {
  auto block = sized<cachalot_block>();
  if (cachalot_get_block(allocator_, address, &block, &error_) != CACHALOT_OK)
    report_defect("a block that was handed out is not known");
  if (block.address != address || block.requested != requested || block.size < requested ||
      block.stream != stream || block.device != device)
    report_defect("a block is not what was asked for");
  tally_.hand_outs++;
  if (setup_.plant == Plant::kMiscount && tally_.hand_outs % 1000 == 0) return;
  LiveBlock live = {.address = address,
                    .size = block.size,
                    .requested = requested,
                    .stream = stream,
                    .device = device,
                    .is_uncached = block.uncached != 0,
                    .pool = {device, block.pool},
                    .is_from_source = block.from_source != 0,
                    .label = current_label_};
  mark(&live);
  model_.add(live);
}

// So that the contents can be told from those of all other blocks.
void World::mark(LiveBlock* block) {
  if (block->size < 2) return;
  for (uint64_t& mark : block->marks) mark = ++last_mark_;
  machine_->write(block->address, block->marks[0]);
  machine_->write(block->address + block->size - 1, block->marks[1]);
}

// The same size again and again, which the hit path has a shortcut for.
void World::allocate_and_free() {
  const uint64_t size = any_size();
  const int32_t device = actor().device;
  const cachalot_stream stream = any_stream();
  for (uint64_t i = choices_.between(1, 6); i > 0; i--) {
    cachalot_address address = 0;
    if (!ask(size, device, stream, &address)) return;
    add_block(address, size, stream, device);
    if (model_.live().empty() || !free_at(model_.live().size() - 1)) return;
    tally_.operations += 2;
  }
}

void World::allocate_at() {
  if (recently_freed_.empty()) return;
  const Freed freed = choices_.pick(recently_freed_);
  auto request = sized<cachalot_request>();
  request.device = freed.device;
  request.stream = freed.stream;
  request.at = freed.address + choices_.below(freed.size / 512 + 1) * 512;
  if (choices_.one_in(16)) request.at += 8;
  request.size = choices_.one_in(2) ? freed.size : choices_.of_any_magnitude(22);
  cachalot_address address = 0;
  begin_call(!is_caching_ && !is_async_);
  if (!worked(cachalot_allocate_with(allocator_, &request, &address, &error_))) return;
  if (address != request.at) report_defect("a block is not where it was asked for");
  if (address == 0) return;
  if (is_caching_) count_front(address, request.device);
  add_block(address, request.size, request.stream, request.device);
}

// R51: what lies before the address in its block is handed out first, and freed behind it. How much
// that is only the statistics tell.
void World::count_front(cachalot_address address, int32_t device) {
  auto stats = sized<cachalot_stats>();
  auto block = sized<cachalot_block>();
  require(cachalot_get_stats(allocator_, device, &stats, &error_));
  require(cachalot_get_block(allocator_, address, &block, &error_));
  DeviceModel& model = model_.device(device);
  const auto size = static_cast<int64_t>(block.size);
  const int64_t front = stats.allocated_bytes.all.allocated - model.bytes.allocated - size;
  if (front < 0 || front % 512 != 0) report_defect("the front of a block is no piece of it");
  if (front == 0) return;
  model.requested += front;
  model.bytes.add(front);
  model.blocks.add(1);
  model.bytes.peak = std::max(model.bytes.peak, model.bytes.current + size);
  model.blocks.peak = std::max(model.blocks.peak, model.blocks.current + 1);
  model.bytes.take(front);
  model.blocks.take(1);
}

// ---- Frees

void World::free_one() {
  if (model_.live().empty()) return;
  free_at(static_cast<size_t>(choices_.below(model_.live().size())));
}

// A block of the cache is freed even if the driver refuses something then.
bool World::free_at(size_t index) {
  const LiveBlock block = model_.take(index);
  const bool names_stream = choices_.one_in(16);
  begin_call(block.is_uncached);
  const cachalot_status status =
      names_stream ? cachalot_free_on_stream(allocator_, block.address, any_stream(), &error_)
                   : cachalot_free(allocator_, block.address, &error_);
  if (status != CACHALOT_OK) {
    const std::string text = error_.message;
    // Streams of one block that are captured into different graphs are an error of the program's.
    const bool is_capture_fault = status == CACHALOT_ERROR_INVALID_STATE && captures_ > 0;
    if (!worked_or_unwilling(status) && !is_capture_fault)
      report_defect("a live block cannot be freed: " + text);
    auto known = sized<cachalot_block>();
    if (cachalot_get_block(allocator_, block.address, &known, nullptr) == CACHALOT_OK) {
      if (!block.is_uncached && !is_async_) report_defect("a failed free left a block live");
      model_.put_back(block);
      return false;
    }
  }
  model_.freed(block);
  if (recently_freed_.size() < 16)
    recently_freed_.push_back({block.address, block.size, block.stream, block.device});
  else
    recently_freed_[block.address / 512 % 16] = {block.address, block.size, block.stream,
                                                 block.device};
  return true;
}

void World::require_invalid_free(cachalot_address address) {
  begin_call();
  const cachalot_status status = cachalot_free(allocator_, address, &error_);
  if (status == CACHALOT_ERROR_INVALID_ARGUMENT) return void(worked(status));
  // Under the other backend an error that is pending comes first.
  if (status == CACHALOT_OK || !is_async_ || !worked_or_unwilling(status))
    report_defect("an address that is not live can be freed");
}

void World::free_nonsense() {
  if (!recently_freed_.empty() && choices_.one_in(2)) {
    const Freed freed = choices_.pick(recently_freed_);
    if (!model_.is_live(freed.address)) require_invalid_free(freed.address);
  }
  if (!model_.live().empty()) {
    const cachalot_address inside =
        choices_.pick(model_.live()).address + (choices_.one_in(2) ? 1 : 512);
    if (!model_.is_live(inside)) require_invalid_free(inside);
  }
  require_invalid_free(0x1234);
  begin_call();
  require(cachalot_free(allocator_, 0, &error_));
}

// ---- Streams

void World::record_stream() {
  if (model_.live().empty()) return;
  const auto index = static_cast<size_t>(choices_.below(model_.live().size()));
  LiveBlock& block = model_.live_at(index);
  const cachalot_stream stream = any_stream();
  begin_call();
  const cachalot_status status =
      choices_.one_in(4) ? cachalot_record_stream_on_stream(allocator_, block.address, stream,
                                                            any_stream(), &error_)
                         : cachalot_record_stream(allocator_, block.address, stream, &error_);
  const std::string text = status == CACHALOT_OK ? "" : error_.message;
  if (status != CACHALOT_OK && !worked_or_unwilling(status))
    report_defect("the use of a live block cannot be recorded: " + text);
  const bool is_use = status == CACHALOT_OK && stream != block.stream && !block.is_uncached;
  if (is_use && !is_async_ && block.use_count < block.uses.size())
    block.uses[block.use_count++] = {stream, captures_ == 0};
}

void World::work() {
  const int32_t device = actor().device;
  const cachalot_stream stream = any_stream();
  switch (choices_.below(5)) {
    case 0:
      return machine_->finish_oldest(device, stream);
    case 1:
      return machine_->finish_stream(device, stream);
    default:
      return machine_->queue_work(device, stream);
  }
}

}  // namespace cachalot_test
