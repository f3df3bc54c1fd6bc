// SPDX-License-Identifier: MIT OR Apache-2.0
// Memory of the device in the order of a stream, and of the program's own pools.
#include "captures.h"
#include "hooks.h"
#include "real_driver.h"
#include "recorded_call.h"
#include "streams.h"

namespace cachalot::proxy {
namespace {

using enum DefaultStream;

bool is_under_capture(StreamHandle stream, DefaultStream default_stream) {
  return Captures::get().any() && is_captured(stream, default_stream);
}

// A request on a captured stream is a node of the graph, which has the memory while it runs.
Request request_of(char entry, size_t size, StreamHandle stream, DefaultStream default_stream) {
  const bool is_node = is_under_capture(stream, default_stream);
  return {.entry = is_node ? 'n' : entry,
          .size = size,
          .stream = stream_name(stream, default_stream),
          .is_cacheable = !is_node};
}

// pool: null: the device's own.
Result look_at(MemoryPool pool, Result result) {
  return tell_if_done(result, [&](Recorder& recorder) { recorder.look_at(pool); });
}

Result allocate(cuMemAllocAsync_form* call, DeviceAddress* out, size_t size, StreamHandle stream,
                DefaultStream default_stream) {
  const Request request = request_of('t', size, stream, default_stream);
  const Result result = obtain(request, out, [&] {
    const auto ask_driver = [&] {
      return pass_on(out, [&] { return call_real(call, out, size, stream); });
    };
    if (!request.is_cacheable) return ask_driver();
    return serve_or(
        [&](Server& server) {
          return server.allocate_on(size, driver_handle(stream, default_stream), out);
        },
        ask_driver);
  });
  return look_at(nullptr, result);
}

Result allocate_from_pool(cuMemAllocFromPoolAsync_form* call, DeviceAddress* out, size_t size,
                          MemoryPool pool, StreamHandle stream, DefaultStream default_stream) {
  if (Server* const server = Server::get()) server->not_served(NotServed::kPool);
  const Result result = obtain(request_of('p', size, stream, default_stream), out, [&] {
    return pass_on(out, [&] { return call_real(call, out, size, pool, stream); });
  });
  return look_at(pool, result);
}

Result free(cuMemFreeAsync_form* call, DeviceAddress address, StreamHandle stream,
            DefaultStream default_stream) {
  return give_back(address, {.entry = 't', .stream = stream_name(stream, default_stream)}, [&] {
    return serve_or(
        [&](Server& server) {
          return server.free_on(address, driver_handle(stream, default_stream));
        },
        [&] { return call_real(call, address, stream); });
  });
}

}  // namespace
}  // namespace cachalot::proxy

using namespace cachalot::proxy;

Result cuMemAllocAsync(DeviceAddress* out, size_t size, StreamHandle stream) {
  return allocate(real().cuMemAllocAsync, out, size, stream, kLegacy);
}
Result cuMemAllocAsync_ptsz(DeviceAddress* out, size_t size, StreamHandle stream) {
  return allocate(real().cuMemAllocAsync_ptsz, out, size, stream, kPerThread);
}

Result cuMemAllocFromPoolAsync(DeviceAddress* out, size_t size, MemoryPool pool,
                               StreamHandle stream) {
  return allocate_from_pool(real().cuMemAllocFromPoolAsync, out, size, pool, stream, kLegacy);
}
Result cuMemAllocFromPoolAsync_ptsz(DeviceAddress* out, size_t size, MemoryPool pool,
                                    StreamHandle stream) {
  return allocate_from_pool(real().cuMemAllocFromPoolAsync_ptsz, out, size, pool, stream,
                            kPerThread);
}

Result cuMemFreeAsync(DeviceAddress address, StreamHandle stream) {
  return free(real().cuMemFreeAsync, address, stream, kLegacy);
}
Result cuMemFreeAsync_ptsz(DeviceAddress address, StreamHandle stream) {
  return free(real().cuMemFreeAsync_ptsz, address, stream, kPerThread);
}

// The size is the other process's to know.
Result cuMemPoolImportPointer(DeviceAddress* out, MemoryPool pool, PoolPointerData* data) {
  return obtain({.entry = 'i', .size = 0, .is_cacheable = false}, out, [&] {
    return pass_on(out, [&] { return call_real(real().cuMemPoolImportPointer, out, pool, data); });
  });
}

Result cuMemPoolDestroy(MemoryPool pool) {
  return tell_if_done(call_real(real().cuMemPoolDestroy, pool),
                      [&](Recorder& recorder) { recorder.destroyed(pool); });
}

Result cuMemPoolExportPointer(PoolPointerData* data, DeviceAddress address) {
  return tell_if_done(call_real(real().cuMemPoolExportPointer, data, address),
                      [&](Recorder& recorder) { recorder.exported(address, 'p'); });
}
