// SPDX-License-Identifier: MIT OR Apache-2.0
// Steps with the cache, faults, options, statistics, observers; and calls that must be refused.
#include <utility>

#include "sized.h"
#include "world.h"

namespace cachalot_test {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr uint32_t kGivingBack = CACHALOT_SIM_CALL_RELEASE | CACHALOT_SIM_CALL_UNMAP |
                                 CACHALOT_SIM_CALL_UNRESERVE | CACHALOT_SIM_CALL_HOST_FREE;
constexpr unsigned kCallKinds = 30;
constexpr unsigned kEarlyCallKinds = 27;  // which the bytes of a fuzzer mean

}  // namespace

const char* const World::kConfigs[] = {
    "",
    "max_split_size_mb:30",
    "garbage_collection_threshold:0.5",
    "roundup_power2_divisions:[1:2,8:8,>:4],roundup_bypass_threshold_mb:32",
    "graph_capture_record_stream_reuse:True",
    "graph_capture_record_stream_reuse:False",
    "expandable_segments:True",
    "expandable_segments:False,large_segment_size_mb:24",
    "release_lock_on_cudamalloc:True",
    "release_lock_on_cudamalloc:False,max_split_size_mb:20",
    "throw_on_cudamalloc_oom:True,per_process_memory_fraction:0.5",
    "per_process_memory_fraction:1,throw_on_cudamalloc_oom:False",
    "throw_on_cudamalloc_oom:False,expandable_segments:False",
    "expandable_segments:True,max_split_size_mb:1",
    "no such option",
};

void World::empty_cache() {
  begin_call();
  switch (choices_.below(3)) {
    case 0:
      return void(worked(cachalot_empty_cache(allocator_, &error_)));
    case 1:
      return void(worked(cachalot_empty_device_cache(allocator_, actor().device, &error_)));
    default:
      return void(worked(cachalot_empty_device_cache_on_stream(allocator_, actor().device,
                                                               any_stream(), &error_)));
  }
}

void World::fault() {
  if (!setup_.has_faults) return;
  uint32_t calls =
      uint32_t{1} << choices_.below(choices_.are_bytes() ? kEarlyCallKinds : kCallKinds);
  if (!setup_.refuses_returns) calls &= ~kGivingBack;
  if (choices_.one_in(16)) return machine_->set_pending_error(700);
  if (calls == 0) return;
  const int32_t code = choices_.one_in(2) ? CACHALOT_DRIVER_OUT_OF_MEMORY : 700;
  const uint64_t after = choices_.below(3);
  machine_->fail(calls, code, after, choices_.between(1, 3));
}

// ---- Options

void World::read_settings() {
  auto settings = sized<cachalot_settings>();
  begin_call();
  worked(cachalot_get_settings(allocator_, &settings, &error_));
  releases_lock_ = settings.release_lock_on_cudamalloc != 0;
}

void World::configure() {
  begin_call();
  const char* const config = choices_.pick(kConfigs);
  worked(choices_.one_in(4) ? cachalot_update_config(allocator_, config, &error_)
                            : cachalot_configure(allocator_, config, &error_));
  read_settings();
}

void World::set_settings() {
  auto settings = sized<cachalot_settings>();
  begin_call();
  if (!worked(cachalot_get_settings(allocator_, &settings, &error_))) return;
  settings.garbage_collection_threshold = choices_.one_in(2) ? 0 : 0.7;
  settings.max_split_size = choices_.one_in(2) ? UINT64_MAX : choices_.between(1, 40) * kMiB;
  settings.release_lock_on_cudamalloc = choices_.one_in(2) ? 1 : 0;
  worked(cachalot_set_settings(allocator_, &settings, &error_));
  read_settings();
}

void World::limit() {
  const double fraction = 0.25 * static_cast<double>(choices_.between(1, 5));
  begin_call();
  worked(cachalot_set_memory_fraction(allocator_, actor().device, fraction, &error_));
  if (!choices_.one_in(4))
    worked(cachalot_set_memory_limit(allocator_, actor().device, UINT64_MAX, &error_));
}

