// SPDX-License-Identifier: MIT OR Apache-2.0
// Contexts: when the program waits for one, and when one ends.
#include "hooks.h"
#include "real_driver.h"
#include "recorded_call.h"

using namespace cachalot::proxy;
using cachalot::Action;

namespace {

Result waited(Result result) {
  return tell_if_done(result, [](Recorder& recorder) { recorder.waited(Action::kContextWait, 0); });
}

Result created(Result result) {
  Server* const server = Server::get();
  if (result == 0 && server != nullptr) server->context_created();
  return tell_if_done(result, [](Recorder& recorder) { recorder.context_created(); });
}

// Another thread may have the addresses again as soon as the driver returns.
Result destroy(cuCtxDestroy_form* call, Context context) {
  if (Recorder* const recorder = Recorder::get()) recorder->destroying(context);
  if (Server* const server = Server::get()) server->destroying(context);
  return call_real(call, context);
}

Result look_after_primary(Result result, DeviceOrdinal device, bool is_reset) {
  if (Recorder* const recorder = Recorder::get()) recorder->look_after_primary(device, is_reset);
  if (Server* const server = Server::get()) server->look_after_primary(device, is_reset);
  return result;
}

template <class Call>
Result release_primary(Call* call, DeviceOrdinal device) {
  return look_after_primary(call_real(call, device), device, false);
}

template <class Call>
Result reset_primary(Call* call, DeviceOrdinal device) {
  if (Server* const server = Server::get()) server->resetting(device);
  const Result result = call_real(call, device);
  return look_after_primary(result, device, result == 0);
}

}  // namespace

Result cuCtxSynchronize() { return waited(call_real(real().cuCtxSynchronize)); }
// A recording names the context that is current.
Result cuCtxSynchronize_v2(Context context) {
  const Result result = call_real(real().cuCtxSynchronize_v2, context);
  Context current = nullptr;
  const bool is_current = call_real(real().cuCtxGetCurrent, &current) == 0 && current == context;
  return is_current ? waited(result) : result;
}

Result cuCtxCreate(Context* out, unsigned flags, DeviceOrdinal device) {
  return created(call_real(real().cuCtxCreate, out, flags, device));
}
Result cuCtxCreate_v2(Context* out, unsigned flags, DeviceOrdinal device) {
  return created(call_real(real().cuCtxCreate_v2, out, flags, device));
}
Result cuCtxCreate_v3(Context* out, ExecutionAffinity* affinities, int count, unsigned flags,
                      DeviceOrdinal device) {
  return created(call_real(real().cuCtxCreate_v3, out, affinities, count, flags, device));
}
Result cuCtxCreate_v4(Context* out, ContextParameters* parameters, unsigned flags,
                      DeviceOrdinal device) {
  return created(call_real(real().cuCtxCreate_v4, out, parameters, flags, device));
}

// The driver gives the same handle each time.
Result cuCtxFromGreenCtx(Context* out, GreenContext context) {
  const Result result = call_real(real().cuCtxFromGreenCtx, out, context);
  if (result != 0) return result;
  if (Recorder* const recorder = Recorder::get()) recorder->green_context_met(*out);
  if (Server* const server = Server::get()) server->green_context_met(*out);
  return result;
}

// It holds the primary context of its device, and may be the last to do so.
Result cuGreenCtxDestroy(GreenContext green) {
  Recorder* const recorder = Recorder::get();
  Server* const server = Server::get();
  Context context = nullptr;
  if (call_real(real().cuCtxFromGreenCtx, &context, green) == 0) {
    if (recorder != nullptr) recorder->destroying_green_context(context);
    if (server != nullptr) server->destroying_green_context(context);
  }
  const Result result = call_real(real().cuGreenCtxDestroy, green);
  if (recorder != nullptr) recorder->look_after_primaries();
  if (server != nullptr) server->look_after_primaries();
  return result;
}

Result cuCtxDestroy(Context context) { return destroy(real().cuCtxDestroy, context); }
Result cuCtxDestroy_v2(Context context) { return destroy(real().cuCtxDestroy_v2, context); }

Result cuDevicePrimaryCtxRelease(DeviceOrdinal device) {
  return release_primary(real().cuDevicePrimaryCtxRelease, device);
}
Result cuDevicePrimaryCtxRelease_v2(DeviceOrdinal device) {
  return release_primary(real().cuDevicePrimaryCtxRelease_v2, device);
}
Result cuDevicePrimaryCtxReset(DeviceOrdinal device) {
  return reset_primary(real().cuDevicePrimaryCtxReset, device);
}
Result cuDevicePrimaryCtxReset_v2(DeviceOrdinal device) {
  return reset_primary(real().cuDevicePrimaryCtxReset_v2, device);
}
