// SPDX-License-Identifier: MIT OR Apache-2.0
#include "replay/replay.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/assert.h"
#include "base/error.h"
#include "base/text.h"
#include "replay/program.h"
#include "replay/program_clock.h"

namespace cachalot {
namespace {

constexpr uint64_t kDefaultCapacity = 80 * GiB;
constexpr size_t kEventsBetweenProgress = 1 << 16;

// Thrown by an act with which the replay shall end.
struct Stop {};

// Does the acts of the recorded program.
class Performer {
 public:
  Performer(const Trace& trace, const ReplayOptions& options, Allocator* allocator,
            ReplayDevice* device)
      : trace_(trace),
        expect_(options.expect),
        stops_at_out_of_memory_(options.stop_at_out_of_memory),
        allocator_(*allocator),
        device_(*device),
        clock_(trace),
        addresses_(trace.block_slots),
        held_pools_(static_cast<size_t>(trace.device_count) * trace.pools.size()) {}

  void obtained(const TraceEvent& event) {
    if (!expect_) return;
    if (event.action() == Action::kSegmentAlloc)
      device_.offer_segment(event.device, event.address);
    else
      device_.offer_mapping(event.device, event.address);
  }

  void allocate(const TraceEvent& event) {
    CACHALOT_ASSERT(1, address_of(event) == 0);
    address_of(event) = request(event);
  }

  // With other options a failure tells nothing; with the same it leaves its marks on the
  // statistics.
  void fail_to_allocate(const TraceEvent& event) {
    if (!expect_) return;
    if (const Address address = request(event)) allocator_.free(address);
  }

  void free(const TraceEvent& event) {
    if (const Address address = std::exchange(address_of(event), 0)) allocator_.free(address);
  }

  void free_late(const TraceEvent& event, Stream stream) {
    device_.machine().queue_work(event.device, stream);
    free_on(event, stream);
  }

  // Without work nothing has to be waited for.
  void free_on(const TraceEvent& event, Stream stream) {
    const Address address = std::exchange(address_of(event), 0);
    if (address == 0) return;
    allocator_.record_stream(address, stream);
    allocator_.free(address);
  }

  void finish(const TraceEvent& event, Stream stream) {
    device_.machine().finish_oldest(event.device, stream);
  }

  void release_pool(const TraceEvent& event) {
    if (is_held(event)) allocator_.pool_release(event.device, trace_.pool_of(event));
    is_held(event) = false;
  }

  void empty_cache(int device, PoolId pool) { allocator_.empty_cache(device, pool); }

  void end_context(uint8_t device) {
    device_.pause_counts(true);  // the driver takes it all at once
    const size_t first = device * trace_.pools.size();
    for (size_t i = 0; i < trace_.pools.size(); i++) {
      if (!held_pools_[first + i]) continue;
      allocator_.pool_release(device, trace_.pools[i]);
      held_pools_[first + i] = false;
    }
    empty_cache(device, {});
    device_.pause_counts(false);
  }

  uint64_t requests() const { return requests_; }
  uint64_t out_of_memory() const { return out_of_memory_; }

 private:
  Address& address_of(const TraceEvent& event) {
    CACHALOT_ASSERT(1, event.block < addresses_.size());
    return addresses_[event.block];
  }

  // 0: out of memory.
  Address request(const TraceEvent& event) {
    requests_++;
    device_.set_work_time(clock_.at(event));
    const Request request = {.size = event.size,
                             .device = event.device,
                             .stream = event.stream,
                             .current_stream = event.stream};
    try {
      return event.pool == 0 ? allocator_.allocate(request) : allocate_in_pool(event, request);
    } catch (const Error& error) {
      if (error.status() != Status::kOutOfMemory) throw;
    }
    out_of_memory_++;
    if (stops_at_out_of_memory_) throw Stop();
    return 0;
  }

  // When the program entered and left its pools is not recorded: the request alone is routed.
  Address allocate_in_pool(const TraceEvent& event, const Request& request) {
    const PoolId pool = trace_.pool_of(event);
    if (!is_held(event)) allocator_.pool_create(event.device, pool, {});
    is_held(event) = true;
    const Routing routing(allocator_, event.device, pool);
    return allocator_.allocate(request);
  }