void World::switch_caching() {
  const int32_t enabled = choices_.one_in(8) ? 0 : 1;
  require(cachalot_set_caching_enabled(allocator_, enabled, &error_));
  is_caching_ = cachalot_is_caching_enabled(allocator_) != 0;
}

void World::reserve_class() {
  static const char* const kNames[] = {"", "decode", "prefill"};
  begin_call();
  worked(cachalot_set_reserve_class(allocator_, any_stream(), choices_.pick(kNames), &error_));
  if (choices_.one_in(4)) worked(cachalot_set_default_reserve(allocator_, "decode", 0.5, &error_));
}

// ---- Looking

void World::look() {
  compare_statistics(actor().device);
  if (model_.live().empty()) return;
  const LiveBlock& live = choices_.pick(model_.live());
  auto block = sized<cachalot_block>();
  require(cachalot_get_block(allocator_, live.address, &block, &error_));
  if (block.size != live.size || block.requested != live.requested || block.stream != live.stream ||
      block.device != live.device)
    report_defect("a live block has changed");
}

void World::snapshot() {
  auto options = sized<cachalot_snapshot_options>();
  options.without_history = choices_.one_in(2) ? 1 : 0;
  cachalot_snapshot* taken = nullptr;
  begin_call();
  if (!worked(cachalot_snapshot_take(allocator_, &options, &taken, &error_))) return;
  std::vector<uint64_t> reserved(static_cast<size_t>(setup_.device_count));
  std::vector<uint64_t> allocated(reserved.size());
  for (size_t i = 0; i < cachalot_snapshot_segment_count(taken); i++) {
    auto row = sized<cachalot_segment_row>();
    cachalot_snapshot_segment(taken, i, &row);
    reserved[static_cast<size_t>(row.device)] += row.total_size;
    allocated[static_cast<size_t>(row.device)] += row.allocated_size;
    for (size_t b = 0; b < row.block_count; b++) {
      auto block = sized<cachalot_block_row>();
      cachalot_snapshot_block(taken, row.first_block + b, &block);
      row.total_size -= block.size;
    }
    if (row.total_size != 0) report_defect("a segment of a snapshot is not its blocks");
  }
  for (int32_t device = 0; device < setup_.device_count; device++)
    if (reserved[static_cast<size_t>(device)] != cachalot_memory_reserved(allocator_, device) ||
        allocated[static_cast<size_t>(device)] != cachalot_memory_allocated(allocator_, device))
      report_defect("a snapshot's sums are not those of the statistics");
  cachalot_snapshot_destroy(taken);
}

void World::reset() {
  const int32_t device = actor().device;
  DeviceModel& model = model_.device(device);
  begin_call();
  if (choices_.one_in(2)) {
    if (!worked(cachalot_reset_peak_stats(allocator_, device, &error_))) return;
    model.blocks.peak = model.blocks.current;
    model.bytes.peak = model.bytes.current;
  } else {
    if (!worked(cachalot_reset_accumulated_stats(allocator_, device, &error_))) return;
    model.blocks.allocated = model.blocks.freed = 0;
    model.bytes.allocated = model.bytes.freed = 0;
    model.requested = model.out_of_memory = 0;
    resets_++;
  }
}

void World::ask_questions() {
  const int32_t device = actor().device;
  uint64_t number = 0;
  size_t count = 0;
  begin_call();
  switch (choices_.below(5)) {
    case 0:
      return void(worked(cachalot_largest_block(allocator_, device, 512, &number, &error_)));
    case 1:
      return void(worked(cachalot_pool_stats_count(allocator_, device, &count, &error_)));
    case 2:
      return void(
          worked(cachalot_expandable_segments(allocator_, device, nullptr, 0, &count, &error_)));
    case 3: {
      if (model_.live().empty()) return;
      cachalot_address base = 0;
      const LiveBlock& live = choices_.pick(model_.live());
      if (worked(cachalot_base_allocation(allocator_, live.address, &base, &number, &error_)) &&
          (base > live.address || base + number < live.address + live.size))
        report_defect("a block is not in its segment");
      return;
    }
    default:
      if (setup_.device_count > 1) worked(cachalot_enable_peer_access(allocator_, 0, 1, &error_));
  }
}

