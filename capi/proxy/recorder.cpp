// SPDX-License-Identifier: MIT OR Apache-2.0
#include "recorder.h"

#include <charconv>
#include <cstdio>
#include <string_view>

#include "base/disabled.h"
#include "captures.h"
#include "clock.h"
#include "device_wait.h"
#include "of_process.h"
#include "real_driver.h"
#include "run_options.h"
#include "server.h"
#include "streams.h"

namespace cachalot::proxy {
namespace {

OfProcess<Recorder> recorder_of_process;

// Whether this thread's program asks for the end of a context that is told of.
thread_local bool is_asked_to_end = false;

// Memory that is given back with its context, or by a way that no hook sees.
constexpr Return kUnseen{.entry = '\0', .stream = {}};

// 0 for "" and for what is no number.
uint64_t number_of(const std::string& text) {
  uint64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

// Bytes that the device has free, for a request that failed.
uint64_t device_free() {
  size_t available = 0;
  size_t total = 0;
  return call_real(real().cuMemGetInfo_v2, &available, &total) == 0 ? available : 0;
}

// No cache can have what is of an unknown context.
Memory memory_of(const Request& request, DriverContext* context, ContextId stack) {
  const bool is_cacheable = request.is_cacheable && context->kind != ContextKind::kOther;
  return {context, request.size, request.stream, request.entry, is_cacheable, stack};
}

// "# device ORDINAL BUS USED" (docs/trace-format.md).
std::string device_line(DeviceOrdinal device) {
  std::array<char, 32> bus{};
  if (call_real(real().cuDeviceGetPCIBusId, bus.data(), static_cast<int>(bus.size()), device) != 0)
    return {};
  size_t available = 0;
  size_t total = 0;
  if (call_real(real().cuMemGetInfo_v2, &available, &total) != 0) return {};
  std::array<char, 96> text{};
  const int length = std::snprintf(text.data(), text.size(), "# device %x %s %zx\n",
                                   static_cast<unsigned>(device), bus.data(), total - available);
  return {text.data(), static_cast<size_t>(length)};
}

}  // namespace

Recorder::Options Recorder::options_of_environment() {
  return {.path = environment_text("CACHALOT_RECORD"),
          .list = environment_text("CACHALOT_RECORD_LIST"),
          .waits = environment_text("CACHALOT_RECORD_WAITS") != "0",
          .frames = number_of(environment_text("CACHALOT_RECORD_STACKS")),
          .keep = number_of(environment_text("CACHALOT_RECORD_KEEP"))};
}

Recorder* Recorder::get() noexcept {
  static const bool is_asked_for =
      !environment_text("CACHALOT_RECORD").empty() && !is_disabled_by_environment();
  if (!is_asked_for) return nullptr;
  try {
    Recorder* const recorder = recorder_of_process.get(make_or_none);
    const bool records =
        recorder != nullptr && !recorder->has_given_up_.load(std::memory_order_relaxed);
    return records ? recorder : nullptr;
  } catch (...) {
    return nullptr;
  }
}

Recorder* Recorder::make_or_none(Recorder* parents) noexcept {
  try {
    if (parents != nullptr) forget_thread_ids();
    return new Recorder(options_of_environment(),
                        parents != nullptr ? parents->recording_.pid() : 0);
  } catch (...) {
    return nullptr;
  }
}

Recorder::Recorder(const Options& options, int64_t parent)
    : waits_(options.waits && environment_text("CACHALOT_RUN_FREE") != "event"),
      recording_(options.path, options.list, parent, options.keep),
      stacks_(options.frames, &recording_) {}

// A hook is a function of C: no exception may leave it, and what the driver has done stays done.
template <class Act>
auto Recorder::attempt(Act act) noexcept -> decltype(act()) {
  try {
    return act();
  } catch (...) {
    give_up();
    return decltype(act())();
  }
}

template <class Act>
auto Recorder::record(Act act) noexcept -> decltype(act()) {
  return attempt([&] {
    if (!recording_.is_bounded()) return act();
    return record_within_file(act);
  });
}

// Without a context nothing can be recorded of a call.
template <class Act>
void Recorder::record_in_context(Act act) noexcept {
  record([&] {
    if (DriverContext* const context = contexts_.current()) act(context);
  });
}

template <class Act>
auto Recorder::record_within_file(Act act) -> decltype(act()) {
  struct Writing {
    Recorder* recorder;
    std::shared_lock<std::shared_mutex> lock{recorder->file_mutex_};
    ~Writing() {
      const bool is_full = recorder->recording_.is_full();
      lock.unlock();
      if (is_full) recorder->attempt([this] { recorder->begin_next_file(); });
    }
  };
  const Writing writing{this};
  return act();
}

// The tables are as the lines so far tell, since both change together.
void Recorder::begin_next_file() {
  const std::lock_guard guard(file_mutex_);
  if (recording_.is_full()) recording_.begin_next_file([this] { append_live(); });
}

// Blocks first (docs/trace-format.md).
void Recorder::append_live() {
  for (const auto& [device, line] : device_lines_)
    if (!line.empty()) recording_.append_comment(line);
  stacks_.write_all();
  pool_use_.write_all();
  const std::vector<Mapping> mappings = virtual_memory_.accessible();
  for (const bool are_blocks : {true, false}) {
    const auto append_if = [&](Address address, const Memory& memory) {
      if (memory.is_cacheable != are_blocks) return;
      const Action action = are_blocks ? Action::kLiveAtBegin : Action::kOtherAlloc;
      append(std::array{line_with_cost(action, address, memory, -1, now_ns())});
    };
    live_.for_each(append_if);
    for (const Mapping& mapping : mappings) append_if(mapping.address, mapping.memory);
  }
}

void Recorder::give_up() noexcept {
  if (has_given_up_.exchange(true)) return;
  std::fprintf(stderr, "cachalot: process %lld is recorded no longer: there is no memory\n",
               static_cast<long long>(recording_.pid()));
}

DriverContext* Recorder::current() noexcept {
  return record([&] { return contexts_.current(); });
}

EventLine Recorder::line(Action action, Address address, const DriverContext* context) const {
  EventLine line{};
  line.action = action;
  line.address = address;
  line.device = static_cast<uint64_t>(context->device);
  line.detail.driver_context = context->name();
  line.detail.thread = this_thread_id();
  return line;
}

EventLine Recorder::line(Action action, Address address, const Memory& memory) const {
  EventLine line = this->line(action, address, memory.context);
  line.size = memory.size;
  line.stream = line.detail.freed_on = memory.stream;
  line.detail.entry = memory.entry;
  return line;
}

EventLine Recorder::line_with_cost(Action action, Address address, const Memory& memory,
                                   int64_t cost_ns, int64_t end_ns) const {
  EventLine line = this->line(action, address, memory);
  line.context = memory.stack;
  line.time_us = recording_.time_us(end_ns);
  line.detail.cost_ns = cost_ns;
  return line;
}

void Recorder::append_obtained(Address address, const Memory& memory, int64_t cost_ns,
                               int64_t end_ns) {
  const Action action = memory.is_cacheable ? Action::kAlloc : Action::kOtherAlloc;
  append(std::array{line_with_cost(action, address, memory, cost_ns, end_ns)});
}

// What the driver did not take back is there as before, and no call of its own has asked for it.
void Recorder::append_again(Address address, const Memory& memory, int64_t end_ns) {
  Memory again = memory;
  again.stack = kNoContext;
  append_obtained(address, again, -1, end_ns);
}

void Recorder::append_returning(Address address, const Memory& memory, const Return& how) {
  const Action action = memory.is_cacheable ? Action::kFreeRequested : Action::kOtherFree;
  EventLine line = this->line(action, address, memory);
  line.time_us = recording_.time_us(now_ns());
  line.detail.entry = how.entry;
  if (how.stream) line.detail.freed_on = *how.stream;
  if (!memory.is_cacheable) return append(std::array{line});
  EventLine completed = line;
  completed.action = Action::kFreeCompleted;
  completed.detail = {.freed_on = line.stream, .driver_context = line.detail.driver_context};
  completed.time_us = -1;
  append(std::array{line, completed});
}

void Recorder::append_end(Address address, char entry, const DriverContext* context,
                          const CallTime& time) {
  EventLine line = this->line(Action::kCallEnd, address, context);
  line.time_us = recording_.time_us(time.end);
  line.detail.entry = entry;
  line.detail.cost_ns = time.cost_ns();
  line.detail.wait_ns = time.wait_ns;
  append(std::array{line});
}

void Recorder::obtaining() noexcept {
  if (recording_.is_bounded()) current();
}

void Recorder::obtained(const Request& request, Address address, const CallTime& time) noexcept {
  record_in_context([&](DriverContext* context) {
    const Memory memory = memory_of(request, context, stacks_.of_this_thread());
    if (const auto before = live_.add(address, memory)) append_returning(address, *before, kUnseen);
    append_obtained(address, memory, time.cost_ns(), time.end);
  });
}

void Recorder::refused(const Request& request, const CallTime& time) noexcept {
  record_in_context([&](DriverContext* context) {
    const Memory memory = memory_of(request, context, stacks_.of_this_thread());
    EventLine line = this->line(Action::kOom, device_free(), memory);
    line.context = memory.stack;
    line.time_us = recording_.time_us(time.end);
    line.detail.cost_ns = time.cost_ns();
    append(std::array{line});
  });
}

std::optional<Memory> Recorder::returning(Address address, const Return& how) noexcept {
  return record([&] {
    const std::optional<Memory> memory = live_.take(address);
    if (memory) append_returning(address, *memory, how);
    return memory;
  });
}

bool Recorder::wait(const Memory& memory) noexcept {
  // Asked of a driver (docs/gpu.md): it does not wait at the free of a block that belongs to a stream.
  constexpr std::string_view kWaitedFor = "shmlry";
  return waits_ && kWaitedFor.find(memory.entry) != std::string_view::npos &&
         attempt([&] { return wait_for_event_of_context(memory.context) == 0; });
}

void Recorder::returned(Address address, const Memory& memory, const Return& how, Result result,
                        const CallTime& time) noexcept {
  record([&] {
    append_end(address, how.entry, memory.context, time);
    if (result == 0 || memory.context->has_ended) return;
    live_.add(address, memory);
    append_again(address, memory, time.end);
  });
}

void Recorder::created(AllocationHandle handle, const AllocationProperties* properties,
                       int64_t cost_ns) noexcept {
  const bool is_of_device =
      properties == nullptr || properties->location.type == cuda::kLocationTypeDevice;
  attempt([&] { virtual_memory_.created(handle, is_of_device, cost_ns); });
}

void Recorder::retained(AllocationHandle handle) noexcept {
  attempt([&] { virtual_memory_.retained(handle); });
}

Address Recorder::releasing(AllocationHandle handle) noexcept {
  return attempt([&] {
    const Address address = virtual_memory_.address_of(handle);
    virtual_memory_.released(handle);
    return address;
  });
}

void Recorder::released(Address address, char entry, const CallTime& time) noexcept {
  record_in_context(
      [&](const DriverContext* context) { append_end(address, entry, context, time); });
}

// What was mapped there before was unmapped by a way that no hook sees.
void Recorder::mapped(Address address, uint64_t size, AllocationHandle handle,
                      const CallTime& time) noexcept {
  record_in_context([&](DriverContext* context) {
    take_mappings(address, size);
    virtual_memory_.mapped(address, size, handle, context, time.cost_ns());
  });
}

void Recorder::made_accessible(Address address, uint64_t size, const CallTime& time) noexcept {
  record([&] {
    const ContextId stack = stacks_.of_this_thread();
    for (const Mapping& mapping :
         virtual_memory_.made_accessible(address, size, time.cost_ns(), stack))
      append_obtained(mapping.address, mapping.memory, mapping.cost_ns, time.end);
  });
}

std::vector<Mapping> Recorder::unmapping(Address address, uint64_t size) noexcept {
  return record([&] { return take_mappings(address, size); });
}

std::vector<Mapping> Recorder::take_mappings(Address address, uint64_t size) {
  std::vector<Mapping> mappings = virtual_memory_.take(address, size);
  for (const Mapping& mapping : mappings)
    append_returning(mapping.address, mapping.memory,
                     {.entry = mapping.memory.entry, .stream = {}});
  return mappings;
}

void Recorder::unmapped(Address address, const std::vector<Mapping>& mappings, Result result,
                        const CallTime& time) noexcept {
  released(address, 'v', time);
  if (result == 0) return;
  record([&] {
    virtual_memory_.put_back(mappings);
    for (const Mapping& mapping : mappings) append_again(mapping.address, mapping.memory, time.end);
  });
}

void Recorder::stream_event(Action action, Stream stream) noexcept {
  record_in_context([&](const DriverContext* context) {
    EventLine line = this->line(action, 0, context);
    line.stream = line.detail.freed_on = stream;
    line.time_us = recording_.time_us(now_ns());
    append(std::array{line});
  });
}

void Recorder::waited(Action action, Stream stream) noexcept {
  if (action == Action::kContextWait && contexts_.is_green_current()) return;
  const Stream wait = action == Action::kContextWait ? kContextWait : stream;
  if (last_wait_.load(std::memory_order_relaxed) == wait) return;
  stream_event(action, stream);
  last_wait_.store(wait, std::memory_order_relaxed);
  look_at(nullptr);
}

// Not while a stream is captured: what may be called then, the driver decides.
void Recorder::look_at(MemoryPool pool) noexcept {
  record_in_context([&](const DriverContext* context) {
    if (!Captures::get().any()) pool_use_.look(context->device, pool, now_ns());
  });
}

void Recorder::destroyed(MemoryPool pool) noexcept {
  record_in_context(
      [&](const DriverContext* context) { pool_use_.destroyed(context->device, pool); });
}

void Recorder::exported(Address address, char entry) noexcept {
  record_in_context([&](const DriverContext* context) {
    DeviceAddress base = 0;
    size_t size = 0;
    if (call_real(real().cuMemGetAddressRange_v2, &base, &size, DeviceAddress{address}) != 0)
      return;
    EventLine line = this->line(Action::kExport, base, context);
    line.size = size;
    line.detail.entry = entry;
    line.time_us = recording_.time_us(now_ns());
    append(std::array{line});
  });
}

void Recorder::exported(AllocationHandle handle) noexcept {
  exported(attempt([&] { return virtual_memory_.address_of(handle); }), 'v');
}

void Recorder::destroying(Context context) noexcept {
  is_asked_to_end = true;
  record([&] { contexts_.destroyed(context); });
  is_asked_to_end = false;
}

void Recorder::context_created() noexcept {
  record([&] { contexts_.created(); });
}

void Recorder::green_context_met(Context context) noexcept {
  record([&] { contexts_.green_met(context); });
}

void Recorder::destroying_green_context(Context context) noexcept {
  record([&] { contexts_.destroying_green(context); });
}

void Recorder::look_after_primaries() noexcept {
  record([&] { contexts_.look_after_primaries(); });
}

void Recorder::look_after_primary(DeviceOrdinal device, bool is_reset) noexcept {
  is_asked_to_end = is_reset;
  record([&] { contexts_.look_after_primary(device, is_reset); });
  is_asked_to_end = false;
}

// Under the lock of the contexts. To ask what the device has free can take milliseconds, so it is done once, and only
// where a reader follows the recording.
void Recorder::context_met(const DriverContext* context) {
  if (!recording_.is_bounded()) return;
  const auto [row, is_new] = device_lines_.try_emplace(context->device);
  if (!is_new) return;
  row->second = device_line(context->device);
  if (!row->second.empty()) recording_.append_comment(row->second);
}

// One line tells of a primary one, unless other contexts have memory on its device: theirs lives on.
void Recorder::context_ended(const DriverContext* context) {
  Server::end_captures_of(context->handle);
  const auto memories = live_.take_all_of(context);
  const auto mappings = virtual_memory_.take_all_of(context);
  const bool has_others =
      live_.has_any_on(context->device) || virtual_memory_.has_any_on(context->device);
  const bool is_told_alone = context->is_primary() && !has_others;
  if (!is_told_alone) {
    for (const auto& [address, memory] : memories) append_returning(address, memory, kUnseen);
    for (const Mapping& mapping : mappings)
      append_returning(mapping.address, mapping.memory, kUnseen);
  }
  const auto handle = reinterpret_cast<Address>(context->handle);
  EventLine line = this->line(Action::kContextEnd, is_told_alone ? 0 : handle, context);
  line.time_us = recording_.time_us(now_ns());
  line.size = is_asked_to_end;
  append(std::array{line});
}

void Recorder::finish() noexcept {
  record([&] { recording_.finish(); });
}

namespace {

// The last of the process: behind the exit handlers of the program, before those of the driver. A child that has recorded
// nothing has none.
[[gnu::destructor]] void finish_recording() {
  if (Recorder* const recorder = recorder_of_process.if_made()) recorder->finish();
}

}  // namespace

}  // namespace cachalot::proxy
