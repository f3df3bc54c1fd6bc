// SPDX-License-Identifier: MIT OR Apache-2.0
// Functions that a program asks the driver for by name and version. The driver answers, and where its answer is
// the address of a function that the proxy has, the proxy's takes its place. So versions and per-thread forms
// need no rules here.
#include <algorithm>
#include <array>

#include "hooks.h"
#include "plain_lookup.h"
#include "real_driver.h"

namespace cachalot::proxy {
namespace {

struct Replacement {
  const void* real;
  void* hook;
};

template <class Function>
Replacement replace(Function* real, Function* hook) {
  return {reinterpret_cast<const void*>(real), reinterpret_cast<void*>(hook)};
}

#define CACHALOT_ONE(...) +1
using Replacements = std::array<Replacement, 0 CACHALOT_HOOKED(CACHALOT_ONE)>;
#undef CACHALOT_ONE

Replacements sorted_replacements() {
  // clang-format off
#define CACHALOT_REPLACE(name, ...) replace(real().name, &::name),
  // clang-format on
  Replacements all{CACHALOT_HOOKED(CACHALOT_REPLACE)};
#undef CACHALOT_REPLACE
  std::sort(all.begin(), all.end(),
            [](const Replacement& a, const Replacement& b) { return a.real < b.real; });
  return all;
}

void replace_answer(void** function) {
  static const Replacements all = sorted_replacements();
  if (function == nullptr || *function == nullptr || PlainLookup::is_on()) return;
  const auto found =
      std::lower_bound(all.begin(), all.end(), *function,
                       [](const Replacement& row, const void* real) { return row.real < real; });
  if (found != all.end() && found->real == *function) *function = found->hook;
}

}  // namespace
}  // namespace cachalot::proxy

using namespace cachalot::proxy;

Result cuGetProcAddress(const char* name, void** function, int version, uint64_t flags) {
  const Result result = call_real(real().cuGetProcAddress, name, function, version, flags);
  if (result == 0) replace_answer(function);
  return result;
}

Result cuGetProcAddress_v2(const char* name, void** function, int version, uint64_t flags,
                           int* status) {
  const Result result =
      call_real(real().cuGetProcAddress_v2, name, function, version, flags, status);
  if (result == 0) replace_answer(function);
  return result;
}
