// SPDX-License-Identifier: MIT OR Apache-2.0
#include "device/driver_name.h"

#include <string>

#include "base/error.h"
#include "base/text.h"

namespace cachalot {
namespace {

DriverKind parse_kind(std::string_view kind, std::string_view text) {
  if (kind == "cuda") return DriverKind::kCuda;
  if (kind == "host") return DriverKind::kHost;
  if (kind == "host-shared") return DriverKind::kHostShared;
  if (kind == "sim") return DriverKind::kSim;
  throw_invalid_argument(
      format("\"%s\" is no driver: cuda[:CAPACITY], cuda:cgroup, host[:CAPACITY], "
             "host-shared[:CAPACITY] or "
             "sim[:CAPACITY]",
             std::string(text).c_str()));
}

}  // namespace

DriverName parse_driver_name(std::string_view text) {
  const size_t colon = text.find(':');
  const std::string_view kind = text.substr(0, colon);
  DriverName name{parse_kind(kind, text)};
  if (colon == std::string_view::npos) return name;
  if (text == "cuda:cgroup") {
    name.has_group_limits = true;
    return name;
  }
  const auto capacity = parse_bytes(text.substr(colon + 1));
  if (!capacity) {
    throw_invalid_argument(
        format("driver \"%s\": a capacity is a number above 0 with B, KiB, MiB, "
               "GiB or TiB, for example 80GiB",
               std::string(text).c_str()));
  }
  name.capacity = *capacity;
  return name;
}

}  // namespace cachalot
