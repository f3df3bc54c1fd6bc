// SPDX-License-Identifier: MIT OR Apache-2.0
#include "contexts.h"

#include <algorithm>
#include <array>

#include "real_driver.h"

namespace cachalot::proxy {
namespace {

// A driver that gives contexts no numbers knows them by their handles.
uint64_t id_of(Context handle) {
  unsigned long long id = 0;
  if (call_real(real().cuCtxGetId, handle, &id) == 0) return id;
  return reinterpret_cast<uint64_t>(handle);
}

bool is_primary_active(DeviceOrdinal device) {
  unsigned flags = 0;
  int is_active = 0;
  return call_real(real().cuDevicePrimaryCtxGetState, device, &flags, &is_active) == 0 &&
         is_active != 0;
}

// Null if there is none: to ask the driver for it would make it.
Context primary_of(DeviceOrdinal device) {
  Context primary = nullptr;
  if (!is_primary_active(device) || real().cuDevicePrimaryCtxRetain(&primary, device) != 0)
    return nullptr;
  const auto release = real().cuDevicePrimaryCtxRelease_v2 != nullptr
                           ? real().cuDevicePrimaryCtxRelease_v2
                           : real().cuDevicePrimaryCtxRelease;
  release(device);
  return primary;
}

// What this thread found last.
struct Found {
  const DriverContexts* contexts = nullptr;
  Context handle = nullptr;
  uint64_t id = 0;
  DriverContext* context = nullptr;
};
thread_local std::array<Found, 2> found_by_owner;

}  // namespace

DriverContext* DriverContexts::current() {
  Context handle = nullptr;
  if (call_real(real().cuCtxGetCurrent, &handle) != 0 || handle == nullptr) return nullptr;
  const uint64_t id = id_of(handle);
  Found& found_last = found_by_owner[static_cast<size_t>(owner_)];
  const bool is_last = found_last.contexts == this && found_last.handle == handle &&
                       found_last.id == id && found_last.context != nullptr &&
                       !found_last.context->has_ended;
  if (!is_last) found_last = {this, handle, id, find(handle, id)};
  return found_last.context;
}

bool DriverContexts::is_green_current() {
  Context handle = nullptr;
  if (call_real(real().cuCtxGetCurrent, &handle) != 0) return false;
  const std::lock_guard guard(mutex_);
  return green_.count(handle) != 0;
}

DriverContext* DriverContexts::find(Context handle, uint64_t id) {
  const std::lock_guard guard(mutex_);
  if (green_.count(handle) == 0) return find_live(handle, id);
  DeviceOrdinal device = 0;
  if (real().cuCtxGetDevice(&device) != 0) return nullptr;
  Context const primary = primary_of(device);
  return primary != nullptr ? find_live(primary, id_of(primary)) : nullptr;
}

// It, or a green context of its device, is current.
DriverContext* DriverContexts::find_live(Context handle, uint64_t id) {
  for (const auto& context : live_)
    if (context->handle == handle && context->id == id) return context.get();
  return add(handle, id, false);
}

void DriverContexts::green_met(Context handle) {
  const std::lock_guard guard(mutex_);
  green_.insert(handle);
}

// Before the driver gives the handle to another one.
void DriverContexts::destroying_green(Context handle) {
  const std::lock_guard guard(mutex_);
  green_.erase(handle);
}

void DriverContexts::created() {
  Context handle = nullptr;
  if (call_real(real().cuCtxGetCurrent, &handle) != 0 || handle == nullptr) return;
  const std::lock_guard guard(mutex_);
  green_.erase(handle);  // of one that is gone
  add(handle, id_of(handle), true);
}

DriverContext* DriverContexts::add(Context handle, uint64_t id, bool is_created) {
  auto context = std::make_unique<DriverContext>();
  context->handle = handle;
  context->id = id;
  if (real().cuCtxGetDevice(&context->device) != 0) return nullptr;
  if (is_created)
    context->kind = ContextKind::kCreated;
  else if (primary_of(context->device) == handle)
    context->kind = ContextKind::kPrimary;
  // Whatever had its handle, or its place, is no more.
  end_where([&](const DriverContext& old) {
    return old.handle == handle ||
           (old.is_primary() && context->is_primary() && old.device == context->device);
  });
  live_.push_back(std::move(context));
  observer_->context_met(live_.back().get());
  return live_.back().get();
}

void DriverContexts::look_after_primary(DeviceOrdinal device, bool is_reset) {
  const std::lock_guard guard(mutex_);
  if (!is_reset && is_primary_active(device)) return;
  end_where([&](const DriverContext& old) { return old.is_primary() && old.device == device; });
}

void DriverContexts::look_after_primaries() {
  const std::lock_guard guard(mutex_);
  end_where(
      [](const DriverContext& old) { return old.is_primary() && !is_primary_active(old.device); });
}

void DriverContexts::destroyed(Context handle) {
  const std::lock_guard guard(mutex_);
  end_where([&](const DriverContext& old) { return old.handle == handle && !old.is_primary(); });
}

template <class Matches>
void DriverContexts::end_where(Matches matches) {
  for (auto at = live_.begin(); at != live_.end();) {
    if (!matches(**at)) {
      ++at;
      continue;
    }
    (*at)->has_ended = true;
    observer_->context_ended(at->get());
    ended_.push_back(std::move(*at));
    at = live_.erase(at);
  }
}

}  // namespace cachalot::proxy
