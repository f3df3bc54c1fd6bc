// SPDX-License-Identifier: MIT OR Apache-2.0
// Writes what a program asks the driver for into a recording (docs/trace-format.md). The hooks tell it before and
// after the calls; it changes nothing in what those do.
#pragma once

#include <optional>
#include <string>

#include "captures.h"
#include "contexts.h"
#include "device/fork_mark.h"
#include "live_memory.h"
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
  bool waits;                    // for the work of the context
  std::optional<Stream> stream;  // that it is ordered on
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
  static Recorder* get();

  void obtained(const Request& request, Address address, const CallTime& time);
  void refused(const Request& request, const CallTime& time);

  // Before the driver is asked, so that no other thread has the address again first. Nothing if the memory is not
  // known.
  std::optional<Memory> returning(Address address, const Return& how);
  // Waits as the call will. Whether that could be done.
  bool wait(const Memory& memory);
  void returned(Address address, const Memory& memory, const Return& how, Result result,
                const CallTime& time);

  VirtualMemory& virtual_memory() { return virtual_memory_; }
  void mapped(const std::vector<Mapping>& mappings);
  std::vector<Mapping> unmapping(Address address, uint64_t size);
  void unmapped(Address address, const std::vector<Mapping>& mappings, Result result,
                const CallTime& time);
  // The call gave back what no line of its own tells of.
  void released(Address address, char entry, const CallTime& time);

  // In the context that is current.
  void stream_event(Action action, Stream stream);
  // The block that holds the address.
  void exported(Address address, char entry);

  Captures& captures() { return captures_; }
  DriverContexts& contexts() { return contexts_; }

  // The process ends.
  void finish();

 private:
  struct Options {
    std::string path;
    std::string list;
    bool waits = true;
    size_t frames = 0;  // of stacks
  };

  static std::optional<Options> options_of_environment();
  static Recorder* make(int64_t parent);
  static Recorder* replace_parents(Recorder* parents);

  Recorder(const Options& options, int64_t parent);

  void context_ended(const DriverContext& context) override;

  EventLine line(Action action, Address address, const DriverContext* context) const;
  EventLine line(Action action, Address address, const Memory& memory) const;
  void append_obtained(Address address, const Memory& memory, int64_t cost_ns, int64_t end_ns,
                       ContextId context);
  void append_returning(Address address, const Memory& memory, const Return& how);
  void append_end(Address address, char entry, const DriverContext* context, const CallTime& time);

  const bool waits_;
  const ForkMark fork_mark_;
  Recording recording_;
  Stacks stacks_;
  LiveMemory live_;
  VirtualMemory virtual_memory_;
  Captures captures_;
  DriverContexts contexts_{this};
};

}  // namespace cachalot::proxy