// ---- History, labels, observers

void World::history() {
  auto options = sized<cachalot_history_options>();
  options.enabled = choices_.one_in(4) ? 1 : 0;
  options.context = static_cast<int32_t>(choices_.below(4));
  options.max_entries = choices_.below(100);
  options.clear = choices_.one_in(2) ? 1 : 0;
  options.skip_actions = choices_.one_in(2) ? "alloc,segment_map" : nullptr;
  begin_call();
  worked(cachalot_record_history(allocator_, &options, &error_));
}

void World::label() { actor().label = static_cast<int>(choices_.below(3)); }

void World::observe() {
  if (observers_.size() >= 2) {
    const uint64_t id = observers_.back();
    observers_.pop_back();
    return require(cachalot_detach(allocator_, id, &error_));
  }
  uint64_t id = 0;
  begin_call();
  cachalot_status status = CACHALOT_OK;
  switch (choices_.below(4)) {
    case 0:
      status = cachalot_observe_trace(
          allocator_, [](void*, const cachalot_trace_entry*) {}, nullptr, nullptr, &id, &error_);
      break;
    case 1:
      status = cachalot_observe_out_of_memory(
          allocator_,
          [](void* self, const cachalot_out_of_memory*) { static_cast<World*>(self)->interlude(); },
          this, nullptr, &id, &error_);
      break;
    case 2:
      status = cachalot_observe_rejection(
          allocator_,
          [](void* self, const cachalot_rejection*) { static_cast<World*>(self)->interlude(); },
          this, nullptr, &id, &error_);
      break;
    default:
      status = cachalot_register_free_memory_callback(
          allocator_,
          [](void* self, int32_t, uint64_t) -> int32_t {
            World& world = *static_cast<World*>(self);
            world.interlude();
            return world.choices_.one_in(2) ? 1 : 0;
          },
          this, nullptr, &id, &error_);
  }
  if (worked(status)) observers_.push_back(id);
}

// ---- What must be refused, and change nothing

void World::nonsense() {
  cachalot_address address = 0;
  begin_call();
  const cachalot_pool_id no_pool = {0, 0};
  const cachalot_status refusals[] = {
      cachalot_allocate(allocator_, 1, -1, 0, &address, nullptr),
      cachalot_allocate(allocator_, 1, setup_.device_count, 0, &address, nullptr),
      cachalot_allocate(allocator_, 1, 0, 0, nullptr, nullptr),
      cachalot_allocate(nullptr, 1, 0, 0, &address, nullptr),
      cachalot_allocate_with(allocator_, nullptr, &address, nullptr),
      cachalot_free(nullptr, 1, nullptr),
      cachalot_pool_create(allocator_, 0, no_pool, nullptr, nullptr),
      cachalot_set_memory_fraction(allocator_, 0, -1, nullptr),
      cachalot_set_memory_fraction(allocator_, -1, 1, nullptr),
      cachalot_empty_device_cache(allocator_, 1 << 20, nullptr),
      cachalot_detach(allocator_, UINT64_MAX, nullptr),
      cachalot_configure(allocator_, nullptr, nullptr),
      cachalot_allocator_destroy(model_.live().empty() ? nullptr : allocator_, nullptr),
  };
  for (size_t i = 0; i + 1 < std::size(refusals); i++)
    if (refusals[i] == CACHALOT_OK) report_defect("nonsense was accepted: " + std::to_string(i));
  if (!model_.live().empty() && refusals[std::size(refusals) - 1] == CACHALOT_OK)
    report_defect("an allocator with live blocks was destroyed");
}

}  // namespace cachalot_test
