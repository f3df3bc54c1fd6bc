// SPDX-License-Identifier: MIT OR Apache-2.0
#include "setup.h"

#include "base/text.h"

namespace cachalot::policy_model {

// Devices are small, so that they are full most of the time and the walks of the model are short.
Setup setup_of(uint64_t seed) {
  Random random(seed * 2 + 1);
  Setup setup{};
  LibraryOptions& library = setup.library;
  const uint64_t page = 2 * MiB << (random.one_in(2) ? 0 : random.below(4));
  library.serving = {.is_on = true, .thrift = random.one_in(3), .page_bytes = page};
  if (random.one_in(2)) library.serving.borrow = static_cast<Borrow>(random.below(3));
  library.serving.announces_streams = random.one_in(2);
  library.divisions = random.one_in(4) ? uint64_t{2} << random.below(3) : 0;
  library.checks_every_call = random.one_in(16);
  library.release = random.one_in(4) ? Release::k2_11 : Release::k2_15;
  setup.capacity = random.of_any_magnitude(4, 64) * page;
  if (random.one_in(4)) setup.capacity += 2 * MiB * random.below(4);
  setup.streams = random.between(1, 8);
  setup.most_live = random.of_any_magnitude(2, 40);
  setup.largest_request = random.of_any_magnitude(64 * KiB, setup.capacity / 2);
  setup.sizes = static_cast<Sizes>(random.below(4));
  setup.has_failures = random.one_in(2);
  setup.has_captures = random.one_in(4);
  setup.has_pools = setup.has_captures || random.one_in(4);
  setup.has_pins = random.one_in(3);
  setup.has_ends = random.one_in(3);
  library.tries_hits = random.one_in(2);
  if (random.one_in(4)) library.attribution = static_cast<Attribution>(random.below(4));
  return setup;
}

ModelOptions Setup::model(Fault fault) const {
  return {.page_size = library.serving.page_bytes,
          .thrift = library.serving.thrift,
          .borrow = library.serving.borrow,
          .announces_streams = library.serving.announces_streams,
          .divisions = library.divisions,
          .is_2_11 = library.release == Release::k2_11,
          .fault = fault};
}

std::string Setup::text() const {
  static constexpr const char* kBorrow[] = {"first", "at the limit", "never"};
  static constexpr const char* kAttribution[] = {"", ", labels", ", tenants", ", history"};
  const auto wide = [](uint64_t n) { return static_cast<unsigned long long>(n); };
  const ServingOptions& serving = library.serving;
  std::string text =
      format("release %s, %llu MiB, pages of %llu MiB, borrows %s, %llu streams, divisions %llu%s",
             release_name(library.release), wide(capacity / MiB), wide(serving.page_bytes / MiB),
             kBorrow[static_cast<size_t>(serving.borrow)], wide(streams), wide(library.divisions),
             kAttribution[static_cast<size_t>(library.attribution)]);
  const std::pair<bool, const char*> others[] = {{serving.thrift, "thrift"},
                                                 {serving.announces_streams, "announced streams"},
                                                 {has_failures, "failures"},
                                                 {has_captures, "captures"},
                                                 {has_pools, "pools"},
                                                 {has_pins, "pins"},
                                                 {has_ends, "streams that end"},
                                                 {library.tries_hits, "hits"},
                                                 {library.checks_every_call, "checked"}};
  for (const auto& [is_so, name] : others)
    if (is_so) text += std::string(", ") + name;
  return text;
}

}  // namespace cachalot::policy_model
