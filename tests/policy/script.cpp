// SPDX-License-Identifier: MIT OR Apache-2.0
#include "script.h"

#include "base/text.h"

namespace cachalot::policy_model {

Script::Script(uint64_t seed, Fault fault, bool tells)
    : Script(seed, setup_of(seed), fault, tells) {}

Script::Script(uint64_t seed, const Setup& setup, Fault fault, bool tells)
    : BothSides(
          {.name = format("seed %llu: ", static_cast<unsigned long long>(seed)) + setup.text(),
           .capacity = setup.capacity,
           .library = setup.library,
           .model = setup.model(fault),
           .looks_inside_every = 4,
           .tells = tells}),
      random_(seed),
      setup_(setup) {
  for (int i = 0; i < 4; i++)
    favourites_.push_back(random_.of_any_magnitude(1, setup_.largest_request));
}

std::string Script::run(uint64_t operations) {
  while (tally().operations < operations && found().empty()) take_step();
  if (found().empty() && captured_into_ != PoolId{}) end_capture();
  if (found().empty()) free_all();
  if (found().empty()) compare_state();
  library_.allocator().free_all();  // behind a difference, which ends the comparison
  return found();
}

}  // namespace cachalot::policy_model
