// SPDX-License-Identifier: MIT OR Apache-2.0
// Calls of the driver that the recorder sees before and after, and for which the server makes room.
#pragma once

#include <optional>

#include "clock.h"
#include "recorder.h"
#include "server.h"

namespace cachalot::proxy {

// The number that stands for memory in a recording: an address, or a handle that is a pointer.
template <class Handle>
Address number_of(Handle handle) {
  return reinterpret_cast<Address>(handle);
}
inline Address number_of(DeviceAddress address) { return address; }

template <class Call>
Result timed(Call call, CallTime* time) {
  time->begin = now_ns();
  const Result result = call();
  time->end = now_ns();
  return result;
}

// call: the driver's. tell: what the recorder is told behind it, of its result and time.
template <class Call, class Tell>
Result observe(Call call, Tell tell) {
  Recorder* const recorder = Recorder::get();
  if (recorder == nullptr) return call();
  recorder->obtaining();
  CallTime time{};
  const Result result = timed(call, &time);
  tell(*recorder, result, time);
  return result;
}

// The same where the time is nothing that a recording has, and an error is no event.
template <class Tell>
Result tell_if_done(Result result, Tell tell) {
  Recorder* const recorder = Recorder::get();
  if (result == 0 && recorder != nullptr) tell(*recorder);
  return result;
}

// call: the driver's, which obtains memory of the device; nothing: of that of the current context. What is cached makes
// room for it.
template <class Call>
Result with_room(Call call, std::optional<DeviceOrdinal> device = {}) {
  const Result result = call();
  if (result != kDriverOutOfMemory) return result;
  Server* const server = Server::get();
  return server != nullptr && server->make_room(device) ? call() : result;
}

// call: the driver's, for memory that cuMemFree or cuMemFreeAsync gives back.
template <class Call>
Result pass_on(const DeviceAddress* out, Call call) {
  const Result result = call();
  Server* const server = Server::get();
  if (result == 0 && server != nullptr) server->passed_on(*out);
  return result;
}

// ask: the server, which gives nothing where the driver is to be asked. call: the driver's.
template <class Ask, class Call>
Result serve_or(Ask ask, Call call) {
  Server* const server = Server::get();
  const std::optional<Result> served = server != nullptr ? ask(*server) : std::nullopt;
  return served ? *served : call();
}

// call: the driver's, which stores what it gives at `out`.
template <class Handle, class Call>
Result obtain(const Request& request, Handle* out, Call call) {
  return observe([&] { return with_room(call); },
                 [&](Recorder& recorder, Result result, const CallTime& time) {
                   if (result == 0)
                     recorder.obtained(request, number_of(*out), time);
                   else if (result == kDriverOutOfMemory)
                     recorder.refused(request, time);
                 });
}

template <class Handle, class Call>
Result give_back(Handle handle, const Return& how, Call call) {
  Recorder* const recorder = Recorder::get();
  if (recorder == nullptr) return call();
  const Address address = number_of(handle);
  const std::optional<Memory> memory = recorder->returning(address, how);
  if (!memory) return call();
  CallTime time{};
  int64_t wait_ns = -1;
  const Result result = timed(
      [&] {
        if (!how.stream) {
          const int64_t begin = now_ns();
          if (recorder->wait(*memory)) wait_ns = now_ns() - begin;
        }
        return call();
      },
      &time);
  time.wait_ns = wait_ns;
  recorder->returned(address, *memory, how, result, time);
  return result;
}

}  // namespace cachalot::proxy
