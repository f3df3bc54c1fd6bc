// SPDX-License-Identifier: MIT OR Apache-2.0
#include "device/driver_name.h"

#include <charconv>
#include <optional>
#include <string>

#include "base/error.h"
#include "base/text.h"
#include "base/units.h"

namespace cachalot {
namespace {

std::optional<uint64_t> unit_bytes(std::string_view unit) {
  if (unit.empty() || unit == "B") return 1;
  if (unit == "KiB") return KiB;
  if (unit == "MiB") return MiB;
  if (unit == "GiB") return GiB;
  if (unit == "TiB") return KiB * GiB;
  return {};
}

// Nothing for a text that is no capacity, a capacity of 0 or one beyond 64 bits.
std::optional<uint64_t> parse_capacity(std::string_view text) {
  uint64_t number = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (problem != std::errc() || number == 0) return {};
  const auto unit = unit_bytes(text.substr(static_cast<size_t>(end - text.data())));
  if (!unit || number > UINT64_MAX / *unit) return {};
  return number * *unit;
}

DriverKind parse_kind(std::string_view kind, std::string_view text) {
  if (kind == "cuda") return DriverKind::kCuda;
  if (kind == "host") return DriverKind::kHost;
  if (kind == "sim") return DriverKind::kSim;
  throw_invalid_argument(
      format("\"%s\" is no driver: cuda[:CAPACITY], host[:CAPACITY] or sim[:CAPACITY]",
             std::string(text).c_str()));
}

}  // namespace

DriverName parse_driver_name(std::string_view text) {
  const size_t colon = text.find(':');
  const std::string_view kind = text.substr(0, colon);
  DriverName name{parse_kind(kind, text)};
  if (colon == std::string_view::npos) return name;
  const auto capacity = parse_capacity(text.substr(colon + 1));
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
