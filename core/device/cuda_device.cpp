// SPDX-License-Identifier: MIT OR Apache-2.0
#include "device/cuda_device.h"

#include <algorithm>
#include <string>

#include "base/error.h"
#include "base/text.h"

namespace cachalot::cuda {
namespace {

// A control group is nearly full when less than this part of its limit is left.
constexpr uint64_t kLeastPart = 16;

void require(const Library& library, int index, Result code) {
  if (code != 0)
    throw Error(Status::kDriverUnavailable,
                format("CUDA device %d: %s (%d)", index, driver_text(library, code), code));
}

DeviceOrdinal ordinal_of(const Library& library, int index) {
  DeviceOrdinal ordinal = 0;
  require(library, index, library.cuDeviceGet(&ordinal, index));
  return ordinal;
}

// As tools write it: "01234567-89ab-cdef-0123-456789abcdef". Empty: the driver does not tell.
template <class Functions>
std::string uuid_of(const std::optional<Functions>& functions, DeviceOrdinal ordinal) {
  Uuid uuid{};
  if (!functions || functions->cuDeviceGetUuid(&uuid, ordinal) != 0) return {};
  std::string text;
  for (size_t i = 0; i < sizeof uuid.bytes; i++) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += format("%02x", static_cast<unsigned>(static_cast<unsigned char>(uuid.bytes[i])));
  }
  return text;
}

// The two forms of the question differ only for an instance of a divided GPU.
DeviceIdentity identity_of(const Library& library, DeviceOrdinal ordinal) {
  DeviceIdentity identity;
  char bus[32] = "";
  if (library.cuDeviceGetPCIBusId(bus, sizeof bus, ordinal) == 0) identity.pci_bus_id = bus;
  const std::string gpu = uuid_of(library.gpu_uuid, ordinal);
  if (gpu.empty()) return identity;
  const std::string instance = uuid_of(library.instance_uuid, ordinal);
  identity.gpu_uuid = identity.uuid = "GPU-" + gpu;
  if (!instance.empty() && instance != gpu) identity.uuid = "MIG-" + instance;
  return identity;
}

bool has_attribute(const Library& library, DeviceOrdinal ordinal, int attribute) {
  int value = 0;
  return library.cuDeviceGetAttribute(&value, attribute, ordinal) == 0 && value != 0;
}

}  // namespace

Device::Device(const Library& library, int index, uint64_t capacity,
               const std::optional<CgroupPlace>& cgroups)
    : ordinal(ordinal_of(library, index)),
      identity(identity_of(library, ordinal)),
      supports_rdma(has_attribute(library, ordinal, kRdmaWithVirtualMemorySupported)),
      budget(capacity),
      library_(library) {
  require(library, index, library.cuDeviceTotalMem(&total_memory_, ordinal));
  if (cgroups) group_.emplace(identity.pci_bus_id, *cgroups);
}

bool Device::has(int attribute) const { return has_attribute(library_, ordinal, attribute); }

uint64_t Device::total_memory() const {
  const auto allowed = group_memory();
  return limited_total(total_memory_, allowed);
}

void Device::limit(uint64_t* free_bytes, uint64_t* total_bytes) {
  const auto allowed = group_memory();
  if (budget.has_limit()) *free_bytes = std::min(*free_bytes, budget.left());
  if (allowed) *free_bytes = std::min(*free_bytes, allowed->left);
  *total_bytes = limited_total(*total_bytes, allowed);
}

uint64_t Device::limited_total(uint64_t total,
                               const std::optional<DeviceCgroup::Memory>& allowed) const {
  if (budget.has_limit()) total = std::min(total, budget.limit());
  return allowed ? std::min(total, allowed->limit) : total;
}

std::optional<DeviceCgroup::Memory> Device::group_memory() const {
  return group_ ? group_->memory() : std::nullopt;
}

bool Device::is_nearly_full() const {
  const auto allowed = group_memory();
  return allowed && allowed->left < allowed->limit / kLeastPart;
}

}  // namespace cachalot::cuda
