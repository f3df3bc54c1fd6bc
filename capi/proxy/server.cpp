// SPDX-License-Identifier: MIT OR Apache-2.0
#include "server.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <iterator>
#include <thread>

#include "base/blocked_signals.h"
#include "base/text.h"
#include "captures.h"
#include "of_process.h"
#include "process_files.h"
#include "real_driver.h"
#include "streams.h"

namespace cachalot::proxy {
namespace {

const char* reason(NotServed what) {
  switch (what) {
    case NotServed::kOtherContext:
      return "memory in contexts of unknown origin: of neither cuCtxCreate, cuCtxFromGreenCtx nor "
             "the CUDA runtime";
    case NotServed::kFurtherContext:
      return "memory in further contexts of a device: a limit is kept in one (--limit), and 64 are "
             "served";
    case NotServed::kVirtualMemory:
      return "memory that the program maps itself (cuMemCreate), which the driver serves "
             "(--virtual "
             "cachalot)";
    case NotServed::kPool:
      return "memory from pools that the program makes itself (cuMemAllocFromPoolAsync)";
    case NotServed::kAsync:
      return "cuMemAllocAsync, which the driver's pool serves (--async cachalot)";
    case NotServed::kAsyncElsewhere:
      return "cuMemAllocAsync in contexts that the program creates, since the driver's pool is of "
             "the whole device";
    case NotServed::kExport:
      return "a handle for other processes (CUDA IPC) of a block within a segment, where they "
             "would find other data "
             "(--whole)";
  }
  return "";
}

// not_served: since the last line.
std::string line_of_end(int64_t process, const ServedContext& served, uint64_t not_served) {
  const cachalot_stats stats = served.stats();
  return format("end %lld %d %llx %llu %llu %lld %lld %lld %lld\n", static_cast<long long>(process),
                served.context()->device, static_cast<unsigned long long>(served.context()->name()),
                static_cast<unsigned long long>(served.requests()),
                static_cast<unsigned long long>(not_served),
                static_cast<long long>(stats.requested_bytes.all.peak),
                static_cast<long long>(stats.reserved_bytes.all.peak),
                static_cast<long long>(stats.num_device_alloc),
                static_cast<long long>(stats.num_device_free));
}

std::string line_of_mappings(int64_t process, const MappingCache::Counts& counts) {
  return format("virtual %lld %llu %llu\n", static_cast<long long>(process),
                static_cast<unsigned long long>(counts.requests),
                static_cast<unsigned long long>(counts.created));
}

// Containers of a pod have processes of the same number. Their pages have names of their own in the folder that they
// share, and so a series that has the name is in one page only.
std::string name_of_page(const std::string& path, int64_t process) {
  const std::string name = std::filesystem::path(path).stem();
  const std::string of_process = path_of_process(name, process);
  return of_process == name ? std::to_string(process) : of_process;
}

OfProcess<Server> server_of_process;

}  // namespace

Server* Server::get() noexcept {
  static const bool is_asked_for = is_serving_asked_for();
  if (!is_asked_for) return nullptr;
  try {
    return server_of_process.get([](Server*) { return make(); });
  } catch (...) {
    return nullptr;
  }
}

Server* Server::make() {
  const auto options = run_options_of_environment();
  return options ? new Server(*options) : nullptr;
}

Server::Server(const RunOptions& options) : options_(options), process_(getpid()) {
  if (options.serves_virtual) mappings_.emplace();
}

// A hook is a function of C. Where something fails, the driver is asked.
template <class Act>
auto Server::attempt(Act act) noexcept -> decltype(act()) {
  try {
    return act();
  } catch (const std::exception& error) {
    if (is_first(kFailure))
      std::fprintf(stderr, "cachalot: process %lld is not served, or not as a whole: %s\n",
                   static_cast<long long>(process_), error.what());
  } catch (...) {
  }
  return decltype(act())();
}

bool Server::is_first(unsigned remark) {
  const uint32_t bit = 1u << remark;
  return (remarks_.fetch_or(bit) & bit) == 0;
}

void Server::not_served(NotServed what) noexcept {
  not_served_.fetch_add(1, std::memory_order_relaxed);
  if (!is_first(static_cast<unsigned>(what))) return;
  std::fprintf(stderr, "cachalot: process %lld: not served: %s\n", static_cast<long long>(process_),
               reason(what));
}

// ---- Contexts

DriverContext* Server::current_context() {
  DriverContext* const context = contexts_.current();
  finish_ends();
  return context;
}

ServedContext* Server::served_in(DriverContext* context) {
  if (context->kind == ContextKind::kOther || context->cannot_be_served) return nullptr;
  ServedContext* const served = context->served.load(std::memory_order_acquire);
  return served != nullptr ? served : make_served(context);
}

ServedContext* Server::make_served(DriverContext* context) {
  const std::lock_guard guard(making_);
  ServedContext* served = context->served.load(std::memory_order_acquire);
  if (served != nullptr || context->has_ended) return served;
  std::atomic<ServedContext*>* const place = place_for(*context);
  if (place == nullptr) return nullptr;
  // No capture begins or ends before it is in its place, where it is told of them.
  Captures::get().holding([&](size_t captures) {
    try {
      served = new ServedContext(context, options_, captures + ended_captures_);
    } catch (...) {
      context->cannot_be_served = true;
      throw;
    }
    place->store(served, std::memory_order_release);
    context->served.store(served, std::memory_order_release);
  });

  for (const auto& [of, accessing] : peers_)
    if (of == context->handle) served->give_access_to(accessing);
  append_line(options_.list,
              format("begin %lld %d\n", static_cast<long long>(process_), context->device));
  start_upkeep();
  return served;
}

bool Server::is_another_served(const DriverContext& context) {
  bool is_any = false;
  for_each_on(context.device,
              [&](ServedContext& served) { is_any = is_any || served.context() != &context; });
  return is_any;
}

// Each context has an allocator of its own, and so a limit.
std::atomic<ServedContext*>* Server::place_for(const DriverContext& context) {
  if (options_.limit != 0 && is_another_served(context)) return nullptr;
  const auto place = std::find(served_.begin(), served_.end(), nullptr);
  if (place == served_.end()) return nullptr;
  const auto end = static_cast<size_t>(place - served_.begin()) + 1;
  served_end_.store(std::max(served_end_.load(), end), std::memory_order_release);
  return &*place;
}

ServedContext* Server::current_for_request() {
  DriverContext* const context = current_context();
  if (context == nullptr) return nullptr;
  ServedContext* const served = served_in(context);
  if (served != nullptr) return served;
  if (context->cannot_be_served || context->has_ended)
    not_served_.fetch_add(1, std::memory_order_relaxed);  // why was said, or is plain
  else
    not_served(context->kind == ContextKind::kOther ? NotServed::kOtherContext
                                                    : NotServed::kFurtherContext);
  return nullptr;
}

template <class Act>
void Server::for_each(Act act) {
  const size_t end = served_end_.load(std::memory_order_acquire);
  for (size_t i = 0; i < end; i++)
    if (ServedContext* const served = served_[i].load(std::memory_order_acquire)) act(*served);
}

template <class Act>
void Server::for_each_on(DeviceOrdinal device, Act act) {
  for_each([&](ServedContext& served) {
    if (served.context()->device == device) act(served);
  });
}

void Server::context_ended(const DriverContext* context) {
  end_captures_of(context->handle);
  if (mappings_) {
    // What is mapped is of the device, and lasts as long as its primary context.
    if (context->is_primary())
      mappings_->leave_device(context->device);
    else
      mappings_->empty(context->device);
  }
  {
    const std::lock_guard guard(passed_on_mutex_);
    std::erase_if(passed_on_, [&](const auto& row) { return row.second == context->handle; });
  }
  const std::lock_guard guard(making_);
  std::erase_if(peers_, [&](const auto& row) { return row.first == context->handle; });
  ServedContext* const served = context->served.load(std::memory_order_acquire);
  if (served == nullptr) return;
  served->end();
  ended_.push_back(served);
  *std::find(served_.begin(), served_.end(), served) = nullptr;
  has_ended_ = true;
}

void Server::end_captures_of(Context context) noexcept {
  Server* const server = server_of_process.if_made();
  Captures::get().end_all_of(context, [&] {
    if (server != nullptr) server->ended_captures_++;
  });
}

void Server::finish_ends() {
  if (ended_captures_.load(std::memory_order_relaxed) == 0 &&
      !has_ended_.load(std::memory_order_relaxed))
    return;
  std::vector<ServedContext*> ended;
  {
    const std::lock_guard guard(making_);
    Captures::get().holding([&](size_t) {
      for (size_t left = ended_captures_.exchange(0); left > 0; left--) capture_ended();
    });
    std::swap(ended, ended_);
    has_ended_ = false;
  }
  for (ServedContext* const served : ended) tell_end(*served);
  if (!ended.empty()) write_metrics(ended);
}

std::pair<ServedContext*, BlockInfo> Server::find(DeviceAddress address) {
  std::pair<ServedContext*, BlockInfo> found{nullptr, {}};
  for_each([&](ServedContext& served) {
    if (found.first != nullptr) return;
    if (const auto block = served.find(address)) found = {&served, *block};
  });
  return found;
}

// ---- Blocks

std::optional<Result> Server::allocate(uint64_t size, DeviceAddress* out) noexcept {
  return attempt([&]() -> std::optional<Result> {
    if (size == 0 || out == nullptr) return {};  // the driver's own error
    ServedContext* const served = current_for_request();
    if (served == nullptr) return {};
    return served->allocate(size, CACHALOT_STREAM_ALL, out);
  });
}

std::optional<Result> Server::allocate_on(uint64_t size, StreamHandle stream,
                                          DeviceAddress* out) noexcept {
  return attempt([&]() -> std::optional<Result> {
    if (size == 0 || out == nullptr) return {};
    if (!options_.serves_async) return leave(NotServed::kAsync);
    DriverContext* const context = current_context();
    if (context != nullptr && !context->is_primary()) return leave(NotServed::kAsyncElsewhere);
    ServedContext* const served = current_for_request();
    if (served == nullptr) return {};
    return served->allocate(size, reinterpret_cast<Stream>(stream), out);
  });
}

// What was mapped in a context that has ended unseen can be unmapped, and not be used.
MappingCache* Server::mappings_for_request() noexcept {
  if (!mappings_) {
    not_served(NotServed::kVirtualMemory);
    return nullptr;
  }
  attempt([&] {
    current_context();
    const std::lock_guard guard(making_);
    start_upkeep();
  });
  return &*mappings_;
}

// To the driver.
std::optional<Result> Server::leave(NotServed what) {
  not_served(what);
  return {};
}

std::optional<Result> Server::free(DeviceAddress address) noexcept {
  return free_block(
      address, [](ServedContext& served, const BlockInfo& block) { return served.free(block); });
}

std::optional<Result> Server::free_on(DeviceAddress address, StreamHandle stream) noexcept {
  return free_block(address, [&](ServedContext& served, const BlockInfo& block) {
    // What a graph does with the block later is no work that an event would tell of.
    const bool is_node = Captures::get().any() && is_captured(stream, DefaultStream::kLegacy);
    return served.free_on(block, is_node ? kAllStreams : reinterpret_cast<Stream>(stream));
  });
}

// Whatever fails, the driver is not asked to free a block of ours: it would free the segment.
template <class Free>
std::optional<Result> Server::free_block(DeviceAddress address, Free free) {
  const auto found = attempt([&] { return find(address); });
  if (found.first == nullptr) return attempt([&] { return free_other(address); });
  const auto result =
      attempt([&] { return std::optional<Result>(free(*found.first, found.second)); });
  return result.value_or(kUnknownError);
}

void Server::passed_on(DeviceAddress address) noexcept {
  attempt([&] {
    Context context = nullptr;
    call_real(real().cuCtxGetCurrent, &context);
    const std::lock_guard guard(passed_on_mutex_);
    passed_on_.emplace(address, context);
  });
}

// To look into the caches is for programs that free what they do not have.
std::optional<Result> Server::free_other(DeviceAddress address) {
  {
    const std::lock_guard guard(passed_on_mutex_);
    const auto found = passed_on_.find(address);
    if (found != passed_on_.end()) {
      passed_on_.erase(found);
      return {};
    }
  }
  bool is_ours = false;
  if (address != 0)
    for_each([&](ServedContext& served) { is_ours = is_ours || served.has_cached(address); });
  return is_ours ? std::optional<Result>(kInvalidValue) : std::nullopt;
}

std::optional<BlockInfo> Server::find_around(DeviceAddress address) noexcept {
  return attempt([&] {
    std::optional<BlockInfo> found;
    for_each([&](ServedContext& served) {
      if (!found) found = served.find_around(address);
    });
    return found;
  });
}

bool Server::can_be_exported(DeviceAddress address) noexcept {
  std::optional<bool> begins = attempt([&]() -> std::optional<bool> {
    const auto [served, block] = find(address);
    if (served == nullptr) return find_around(address) ? false : true;
    return served->segment_of(address).first == address;
  });
  return begins.value_or(false);
}

// The cache is as good as free memory.
void Server::adjust_memory_info(size_t* available, size_t* total) noexcept {
  attempt([&] {
    DriverContext* const context = current_context();
    if (context == nullptr || available == nullptr || total == nullptr) return;
    uint64_t cached = mappings_ ? mappings_->cached_bytes(context->device) : 0;
    for_each_on(context->device, [&](ServedContext& served) { cached += served.cached_bytes(); });
    *available = std::min(*total, *available + cached);
    if (!has_limit(*context)) return;
    const ServedContext* const served = context->served;
    const uint64_t used = served != nullptr ? served->allocated_bytes() : 0;
    *total = std::min<size_t>(*total, options_.limit);
    *available = std::min<size_t>(*available, options_.limit - std::min(options_.limit, used));
  });
}

// Also of one that has not asked for memory yet.
bool Server::has_limit(const DriverContext& context) {
  if (options_.limit == 0 || context.kind == ContextKind::kOther) return false;
  return !is_another_served(context);
}

// Another context of the device may be what has it.
bool Server::make_room(std::optional<DeviceOrdinal> device) noexcept {
  return attempt([&] {
    DriverContext* const context = current_context();
    if (!device && context == nullptr) return false;
    const DeviceOrdinal of = device ? *device : context->device;
    bool is_any = mappings_ && mappings_->empty(of);
    for_each_on(of, [&](ServedContext& served) {
      const uint64_t before = served.cached_bytes();
      if (before == 0) return;
      served.empty_cache();
      is_any = is_any || served.cached_bytes() < before;
    });
    return is_any;
  });
}

// ---- What the program does beside

void Server::stream_ends(StreamHandle stream) noexcept {
  if (options_.serves_async && !is_captured(stream, DefaultStream::kLegacy))
    call_real(real().cuStreamSynchronize, stream);
}

void Server::peer_enabled(Context of) noexcept {
  attempt([&] {
    DeviceOrdinal accessing = 0;
    if (call_real(real().cuCtxGetDevice, &accessing) != 0) return;
    const std::lock_guard guard(making_);
    peers_.emplace_back(of, accessing);
    for_each([&](ServedContext& served) {
      if (served.context()->handle == of) served.give_access_to(accessing);
    });
  });
}

void Server::capture_begun() noexcept {
  attempt([&] { for_each([](ServedContext& served) { served.capture_begun(); }); });
}

void Server::capture_ended() noexcept {
  attempt([&] { for_each([](ServedContext& served) { served.capture_ended(); }); });
}

void Server::context_created() noexcept {
  attempt([&] {
    contexts_.created();
    finish_ends();
  });
}

void Server::green_context_met(Context context) noexcept {
  attempt([&] { contexts_.green_met(context); });
}

void Server::destroying_green_context(Context context) noexcept {
  attempt([&] { contexts_.destroying_green(context); });
}

// Memory that is mapped outlives its context.
void Server::destroying(Context context) noexcept {
  attempt([&] {
    give_all_back_of(
        [&](const DriverContext& of) { return of.handle == context && !of.is_primary(); });
    contexts_.destroyed(context);
    finish_ends();
  });
}

template <class Matches>
void Server::give_all_back_of(Matches matches) {
  for_each([&](ServedContext& served) {
    if (!matches(*served.context())) return;
    end_captures_of(served.context()->handle);
    served.give_all_back();
  });
}

void Server::resetting(DeviceOrdinal device) noexcept {
  attempt([&] {
    give_all_back_of(
        [&](const DriverContext& of) { return of.device == device && of.is_primary(); });
    if (mappings_) mappings_->leave_device(device);
  });
}

void Server::look_after_primary(DeviceOrdinal device, bool is_reset) noexcept {
  attempt([&] {
    contexts_.look_after_primary(device, is_reset);
    finish_ends();
  });
}

void Server::look_after_primaries() noexcept {
  attempt([&] {
    contexts_.look_after_primaries();
    finish_ends();
  });
}

// ---- Upkeep

void Server::start_upkeep() {
  if (has_upkeep_ || (options_.trim_idle_seconds == 0 && options_.metrics.empty())) return;
  const BlockedSignals blocked;
  std::thread([this] {
    const uint64_t idle = options_.trim_idle_seconds;
    const auto turn =
        std::chrono::seconds(idle != 0 && idle < 20 ? std::max<uint64_t>(idle / 2, 1) : 10);
    for (;;) {
      std::this_thread::sleep_for(turn);
      do_upkeep();
    }
  }).detach();
  has_upkeep_ = true;
}

void Server::do_upkeep() noexcept {
  attempt([&] {
    if (options_.trim_idle_seconds != 0) {
      for_each([&](ServedContext& served) { served.trim(options_.trim_idle_seconds); });
      if (mappings_) mappings_->trim(std::chrono::seconds(options_.trim_idle_seconds));
    }
    write_metrics();
  });
}

// Each context has an allocator of its own.
std::string Server::metrics(const std::vector<ServedContext*>& ended) {
  Metrics all;
  const auto add = [&](ServedContext& served) {
    Metrics one = served.metrics();
    one.devices.insert(one.devices.begin(), std::make_move_iterator(all.devices.begin()),
                       std::make_move_iterator(all.devices.end()));
    all = std::move(one);
  };
  for (ServedContext* const served : ended) add(*served);
  for_each(add);
  all.process = name_of_page(options_.metrics, process_);
  return all.devices.empty() ? "" : metrics_text(all);
}

// The page stays as it is where there is nothing to tell: the CUDA runtime ends its contexts before the process ends.
void Server::write_metrics(const std::vector<ServedContext*>& ended) {
  if (options_.metrics.empty()) return;
  const std::lock_guard guard(metrics_mutex_);
  if (is_page_removed_) return;
  const std::string text = metrics(ended);
  if (text.empty()) return;
  const std::string path = path_of_process(options_.metrics, process_);
  const std::string fresh = path + "." + std::to_string(process_);
  std::FILE* const file = std::fopen(fresh.c_str(), "we");
  if (file == nullptr) return;
  std::fputs(text.c_str(), file);
  std::fclose(file);
  rename(fresh.c_str(), path.c_str());
}

// A page that no later process writes anew would be read for ever.
void Server::end_page() {
  const std::string path = path_of_process(options_.metrics, process_);
  if (path == options_.metrics) return write_metrics();
  const std::lock_guard guard(metrics_mutex_);
  unlink(path.c_str());
  is_page_removed_ = true;
}

void Server::tell_end(ServedContext& served) {
  append_line(options_.list, line_of_end(process_, served, not_served_.exchange(0)));
}

void Server::finish() noexcept {
  attempt([&] {
    finish_ends();
    for_each([&](ServedContext& served) { tell_end(served); });
    end_page();
    const MappingCache::Counts counts = mappings_ ? mappings_->counts() : MappingCache::Counts{};
    if (counts.requests != 0) append_line(options_.list, line_of_mappings(process_, counts));
  });
}

namespace {

// Behind the exit handlers of the program, before those of the driver.
[[gnu::destructor]] void finish_serving() {
  if (Server* const server = server_of_process.if_made()) server->finish();
}

}  // namespace

}  // namespace cachalot::proxy
