// SPDX-License-Identifier: MIT OR Apache-2.0
// The words that ask.
#include <c10/cuda/CUDAAllocatorConfig.h>
#include <c10/cuda/CUDACachingAllocator.h>

#include <cstdio>

#include "../../hex_digits.h"
#include "context.h"
#include "operations.h"
#include "output.h"
#include "release.h"
#include "report.h"
#include "run.h"

namespace oracle {
namespace {

using std::to_string;

void statistics(Arguments&) { report_statistics(); }

void snapshot(Arguments&) { report_segments(cca::snapshot()); }

void history(Arguments&) { report_history(cca::snapshot()); }

void settings(Arguments&) { report_settings(cca::snapshot().config_metadata); }

void fraction(Arguments&) {
  char text[64];
  snprintf(text, sizeof text, "= fraction %.17g", cca::getMemoryFraction(0));
  line(text);
}

void is_enabled(Arguments&) { line(std::string("# enabled ") + (cca::isEnabled() ? "yes" : "no")); }

void base(Arguments& arguments) {
  const c10::DataPtr* block = run.find(arguments.id());
  if (!block) return;
  size_t size = 0;
  void* address = cca::getBaseAllocation(block->get(), &size);
  line("# base " + hex(address) + " " + to_string(size));
}

void share(Arguments& arguments) {
  const c10::DataPtr* block = run.find(arguments.id());
  if (!block) return;
  const auto shared = cca::shareIpcHandle(block->get());
  line("# share " + to_string(shared.offset) + " " + cachalot_test::to_hex_digits(shared.handle));
}

void largest(Arguments& arguments) {
  auto size = arguments.number<size_t>();
  cca::cacheInfo(0, &size);
  line("# largest " + to_string(size));
}

void expandable_sizes(Arguments&) {
  for (const auto& segment : cca::getExpandableSegmentSizes(0)) {
    line("# expandable " + hex(segment.stream) + (segment.is_small_pool ? " small " : " large ") +
         to_string(segment.total_size));
  }
}

#if SINCE(12)
void context_of(Arguments& arguments) {
  const c10::DataPtr* block = run.find(arguments.id());
  const auto context = block ? cca::getContextForPointer(block->get()) : nullptr;
  line("# context" + (context ? " line " + to_string(line_of(*context)) : std::string(" none")));
}
#endif

#if SINCE(14)
void supports_metadata(Arguments&) {
  line(std::string("# metadata ") + (cca::supportsUserMetadata() ? "yes" : "no"));
}
#endif

#if SINCE(15)
void reserve_class_of(Arguments& arguments) {
  const auto stream = reinterpret_cast<cudaStream_t>(arguments.hex());
  line("# reserve_class \"" + cca::getExpandableSegmentReserveClassForStream(stream) + "\"");
}

void reserve_of(Arguments& arguments) {
  using Config = cca::CUDAAllocatorConfig;
  const std::string name = arguments.rest();
  const auto decision = Config::expandable_segments_reserve_decision(name, run.total);
  const size_t full = run.total + run.total / 8;
  line("# reserve \"" + name + "\" " +
       (decision.reserve_bytes ? to_string(*decision.reserve_bytes) : "none") +
       (decision.class_known ? " known " : " unknown ") +
       to_string(Config::clamp_reserve_bytes(decision, full)));
}

void expandable_totals(Arguments&) {
  line("# expandable_totals " + to_string(cca::getExpandableSegmentsReservedBytes()) + " " +
       to_string(cca::getExpandableSegmentsCount()));
}
#endif

}  // namespace

void add_report_operations(Operations& operations) {
  operations.insert({{"stats", statistics},
                     {"snapshot", snapshot},
                     {"trace", history},
                     {"settings", settings},
                     {"get_fraction", fraction},
                     {"is_enabled", is_enabled},
                     {"base", base},
                     {"share", share},
                     {"largest", largest},
                     {"expandable_sizes", expandable_sizes}});
#if SINCE(12)
  operations.insert({{"context_of", context_of}});
#endif
#if SINCE(14)
  operations.insert({{"supports_metadata", supports_metadata}});
#endif
#if SINCE(15)
  operations.insert({{"reserve_class_of", reserve_class_of},
                     {"reserve_of", reserve_of},
                     {"expandable_totals", expandable_totals}});
#endif
}

}  // namespace oracle