  class Routing {
   public:
    Routing(Allocator& allocator, int device, PoolId pool)
        : allocator_(allocator), device_(device), pool_(pool) {
      allocator_.pool_begin(device_, pool_, [](Stream) { return true; });
    }
    Routing(const Routing&) = delete;
    Routing& operator=(const Routing&) = delete;
    ~Routing() {
      allocator_.pool_end(device_, pool_);
      allocator_.pool_release(device_, pool_);
    }

   private:
    Allocator& allocator_;
    int device_;
    PoolId pool_;
  };

  std::vector<bool>::reference is_held(const TraceEvent& event) {
    return held_pools_[event.device * trace_.pools.size() + event.pool];
  }

  const Trace& trace_;
  const bool expect_;
  const bool stops_at_out_of_memory_;
  Allocator& allocator_;
  ReplayDevice& device_;
  ProgramClock clock_;
  std::vector<Address> addresses_;  // by slot; 0: not live, or the request failed
  std::vector<bool> held_pools_;    // by device and pool: the program needs the pool
  uint64_t requests_ = 0;
  uint64_t out_of_memory_ = 0;
};

// What the recorded run did before the recording began.
void warm_up(const Trace& trace, Allocator* allocator) {
  if (trace.header.warm_up == 0) return;
  allocator->free(allocator->allocate({.size = trace.header.warm_up}));
  allocator->empty_cache(0);
}

void report_progress(const ReplayOptions& options, size_t done, size_t total) {
  if (options.progress && !options.progress(done, total))
    throw Error(Status::kCallback,
                format("the replay was stopped after %zu of %zu events", done, total));
}

// A state that does not allow an act of the program tells that the program did not do it.
[[noreturn]] void rethrow_as_flaw(const Error& error, size_t line) {
  if (error.status() != Status::kInvalidState && error.status() != Status::kInvalidArgument)
    throw error;
  throw Error(Status::kIo, line_name(line) + ": " + error.message());
}

// Sees the events of an allocator while it lives.
class Watch {
 public:
  Watch(Allocator* allocator, TraceObserver observer)
      : allocator_(*allocator), id_(allocator->observe_trace(std::move(observer))) {}
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;
  ~Watch() { allocator_.detach(id_); }

 private:
  Allocator& allocator_;
  uint64_t id_;
};

// Keeps what the allocator does until no lock is held.
class EntryRelay {
 public:
  EntryRelay(const ReplayOptions& options, Allocator* allocator) : observer_(options.observer) {
    if (is_on())
      watch_ = std::make_unique<Watch>(
          allocator, [this](const TraceEntry& entry) { entries_.push_back(entry); });
  }

  bool is_on() const { return observer_ != nullptr; }
  void tell(size_t event) {
    for (const TraceEntry& entry : std::exchange(entries_, {})) observer_(event, entry);
  }

