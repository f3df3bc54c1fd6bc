// SPDX-License-Identifier: MIT OR Apache-2.0
#include "device/device_cgroup.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <string_view>

namespace cachalot {
namespace {

// Programs write the domain with four digits or eight, and letters in either case: "1a:00.0" for "0000:1A:00.0".
std::string plain_bus_id(std::string_view id) {
  std::string plain(id.substr(std::min(id.find_first_not_of("0:"), id.size())));
  for (char& c : plain)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return plain;
}

// The line of version 2, "0::/user.slice/one"; "" without one. A path that leaves the namespace is that of its root.
std::string path_of_process(const std::string& membership) {
  constexpr std::string_view kVersion2 = "0::";
  std::ifstream file(membership);
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(kVersion2)) continue;
    const std::string path = line.substr(kVersion2.size());
    return path.find("/..") == std::string::npos ? path : "/";
  }
  return "";
}

// "drm/0000:1a:00.0/vram0" of the kernel's own drivers, "nvidia/0000:1a:00.0/vidmem" of NVIDIA's.
bool is_memory_of(std::string_view region, std::string_view device) {
  const size_t kind = region.rfind('/');
  const size_t id = region.find('/');
  if (id >= kind || kind == std::string_view::npos) return false;
  const std::string_view name = region.substr(kind + 1);
  if (!name.starts_with("vram") && !name.starts_with("vidmem")) return false;
  return plain_bus_id(region.substr(id + 1, kind - id - 1)) == device;
}

// Nothing for "max".
std::optional<uint64_t> limit_of(std::string_view text) {
  uint64_t bytes = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), bytes);
  if (error != std::errc() || end != text.data() + text.size()) return {};
  return bytes;
}

}  // namespace

DeviceCgroup::DeviceCgroup(const std::string& pci_bus_id, const CgroupPlace& place)
    : device_(plain_bus_id(pci_bus_id)) {
  std::string path = path_of_process(place.membership);
  if (path.empty()) return;
  while (path.size() > 1) {
    folders_.push_back(place.root + path);
    path.resize(path.rfind('/'));
  }
  folders_.push_back(place.root);
}

// Of all regions of the device; nothing where one has none.
std::optional<uint64_t> DeviceCgroup::bytes_in(const std::string& file) const {
  std::ifstream lines(file);
  std::optional<uint64_t> sum;
  for (std::string region, value; lines >> region >> value;) {
    if (!is_memory_of(region, device_)) continue;
    const auto bytes = limit_of(value);
    if (!bytes) return {};
    sum = sum.value_or(0) + *bytes;
  }
  return sum;
}

std::optional<DeviceCgroup::Memory> DeviceCgroup::memory() const {
  std::optional<Memory> least;
  for (const std::string& folder : folders_) {
    const auto limit = bytes_in(folder + "/dmem.max");
    if (!limit) continue;
    const uint64_t used = bytes_in(folder + "/dmem.current").value_or(0);
    const uint64_t left = *limit - std::min(*limit, used);
    if (!least) least = Memory{*limit, left};
    least = Memory{std::min(least->limit, *limit), std::min(least->left, left)};
  }
  return least;
}

}  // namespace cachalot
