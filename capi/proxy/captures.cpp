// SPDX-License-Identifier: MIT OR Apache-2.0
#include "captures.h"

#include "of_process.h"

namespace cachalot::proxy {

Captures& Captures::get() {
  static OfProcess<Captures> captures;
  return *captures.get([](Captures*) { return new Captures; });
}

}  // namespace cachalot::proxy
