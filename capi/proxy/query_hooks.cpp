// SPDX-License-Identifier: MIT OR Apache-2.0
// What a program asks about its memory. To the driver a block that is served is a part of a segment.
#include "hooks.h"
#include "real_driver.h"
#include "server.h"

using namespace cachalot::proxy;
using cachalot::BlockInfo;

namespace {

constexpr int kRangeStart = 11;  // CU_POINTER_ATTRIBUTE_RANGE_START_ADDR
constexpr int kRangeSize = 12;

std::optional<BlockInfo> served_block(DeviceAddress address) {
  Server* const server = Server::get();
  return server != nullptr ? server->find_around(address) : std::nullopt;
}

void adjust(void* out, int attribute, const BlockInfo& block) {
  if (out == nullptr) return;
  if (attribute == kRangeStart) *static_cast<DeviceAddress*>(out) = block.address;
  if (attribute == kRangeSize) *static_cast<size_t*>(out) = block.requested;
}

}  // namespace

Result cuMemGetInfo_v2(size_t* available, size_t* total) {
  const Result result = call_real(real().cuMemGetInfo_v2, available, total);
  Server* const server = Server::get();
  if (result == 0 && server != nullptr) server->adjust_memory_info(available, total);
  return result;
}

Result cuMemGetAddressRange_v2(DeviceAddress* base, size_t* size, DeviceAddress address) {
  const Result result = call_real(real().cuMemGetAddressRange_v2, base, size, address);
  if (result != 0) return result;
  if (const auto block = served_block(address)) {
    adjust(base, kRangeStart, *block);
    adjust(size, kRangeSize, *block);
  }
  return result;
}

Result cuPointerGetAttribute(void* out, int attribute, DeviceAddress address) {
  const Result result = call_real(real().cuPointerGetAttribute, out, attribute, address);
  const bool is_of_range = attribute == kRangeStart || attribute == kRangeSize;
  if (result != 0 || !is_of_range) return result;
  if (const auto block = served_block(address)) adjust(out, attribute, *block);
  return result;
}

Result cuPointerGetAttributes(unsigned count, int* attributes, void** out, DeviceAddress address) {
  const Result result = call_real(real().cuPointerGetAttributes, count, attributes, out, address);
  if (result != 0) return result;
  if (const auto block = served_block(address))
    for (unsigned i = 0; i < count; i++) adjust(out[i], attributes[i], *block);
  return result;
}

Result cuCtxEnablePeerAccess(Context of, unsigned flags) {
  const Result result = call_real(real().cuCtxEnablePeerAccess, of, flags);
  Server* const server = Server::get();
  if (result == 0 && server != nullptr) server->peer_enabled(of);
  return result;
}
