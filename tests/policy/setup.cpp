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
  return format(
      "release %s, %llu MiB, pages of %llu MiB%s, borrows %s, %llu %sstreams, divisions "
      "%llu%s%s%s%s",
      release_name(library.release), static_cast<unsigned long long>(capacity / MiB),
      static_cast<unsigned long long>(library.serving.page_bytes / MiB),
      library.serving.thrift ? ", thrift" : "",
      kBorrow[static_cast<size_t>(library.serving.borrow)],
      static_cast<unsigned long long>(streams),
      library.serving.announces_streams ? "announced " : "",
      static_cast<unsigned long long>(library.divisions), has_failures ? ", failures" : "",
      has_captures ? ", captures" : "", has_pools ? ", pools" : "",
      library.checks_every_call ? ", checked" : "");
}

}  // namespace cachalot::policy_model
