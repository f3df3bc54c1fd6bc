// SPDX-License-Identifier: MIT OR Apache-2.0
// A recorded run through the model and the library.
#pragma once

#include <string>
#include <vector>

#include "both_sides.h"
#include "replay/trace.h"

namespace cachalot::policy_model {

// The acts of the recorded program, as a replay performs them (replay/program.h).
class Recording : public BothSides {
 public:
  // The trace stays, and has one device and no private pool.
  Recording(const Trace& trace, uint64_t capacity, bool thrift, Fault fault);

  // The first difference, told in some lines; empty: there is none.
  std::string run();

  void obtained(const TraceEvent&) {}
  void allocate(const TraceEvent& event);
  void fail_to_allocate(const TraceEvent&) {}
  void free(const TraceEvent& event);
  void free_late(const TraceEvent& event, Stream stream);
  void free_on(const TraceEvent& event, Stream stream);
  void finish(const TraceEvent& event, Stream stream);
  void release_pool(const TraceEvent&) {}
  void empty_cache(int, PoolId pool) { empty_on_both(pool); }
  void end_context(int) { empty_on_both({}); }

 private:
  const Trace& trace_;
  std::vector<Address> addresses_;  // by slot; 0: not live, or the request failed
};

}  // namespace cachalot::policy_model
