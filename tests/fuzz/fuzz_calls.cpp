// SPDX-License-Identifier: MIT OR Apache-2.0
// Sequences of calls: the bytes are the choices of a world (tests/simulation/world.h), with the
// auditor behind every call or every few steps.
#include "check.h"
#include "world.h"

namespace cachalot_test {
namespace {

const char* const kConfigs[] = {
    "",
    "expandable_segments:True",
    "max_split_size_mb:24,max_non_split_rounding_mb:22",
    "graph_capture_record_stream_reuse:True",
    "release_lock_on_cudamalloc:True",
    "garbage_collection_threshold:0.5,per_process_memory_fraction:0.5",
    "expandable_segments:True,graph_capture_record_stream_reuse:True,max_split_size_mb:40",
    "backend:cudaMallocAsync",
};

WorldSetup setup_of(Choices* choices) {
  WorldSetup setup;
  const uint64_t flags = choices->below(256);
  setup.release = flags & 1 ? CACHALOT_RELEASE_2_11 : CACHALOT_RELEASE_2_15;
  setup.is_sim = (flags & 2) != 0;
  setup.tracks_labels = (flags & 4) != 0;
  setup.refuses_returns = (flags & 8) != 0;
  setup.config = kConfigs[flags >> 4 & 7];
  const uint64_t more = choices->below(256);
  setup.mend = static_cast<uint32_t>(more & 127);
  // The byte has no bit left for this flag: it goes with one that has nothing to do with it.
  if (setup.mend & CACHALOT_MEND_FALLBACK_ERRORS) setup.mend |= CACHALOT_MEND_SPLIT_LIMIT;
  setup.device_count = 1 + static_cast<int32_t>(flags >> 7);
  setup.capacity = uint64_t{128} << 20;
  // The auditor's walk takes most of the time, and finds what broke a few steps before too.
  setup.checks_every_call = (more & 128) != 0;
  setup.steps_between_audits = 8;
  return setup;
}

}  // namespace

void report_defect(const std::string& what) { fail("the world", what); }

}  // namespace cachalot_test

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace cachalot_test;
  Choices choices(data, size);
  Tally tally;
  World world(setup_of(&choices), &choices, &tally);
  world.run(UINT64_MAX);
  world.end();
  return 0;
}
