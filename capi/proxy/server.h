// SPDX-License-Identifier: MIT OR Apache-2.0
// Serves a program's requests from caches instead of the driver (`cachalot run`). The hooks ask it first, and the driver
// where it gives nothing. No function throws.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "contexts.h"
#include "mapping_cache.h"
#include "run_options.h"
#include "served_context.h"

namespace cachalot::proxy {

// What is not served, each with its reason.
enum class NotServed : uint8_t {
  kOtherContext,
  kFurtherContext,
  kVirtualMemory,
  kPool,
  kAsync,
  kAsyncElsewhere,
  kExport,
};

class Server final : DriverContexts::Observer {
 public:
  // This process's; null if the program is not served.
  static Server* get() noexcept;

  // Nothing: the driver is to be asked.
  std::optional<Result> allocate(uint64_t size, DeviceAddress* out) noexcept;
  std::optional<Result> allocate_on(uint64_t size, StreamHandle stream,
                                    DeviceAddress* out) noexcept;
  std::optional<Result> free(DeviceAddress address) noexcept;
  std::optional<Result> free_on(DeviceAddress address, StreamHandle stream) noexcept;

  // For memory that the program maps itself; null: the driver is to be asked.
  MappingCache* mappings() noexcept { return mappings_ ? &*mappings_ : nullptr; }
  // The same, for a request; where it is null, that is said.
  MappingCache* mappings_for_request() noexcept;

  // The driver has given the memory, and takes it back by cuMemFree or cuMemFreeAsync.
  void passed_on(DeviceAddress address) noexcept;

  // The block of ours that holds the address.
  std::optional<BlockInfo> find_around(DeviceAddress address) noexcept;
  // Whether another process that opens the block's segment finds the block at its begin; true for what is not ours.
  bool can_be_exported(DeviceAddress address) noexcept;
  // Makes what the driver says of the current device's memory what the program may have.
  void adjust_memory_info(size_t* available, size_t* total) noexcept;
  // For a request of the driver's that it has refused: gives back what is cached of the device; nothing: of that of the
  // current context. Gives whether that was anything.
  bool make_room(std::optional<DeviceOrdinal> device) noexcept;

  // The stream is about to be destroyed, and its handle may be another one's soon.
  void stream_ends(StreamHandle stream) noexcept;
  // The current context gets access to the memory of another one.
  void peer_enabled(Context of) noexcept;
  // Under the lock of the captures.
  void capture_begun() noexcept;
  void capture_ended() noexcept;
  // Its captures end with a context. Under the locks of the contexts of whoever sees the end first.
  static void end_captures_of(Context context) noexcept;
  void context_created() noexcept;
  void green_context_met(Context context) noexcept;
  void destroying_green_context(Context context) noexcept;
  void destroying(Context context) noexcept;
  void resetting(DeviceOrdinal device) noexcept;
  void look_after_primary(DeviceOrdinal device, bool is_reset) noexcept;
  void look_after_primaries() noexcept;

  // Counts it, and says it once.
  void not_served(NotServed what) noexcept;
  void finish() noexcept;

 private:
  static constexpr size_t kMostContexts = 64;
  static constexpr unsigned kFailure = 31;  // a remark beside those of NotServed

  explicit Server(const RunOptions& options);
  static Server* make();

  template <class Act>
  auto attempt(Act act) noexcept -> decltype(act());
  bool is_first(unsigned remark);
  // Null where no context is current.
  DriverContext* current_context();
  // Null for a context that is not served.
  ServedContext* served_in(DriverContext* context);
  ServedContext* make_served(DriverContext* context);
  // Where a further one can be; null: it cannot.
  std::atomic<ServedContext*>* place_for(const DriverContext& context);
  // Of the current context, for a request. Counts those that are not served.
  ServedContext* current_for_request();
  std::optional<Result> leave(NotServed what);
  // free: of a block of ours.
  template <class Free>
  std::optional<Result> free_block(DeviceAddress address, Free free);
  template <class Act>
  void for_each(Act act);
  template <class Act>
  void for_each_on(DeviceOrdinal device, Act act);
  // No live block begins at the address: the memory is the driver's, or a part of a segment, which the driver must not
  // free.
  std::optional<Result> free_other(DeviceAddress address);
  // What has a live block there.
  std::pair<ServedContext*, BlockInfo> find(DeviceAddress address);

  // Under the lock of the contexts. What takes other locks is left to finish_ends().
  void context_ended(const DriverContext* context) override;
  // What is left to do about contexts and captures that have ended, after the locks of the contexts are free again.
  void finish_ends();
  // Before the contexts end, whose mapped memory would outlive them.
  template <class Matches>
  void give_all_back_of(Matches matches);
  // On the context's device.
  bool is_another_served(const DriverContext& context);
  bool has_limit(const DriverContext& context);

  void start_upkeep();
  // Now and then, on a thread of its own.
  void do_upkeep() noexcept;
  void tell_end(ServedContext& served);
  // ended: contexts that are to be in it once more.
  std::string metrics(const std::vector<ServedContext*>& ended);
  void write_metrics(const std::vector<ServedContext*>& ended = {});
  void end_page();

  const RunOptions options_;
  const int64_t process_;
  std::optional<MappingCache> mappings_;
  std::array<std::atomic<ServedContext*>, kMostContexts>
      served_{};                       // in places that are taken again
  std::atomic<size_t> served_end_{0};  // behind the last that there has been
  std::atomic<uint32_t> remarks_{0};   // a bit for each that was made
  std::atomic<uint64_t> not_served_{0};
  std::mutex passed_on_mutex_;
  std::unordered_multimap<DeviceAddress, Context> passed_on_;
  std::mutex metrics_mutex_;
  bool is_page_removed_ = false;  // under the mutex
  // Before the lock of the captures, behind that of the contexts.
  std::mutex making_;
  std::vector<std::pair<Context, DeviceOrdinal>> peers_;  // and who has access to the memory there
  std::vector<ServedContext*> ended_;                     // that nobody has told of yet
  bool has_upkeep_ = false;
  std::atomic<size_t> ended_captures_{0};  // that the allocators were not told of yet
  std::atomic<bool> has_ended_{false};
  DriverContexts contexts_{this, DriverContexts::Owner::kServer};
};

}  // namespace cachalot::proxy
