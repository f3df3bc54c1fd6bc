// SPDX-License-Identifier: MIT OR Apache-2.0
#include "world.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "ledger_machine.h"
#include "sim_machine.h"
#include "sized.h"

namespace cachalot_test {

const World::Operation World::kOperations[] = {
    {1800, "allocate", &World::allocate},
    {500, "allocate_and_free", &World::allocate_and_free},
    {1700, "free_one", &World::free_one},
    {20, "allocate_at", &World::allocate_at},
    {12, "free_nonsense", &World::free_nonsense},
    {120, "record_stream", &World::record_stream},
    {200, "work", &World::work},
    {3, "empty_cache", &World::empty_cache},
    {4, "pool_create", &World::pool_create},
    {5, "pool_begin", &World::pool_begin},
    {8, "pool_end", &World::pool_end},
    {4, "pool_release", &World::pool_release},
    {4, "pool_flags", &World::pool_flags},
    {2, "pool_empty", &World::pool_empty},
    {2, "capture_begin", &World::capture_begin},
    {12, "capture_node", &World::capture_node},
    {5, "capture_end", &World::capture_end},
    {8, "fault", &World::fault},
    {2, "configure", &World::configure},
    {2, "set_settings", &World::set_settings},
    {2, "limit", &World::limit},
    {1, "snapshot", &World::snapshot},
    {60, "look", &World::look},
    {10, "reset", &World::reset},
    {1, "history", &World::history},
    {2, "observe", &World::observe},
    {2, "switch_caching", &World::switch_caching},
    {12, "ask_questions", &World::ask_questions},
    {4, "label", &World::label},
    {2, "reserve_class", &World::reserve_class},
    {4, "nonsense", &World::nonsense},
    // See next_operation().
    {8, "load_pool", &World::load_pool, true},
    {12, "pool_sleep", &World::pool_sleep, true},
    {8, "pool_wake", &World::pool_wake, true},
    {10, "free_asleep", &World::free_asleep, true},
    {10, "use_asleep", &World::use_asleep, true},
    {10, "copy", &World::copy},
    {4, "share_and_open", &World::share_and_open},
    {4, "close_opened", &World::close_opened},
};
const size_t World::kOperationCount = std::size(World::kOperations);

World::World(const WorldSetup& setup, Choices* choices, Tally* tally)
    : setup_(setup),
      choices_(*choices),
      tally_(*tally),
      machine_(setup.is_sim ? std::unique_ptr<Machine>(
                                  std::make_unique<SimMachine>(setup.capacity, setup.device_count))
                            : std::make_unique<LedgerMachine>(setup.capacity, setup.device_count,
                                                              setup.has_fabric, setup.plant)),
      model_(machine_.get(), setup.device_count),
      sleeping_(setup.device_count),
      source_bytes_(static_cast<size_t>(setup.device_count)) {
  auto options = sized<cachalot_allocator_options>();
  options.driver = machine_->driver();
  options.config = setup.config.c_str();
  options.release = setup.release;
  options.mend = setup.mend;
  options.no_caching = -1;
  options.shareable_pages = setup.shares_pages ? 1 : -1;
  options.check_every_call = setup.checks_every_call ? 1 : 0;
  options.track_labels = setup.tracks_labels ? 1 : 0;
  options.context_source = CACHALOT_CONTEXT_LABELS;
  require(cachalot_allocator_create(&options, &allocator_, &error_));
  machine_->watch(this);
  is_async_ = std::string(cachalot_allocator_backend(allocator_)) == "cudaMallocAsync";
  read_settings();
  const uint64_t count = choices_.between(1, 5);
  for (uint64_t i = 0; i < count; i++) {
    Actor made = {any_device(), {0, 0x100 * (i + 1), 0x100 * (i + 1) + 0x10}, {}, 0};
    for (uint64_t& size : made.favourites) size = choices_.of_any_magnitude(22);
    actors_.push_back(made);
  }
  for (size_t i = 0; i < kOperationCount; i++) {
    const uint32_t weight =
        kOperations[i].weight * (setup.sleeps && kOperations[i].is_of_sleep ? 10 : 1);
    lottery_.insert(lottery_.end(), weight, static_cast<uint16_t>(i));
  }
}

World::~World() {
  machine_->watch(nullptr);
  if (allocator_) cachalot_allocator_destroy_all(allocator_, nullptr);
}

void World::run(uint64_t steps) {
  for (steps_ = 0; steps_ < steps && !choices_.have_ended(); steps_++) {
    step();
    if (setup_.steps_between_audits != 0 && steps_ % setup_.steps_between_audits == 0) audit();
  }
}

// ---- The scheduler

// Inputs that fuzzers have found go on meaning what they meant: the operations that were there before the sleep of
// pools have their bytes, and those that came later the last ones.
const World::Operation& World::next_operation() {
  constexpr size_t kEarlyOperations = 31;
  constexpr uint64_t kFirstLaterByte = 248;
  static_assert(std::size(kOperations) == kEarlyOperations + 256 - kFirstLaterByte);
  if (choices_.are_bytes()) {
    const uint64_t byte = choices_.below(256);
    return kOperations[byte < kFirstLaterByte ? byte % kEarlyOperations
                                              : kEarlyOperations + byte - kFirstLaterByte];
  }
  return kOperations[lottery_[choices_.below(lottery_.size())]];
}

void World::step() {
  tally_.operations++;
  if (depth_ > 0) tally_.interleaved++;
  if (depth_ > 0 && sleeping_.is_any_in_transit()) tally_.beside_sleep++;
  current_actor_ = static_cast<size_t>(choices_.below(actors_.size()));
  static const char* const kLabels[] = {"", "weights", "kv-cache"};
  const int label = actor().label;
  const Operation& operation = next_operation();
  if (setup_.tells)
    std::fprintf(stderr, "%llu%s %s\n", static_cast<unsigned long long>(steps_),
                 std::string(static_cast<size_t>(depth_) * 2, ' ').c_str(), operation.name);
  const std::string outer_label = current_label_;
  if (label != 0) {
    require(cachalot_label_push(kLabels[label], &error_));
    current_label_ += (outer_label.empty() ? "" : "/") + std::string(kLabels[label]);
  }
  (this->*operation.run)();
  if (label != 0) require(cachalot_label_pop(&error_));
  current_label_ = outer_label;
}

// Other threads act in the middle of a call that holds no lock.
void World::interlude() {
  if (depth_ == kDeepest || is_ending_ || choices_.have_ended() || choices_.one_in(2)) return;
  const Frame frame = frame_;
  const size_t actor = current_actor_;
  depth_++;
  for (uint64_t i = choices_.between(1, 4); i > 0; i--) step();
  depth_--;
  current_actor_ = actor;
  frame_ = {frame.is_uncached, frame.faults};
}

void World::under_way(bool is_allocation) {
  if (allocator_ == nullptr || is_async_) return;
  if (frame_.is_uncached || (is_allocation && releases_lock_)) interlude();
}

// A pool that falls asleep gives its own pages back, and so does one that could not wake.
void World::giving_back(cachalot_address address, uint64_t size) {
  SleepingPool* const own = sleeping_.in_transit_at(depth_);
  model_.require_unused(address, size, "given back", own == nullptr ? nullptr : &own->key);
  if (own == nullptr) return;
  own->given_back += size;
  for (const auto& [stream, ticket] : own->work)
    if (machine_->finished(own->key.device, stream) < ticket)
      report_defect("a pool gives pages back while a stream may still use them");
}

// ---- Judging calls

void World::begin_call(bool is_uncached) { frame_ = {is_uncached, machine_->faults()}; }

// Since begin_call a driver call has failed, or nobody knows.
bool World::has_fault_come() const {
  return machine_->faults() == UINT64_MAX || machine_->faults() != frame_.faults;
}

// A failure says what it is, in one line; only where a driver call has failed it is the driver's.
bool World::worked(cachalot_status status) {
  if (status == CACHALOT_OK) return true;
  tally_.errors[status]++;
  const std::string text = error_.message;
  const bool is_known = status == CACHALOT_ERROR_INVALID_ARGUMENT ||
                        status == CACHALOT_ERROR_INVALID_STATE ||
                        status == CACHALOT_ERROR_NOT_SUPPORTED ||
                        status == CACHALOT_ERROR_OUT_OF_MEMORY || status == CACHALOT_ERROR_DRIVER;
  if (!is_known || error_.status != status) report_defect("an unexpected failure: " + text);
  if (text.empty()) report_defect("a failure without a text");
  if (status != CACHALOT_ERROR_OUT_OF_MEMORY && text.find('\n') != std::string::npos)
    report_defect("a failure with several lines: " + text);
  // Without caching the driver's own "out of memory" is passed on as it is [core 21.1].
  const bool is_plain_refusal =
      frame_.is_uncached && error_.driver_code == CACHALOT_DRIVER_OUT_OF_MEMORY;
  if (status == CACHALOT_ERROR_DRIVER && !has_fault_come() && !is_plain_refusal)
    report_defect("the driver's failure, which there was not: " + text);
  error_.message[0] = '\0';
  return false;
}

// True too if the call fails because a driver call did.
bool World::worked_or_unwilling(cachalot_status status) {
  if (worked(status)) return true;
  return has_fault_come();
}

void World::require(cachalot_status status) {
  if (status != CACHALOT_OK) report_defect(std::string("a call failed: ") + error_.message);
}

void World::audit() {
  tally_.audits++;
  begin_call();
  require(cachalot_check(allocator_, &error_));
  for (int32_t device = 0; device < setup_.device_count; device++) {
    compare_statistics(device);
    compare_sleep(device);
  }
}

void World::compare_row(const char* name, const cachalot_stat& stat, const Row& row) {
  if (stat.current == row.current && stat.peak == row.peak && stat.allocated == row.allocated &&
      stat.freed == row.freed)
    return;
  const auto words = [](int64_t current, int64_t peak, int64_t allocated, int64_t freed) {
    return std::to_string(current) + " peak " + std::to_string(peak) + " allocated " +
           std::to_string(allocated) + " freed " + std::to_string(freed);
  };
  report_defect(std::string(name) + " is " +
                words(stat.current, stat.peak, stat.allocated, stat.freed) + ", the model has " +
                words(row.current, row.peak, row.allocated, row.freed));
}

void World::compare_statistics(int32_t device) {
  if (is_async_) return;
  tally_.comparisons++;
  auto stats = sized<cachalot_stats>();
  require(cachalot_get_stats(allocator_, device, &stats, &error_));
  const DeviceModel& model = model_.device(device);
  compare_row("allocation", stats.allocation.all, model.blocks);
  compare_row("allocated_bytes", stats.allocated_bytes.all, model.bytes);
  if (stats.requested_bytes.all.allocated != model.requested)
    report_defect("requested_bytes has a wrong sum");
  for (const cachalot_stat_array* array :
       {&stats.allocation, &stats.segment, &stats.active, &stats.inactive_split,
        &stats.allocated_bytes, &stats.reserved_bytes, &stats.active_bytes,
        &stats.inactive_split_bytes, &stats.requested_bytes}) {
    if (array->all.current != array->small_pool.current + array->large_pool.current ||
        array->all.allocated != array->small_pool.allocated + array->large_pool.allocated ||
        array->all.freed != array->small_pool.freed + array->large_pool.freed ||
        array->all.peak < array->all.current)
      report_defect("a statistic is not the sum of its kinds, or above its peak");
  }
  // A call that is under way may have obtained memory, or be about to say that it failed.
  if (depth_ > 0) return;
  if (stats.num_ooms + stats.num_oom_rejections < model.out_of_memory)
    report_defect("num_ooms is less than the failures that there were");
  const uint64_t held = machine_->held(device);
  if (held == UINT64_MAX) return;
  const uint64_t expected =
      held - model.uncached_bytes + source_bytes_[static_cast<size_t>(device)];
  if (static_cast<uint64_t>(stats.reserved_bytes.all.current) != expected)
    report_defect("reserved_bytes is " + std::to_string(stats.reserved_bytes.all.current) +
                  ", the device knows of " + std::to_string(expected));
}

// ---- The end

void World::require_empty() {
  for (int32_t device = 0; device < setup_.device_count; device++) {
    compare_statistics(device);
    if (cachalot_memory_allocated(allocator_, device) != 0 ||
        cachalot_memory_active(allocator_, device) != 0 ||
        (!is_async_ && !setup_.refuses_returns &&
         cachalot_memory_reserved(allocator_, device) != 0))
      report_defect("although everything was freed, of device " + std::to_string(device) + " are " +
                    std::to_string(cachalot_memory_allocated(allocator_, device)) + " allocated, " +
                    std::to_string(cachalot_memory_active(allocator_, device)) + " active, " +
                    std::to_string(cachalot_memory_reserved(allocator_, device)) + " reserved");
  }
}

// The next request does that under the other backend [async 3.5].
void World::issue_put_off_frees() {
  cachalot_address address = 0;
  begin_call();
  require(cachalot_set_memory_limit(allocator_, 0, UINT64_MAX, &error_));
  require(cachalot_allocate(allocator_, 512, 0, 0, &address, &error_));
  require(cachalot_free(allocator_, address, &error_));
}

void World::end() {
  is_ending_ = true;
  machine_->forget_faults();
  for (const uint64_t observer : std::exchange(observers_, {}))
    require(cachalot_detach(allocator_, observer, &error_));
  const bool is_at_once = choices_.one_in(3);
  if (!is_at_once) {
    for (Pool& pool : pools_)
      if (pool.capture != 0) end_capture(pool);
    for (Pool& pool : pools_) {
      if (pool.is_routed) end_routing(pool);
      for (int32_t i = use_count(pool); i > 0; i--)
        require(cachalot_pool_release(allocator_, pool.device, pool.id, &error_));
      if (SleepingPool* const asleep = sleeping_.find(pool.key())) settle(*asleep);
    }
    empty_sleeping_pools();
    while (!opened_.empty()) close_opened();
    while (!model_.live().empty())
      if (!free_at(model_.live().size() - 1)) report_defect("a block cannot be freed");
    if (is_async_) issue_put_off_frees();
    begin_call();
    require(cachalot_empty_cache(allocator_, &error_));
    audit();
    require_empty();
  }
  while (!model_.live().empty()) model_.take(model_.live().size() - 1);
  model_.forget_uses();
  const auto destroy = is_at_once ? cachalot_allocator_destroy_all : cachalot_allocator_destroy;
  require(destroy(std::exchange(allocator_, nullptr), &error_));
  const std::string leaks = machine_->leaks();
  if (!leaks.empty()) report_defect("not given back: " + leaks);
  for (const uint64_t bytes : source_bytes_)
    if (bytes != 0) report_defect("a pool's source has not got its memory back");
  if (const auto* ledger = dynamic_cast<LedgerMachine*>(machine_.get()))
    for (size_t i = 0; i < tally_.faults.size(); i++)
      tally_.faults[i] += ledger->faults_by_kind()[i];
}

int32_t World::any_device() {
  return static_cast<int32_t>(choices_.below(static_cast<uint64_t>(setup_.device_count)));
}

}  // namespace cachalot_test
