// SPDX-License-Identifier: MIT OR Apache-2.0
#include "operations.h"

#include <cstdio>

#include "fakecuda.h"
#include "output.h"
#include "run.h"
#include "verbosity.h"

namespace oracle {
namespace {

// The option string and the environment have been read before: main.cpp.
void ignore(Arguments&) {}

void device(Arguments& arguments) {
  run.total = arguments.number<size_t>();
  run.seed = arguments.number<uint64_t>();
  run.devices = arguments.next_number<int>().value_or(1);
}

void log(Arguments& arguments) {
  for (const std::string& word : arguments.words()) {
    verbosity.add(word);
    if (word == "flush") setvbuf(out, nullptr, _IOLBF, 0);
  }
}

void fabric(Arguments& arguments) { fakecuda::fabric(arguments.number<int>()); }

void sharing(Arguments& arguments) { fakecuda::set_sharing(arguments.number<int>() != 0); }

void fabric_device(Arguments& arguments) { fakecuda::set_fabric_device(arguments.number<int>()); }

}  // namespace

const Operations& setup_operations() {
  static const Operations table{{"config", ignore},  {"env", ignore},
                                {"device", device},  {"log", log},
                                {"fabric", fabric},  {"fabric_device", fabric_device},
                                {"sharing", sharing}};
  return table;
}

const Operations& operations() {
  static const Operations table = [] {
    Operations all;
    add_allocation_operations(all);
    add_device_operations(all);
    add_pool_operations(all);
    add_settings_operations(all);
    add_report_operations(all);
#ifdef ORACLE_PINNED
    add_pinned_operations(all);
#endif
    return all;
  }();
  return table;
}

}  // namespace oracle