 private:
  const std::function<void(size_t event, const TraceEntry& entry)>& observer_;
  std::vector<TraceEntry> entries_;
  std::unique_ptr<Watch> watch_;  // GCC 12 takes that of an optional for uninitialized
};

void perform(const Trace& trace, const ReplayOptions& options, Allocator* allocator,
             Performer* performer, ReplayHistory* history) {
  Program<Performer> program(trace, can_give_up_itself(trace.header, options.fraction), performer);
  EntryRelay relay(options, allocator);
  // One at a time, where somebody has to know which.
  const size_t at_once = relay.is_on() || history != nullptr ? 1 : kEventsBetweenProgress;
  const size_t total = replayed_events(trace, options);
  for (size_t done = 0; done < total;) {
    const size_t end = std::min(total, done + at_once);
    if (history != nullptr) history->set_event(done);
    bool is_stopped = false;
    try {
      program.run(done, end);
    } catch (const Stop&) {
      is_stopped = true;
    } catch (const Error& error) {
      rethrow_as_flaw(error, trace.line_of(program.at()));
    }
    if (relay.is_on()) relay.tell(done);
    if (is_stopped) return;
    done = end;
    if (done % kEventsBetweenProgress == 0 || done == total) report_progress(options, done, total);
  }
}

void add_peaks(Allocator* allocator, ReplayResult* result) {
  for (int device = 0; device < allocator->device_count(); device++) {
    const Stats stats = allocator->stats(device);
    result->peak_requested += static_cast<uint64_t>(stats.requested_bytes.all.peak);
    result->peak_allocated += static_cast<uint64_t>(stats.allocated_bytes.all.peak);
    result->peak_reserved += static_cast<uint64_t>(stats.reserved_bytes.all.peak);
  }
}

// Whether the trace has what an allocator's own history has, and nothing else.
bool is_history(const Trace& trace) {
  const auto is_of_program = [](const TraceEvent& event) {
    return event.action_number >= kActionCount;
  };
  return trace.is_of_allocator() &&
         std::none_of(trace.events.begin(), trace.events.end(), is_of_program);
}

}  // namespace

size_t replayed_events(const Trace& trace, const ReplayOptions& options) {
  const size_t all = trace.events.size();
  return options.event_count == 0 ? all : std::min(all, options.event_count);
}

ReplayOptions resolve(const Trace& trace, ReplayOptions wishes, Release default_release) {
  if (!trace.flaw.empty()) throw Error(Status::kIo, trace.flaw);
  const std::string& recorded_config = trace.header.config;
  const std::optional<Release> recorded_release = trace.header.release();
  ReplayOptions options = std::move(wishes);
  if (options.expect && options.config && *options.config != recorded_config)
    throw_invalid_argument("expect needs the recorded options, \"" + recorded_config + "\"");
  if (options.expect && options.release && recorded_release &&
      *options.release != *recorded_release)
    throw_invalid_argument("expect needs the recorded release, " + trace.header.torch);
  if (options.expect && (options.serving.is_on || options.serving.page_bytes != 0))
    throw_invalid_argument(
        "expect compares with PyTorch's events, which this policy does not have");
  if (options.expect && options.stop_at_out_of_memory)
    throw_invalid_argument("expect compares all events, so the replay cannot stop at one");
  if (options.expect && options.event_count != 0)
    throw_invalid_argument("expect compares all events of the trace, not the first of them");
  if (options.expect && !is_history(trace))
    throw_invalid_argument(
        "expect compares with an allocator's events from its first on, and the trace has others");
  if (!options.config) options.config = recorded_config;
  if (!options.release) options.release = recorded_release.value_or(default_release);
  if (options.capacity == 0) options.capacity = trace.header.device_total;
  if (options.capacity == 0) options.capacity = kDefaultCapacity;
  checked_sim_capacity(options.capacity);
  CACHALOT_ASSERT(1, options.is_resolved());
  return options;
}

SimOptions replay_device_options(const Trace& trace, const ReplayOptions& options) {
  CACHALOT_ASSERT(1, options.is_resolved());
  return {.capacity = options.capacity, .device_count = trace.device_count};
}

AllocatorOptions replay_allocator_options(const ReplayOptions& options,
                                          std::shared_ptr<Driver> device) {
  CACHALOT_ASSERT(1, options.is_resolved());
  AllocatorOptions result;
  result.driver = std::move(device);
  result.config = *options.config;
  result.looks_in_stream_order = true;  // stream_choice.h
  result.rules = rules_of(*options.release);
  result.serving = options.serving;
  return result;
}

ReplayResult replay(const Trace& trace, const ReplayOptions& options, Allocator* allocator,
                    ReplayDevice* device) {
  CACHALOT_ASSERT(1, options.is_resolved() && trace.flaw.empty());
  CACHALOT_ASSERT(1, &allocator->driver() == device);
  CACHALOT_ASSERT(1, trace.device_count <= allocator->device_count());
  CACHALOT_ASSERT(2, allocator->live_blocks() == 0);
  if (options.fraction != 0)
    for (int i = 0; i < trace.device_count; i++)
      allocator->set_memory_fraction(i, options.fraction);
  warm_up(trace, allocator);

  EventComparison comparison(trace);
  std::optional<ReplayHistory> history;
  if (options.keeps_history) history.emplace(trace);
  ReplayHistory* const kept = history ? &*history : nullptr;
  std::optional<Watch> watch;
  if (options.expect || kept != nullptr)
    watch.emplace(allocator, [&](const TraceEntry& entry) {
      if (options.expect) comparison.see(entry);
      if (kept != nullptr) kept->see(entry);
    });
  Performer performer(trace, options, allocator, device);
  perform(trace, options, allocator, &performer, kept);
  watch.reset();
  if (options.expect) comparison.finish();
  device->withdraw_offers();

  ReplayResult result;
  result.allocations = performer.requests();
  result.out_of_memory = performer.out_of_memory();
  result.calls = device->calls();
  result.call_counts = device->call_counts();
  result.differences = comparison.differences();
  add_peaks(allocator, &result);
  const bool is_equal = options.expect && result.differences.count == 0;
  if (history) result.history = is_equal ? recorded_history(trace) : history->take();
  return result;
}

}  // namespace cachalot
