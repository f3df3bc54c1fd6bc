// SPDX-License-Identifier: MIT OR Apache-2.0
// Writes what a program asks the driver for into a recording (docs/trace-format.md). The hooks tell it before and
// after the calls; it changes nothing in what those do. No function throws: where there is no memory for the
// recorder itself, it gives up.
#pragma once

#include <atomic>
#include <map>
#include <optional>
#include <shared_mutex>
#include <string>
#include <vector>

#include "contexts.h"
#include "live_memory.h"
#include "pool_use.h"
#include "recording.h"
#include "stacks.h"
#include "virtual_memory.h"

namespace cachalot::proxy {

// What a call asks for.
struct Request {
  char entry;  // docs/trace-format.md
  uint64_t size;
  Stream stream = 0;
  bool is_cacheable = true;
};

// How a call gives memory back.
struct Return {
  char entry;
  std::optional<Stream> stream;  // the stream that orders the free, if one does
};

// A call of the driver, by now_ns().
struct CallTime {
  int64_t begin;
  int64_t end;
  int64_t wait_ns = -1;  // of it, for work of the device; -1: not known

  int64_t cost_ns() const { return end - begin; }
};

class Recorder final : DriverContexts::Observer {
 public:
  // This process's; null if nothing is recorded. A child that was forked has its own.
  static Recorder* get() noexcept;

  // Before a call that obtains memory: what the device has in use without it.
  void obtaining() noexcept;
  void obtained(const Request& request, Address address, const CallTime& time) noexcept;
  void refused(const Request& request, const CallTime& time) noexcept;

  // Before the driver is asked, so that no other thread has the address again first. Nothing if the memory is not
  // known.
  std::optional<Memory> returning(Address address, const Return& how) noexcept;
  // Waits as the call that gives the memory back does, if it does. Gives whether it has waited.
  bool wait(const Memory& memory) noexcept;
  void returned(Address address, const Memory& memory, const Return& how, Result result,
                const CallTime& time) noexcept;

  // Virtual memory.
  void created(AllocationHandle handle, const AllocationProperties* properties,
               int64_t cost_ns) noexcept;
  void retained(AllocationHandle handle) noexcept;
  // Gives where the handle was mapped last.
  Address releasing(AllocationHandle handle) noexcept;
  // The call gave back what no line of its own tells of.
  void released(Address address, char entry, const CallTime& time) noexcept;
  void mapped(Address address, uint64_t size, AllocationHandle handle,
              const CallTime& time) noexcept;
  void made_accessible(Address address, uint64_t size, const CallTime& time) noexcept;
  std::vector<Mapping> unmapping(Address address, uint64_t size) noexcept;
  void unmapped(Address address, const std::vector<Mapping>& mappings, Result result,
                const CallTime& time) noexcept;

  // In the context that is current.
  void stream_event(Action action, Stream stream) noexcept;
  // The program has waited. A wait that repeats the one before it, with no event between them, tells nothing.
  void waited(Action action, Stream stream) noexcept;
  // The program has used a pool of the current device; null: the device's own.
  void look_at(MemoryPool pool) noexcept;
  void destroyed(MemoryPool pool) noexcept;
  // The block that holds the address.
  void exported(Address address, char entry) noexcept;
  void exported(AllocationHandle handle) noexcept;

  void context_created() noexcept;
  void green_context_met(Context context) noexcept;
  void destroying_green_context(Context context) noexcept;
  void destroying(Context context) noexcept;
  // The program has called what ends the primary context of the device, perhaps.
  void look_after_primary(DeviceOrdinal device, bool is_reset) noexcept;
  void look_after_primaries() noexcept;

  // The process ends.
  void finish() noexcept;

 private:
  // No streams: handles are addresses of objects.
  static constexpr Stream kNoWait = 3;
  static constexpr Stream kContextWait = 4;

  struct Options {
    std::string path;
    std::string list;
    bool waits = true;
    size_t frames = 0;  // of stacks
    uint64_t keep = 0;  // bytes; 0: all
  };

  static Options options_of_environment();
  static Recorder* make_or_none(Recorder* parents) noexcept;

  Recorder(const Options& options, int64_t parent);

  template <class Act>
  auto attempt(Act act) noexcept -> decltype(act());
  // What changes the tables below and writes lines. Another file may begin behind it.
  template <class Act>
  auto record(Act act) noexcept -> decltype(act());
  template <class Act>
  void record_in_context(Act act) noexcept;
  template <class Act>
  auto record_within_file(Act act) -> decltype(act());
  void begin_next_file();
  void append_live();
  void give_up() noexcept;

  DriverContext* current() noexcept;
  void context_met(const DriverContext* context) override;
  void context_ended(const DriverContext* context) override;

  EventLine line(Action action, Address address, const DriverContext* context) const;
  EventLine line(Action action, Address address, const Memory& memory) const;
  // The process has the memory. end_ns: since when, by now_ns().
  EventLine line_with_cost(Action action, Address address, const Memory& memory, int64_t cost_ns,
                           int64_t end_ns) const;
  template <size_t kCount>
  void append(const std::array<EventLine, kCount>& lines) {
    last_wait_.store(kNoWait, std::memory_order_relaxed);
    recording_.append(lines);
  }
  void append_obtained(Address address, const Memory& memory, int64_t cost_ns, int64_t end_ns);
  void append_again(Address address, const Memory& memory, int64_t end_ns);
  void append_returning(Address address, const Memory& memory, const Return& how);
  void append_end(Address address, char entry, const DriverContext* context, const CallTime& time);
  std::vector<Mapping> take_mappings(Address address, uint64_t size);

  const bool waits_;
  std::atomic<bool> has_given_up_{false};
  std::atomic<Stream> last_wait_{kNoWait};  // the stream of it, or kContextWait
  // In a bounded recording the threads that write share the lock, and the thread that begins the next file has it alone.
  // Other recordings need no lock.
  std::shared_mutex file_mutex_;
  Recording recording_;
  std::map<DeviceOrdinal, std::string> device_lines_;
  PoolUse pool_use_{&recording_};
  Stacks stacks_;
  LiveMemory live_;
  VirtualMemory virtual_memory_;
  DriverContexts contexts_{this, DriverContexts::Owner::kRecorder};
};

}  // namespace cachalot::proxy
