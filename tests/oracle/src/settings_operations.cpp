// SPDX-License-Identifier: MIT OR Apache-2.0
// The words that change how the allocator works: options, limits, caching, recording.
#include <c10/core/AllocatorConfig.h>
#include <c10/cuda/CUDACachingAllocator.h>

#include <cstdlib>

#include "context.h"
#include "operations.h"
#include "release.h"
#include "run.h"

namespace oracle {
namespace {

void set_options(Arguments& arguments) {
  c10::CachingAllocator::setAllocatorSettings(arguments.rest());
}

void set_fraction(Arguments& arguments) {
  // strtod, unlike a stream, also reads "nan".
  cca::setMemoryFraction(strtod(arguments.word().c_str(), nullptr), 0);
}

void enable_caching(Arguments& arguments) { cca::enable(arguments.number<int>() != 0); }

void set_metadata(Arguments& arguments) { cca::setUserMetadata(arguments.rest()); }

void reset_peak(Arguments&) { cca::get()->resetPeakStats(0); }

void reset_accumulated(Arguments&) { cca::get()->resetAccumulatedStats(0); }

cca::RecordContext context_level(const std::string& word) {
  if (word == "state") return cca::RecordContext::STATE;
  if (word == "alloc") return cca::RecordContext::ALLOC;
  if (word == "all") return cca::RecordContext::ALL;
  return cca::RecordContext::NEVER;
}

void record_history(Arguments& arguments) {
  const std::string level = arguments.word();
  const size_t entries = arguments.next_number<size_t>().value_or(1);
  bool clear = false;
  std::vector<std::string> skipped;
  for (const std::string& word : arguments.words()) {
    if (word == "clear") {
      clear = true;
    } else {
      skipped.push_back(word);
    }
  }
  cca::recordHistory(level != "off", capture_context, entries, context_level(level), clear,
                     skipped);
}

#if SINCE(15)
cudaStream_t stream_handle(uint64_t value) { return reinterpret_cast<cudaStream_t>(value); }

void set_reserve_class(Arguments& arguments) {
  const cudaStream_t stream = stream_handle(arguments.hex());
  cca::setExpandableSegmentReserveClassForStream(stream, arguments.rest());
}

void set_default_reserve(Arguments& arguments) {
  const std::string name = arguments.word();
  cca::setDefaultExpandableSegmentReserveFractionForClass(name, arguments.number<double>());
}
#endif

}  // namespace

void add_settings_operations(Operations& operations) {
  operations.insert({{"set", set_options},
                     {"fraction", set_fraction},
                     {"enable", enable_caching},
                     {"metadata", set_metadata},
                     {"reset_peak", reset_peak},
                     {"reset_accumulated", reset_accumulated},
                     {"history", record_history}});
#if SINCE(15)
  operations.insert(
      {{"reserve_class", set_reserve_class}, {"default_reserve", set_default_reserve}});
#endif
}

}  // namespace oracle
