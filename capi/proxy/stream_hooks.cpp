// SPDX-License-Identifier: MIT OR Apache-2.0
// Streams: which there are, which are captured, and when the program waits for them.
#include <new>

#include "captures.h"
#include "hooks.h"
#include "real_driver.h"
#include "recorded_call.h"
#include "server.h"
#include "streams.h"

namespace cachalot::proxy {
namespace {

using enum DefaultStream;

Result created(Result result, const StreamHandle* out) {
  return tell_if_done(result, [&](Recorder& recorder) {
    recorder.stream_event(Action::kStreamCreate, stream_name(*out, kLegacy));
  });
}

Result synchronize(cuStreamSynchronize_form* call, StreamHandle stream,
                   DefaultStream default_stream) {
  return tell_if_done(call_real(call, stream), [&](Recorder& recorder) {
    recorder.waited(Action::kStreamWait, stream_name(stream, default_stream));
  });
}

// call: says whether the stream is captured no longer.
template <class Call>
bool end_captured(Stream name, Call call) {
  return Captures::get().end(name, call, [] {
    if (Server* const server = Server::get()) server->capture_ended();
  });
}

// A stream that was captured is not any more.
Result destroy(cuStreamDestroy_form* call, StreamHandle stream) {
  Recorder* const recorder = Recorder::get();
  Server* const server = Server::get();
  if (recorder == nullptr && server == nullptr) return call_real(call, stream);
  const Stream name = stream_name(stream, kLegacy);
  if (recorder != nullptr) recorder->stream_event(Action::kStreamDestroy, name);
  if (server != nullptr) server->stream_ends(stream);
  Result result = 0;
  end_captured(name, [&] {
    result = call_real(call, stream);
    return result == 0;
  });
  return result;
}

template <class Call>
Result begin_capture(StreamHandle stream, DefaultStream default_stream, Call call) {
  Recorder* const recorder = Recorder::get();
  Server* const server = Server::get();
  if (recorder == nullptr && server == nullptr) return call();
  const Stream name = stream_name(stream, default_stream);
  Context context = nullptr;
  if (call_real(real().cuStreamGetCtx, stream, &context) != 0)
    call_real(real().cuCtxGetCurrent, &context);
  Result result = kDriverOutOfMemory;
  try {
    result = Captures::get().begin(name, context, call, [&] {
      if (server != nullptr) server->capture_begun();
    });
  } catch (const std::bad_alloc&) {  // before the driver is called
    return result;
  }
  if (result == 0 && recorder != nullptr) recorder->stream_event(Action::kCaptureBegin, name);
  return result;
}

// The driver ends a broken capture with an error too. It does not end a capture that another thread has begun.
template <class Call>
Result end_capture(StreamHandle stream, DefaultStream default_stream, Call call) {
  Recorder* const recorder = Recorder::get();
  if (recorder == nullptr && Server::get() == nullptr) return call();
  const Stream name = stream_name(stream, default_stream);
  Result result = 0;
  const bool has_ended = end_captured(name, [&] {
    result = call();
    return result == 0 || !is_captured(stream, default_stream);
  });
  if (has_ended && recorder != nullptr) recorder->stream_event(Action::kCaptureEnd, name);
  return result;
}

}  // namespace
}  // namespace cachalot::proxy

using namespace cachalot::proxy;

Result cuStreamCreate(StreamHandle* out, unsigned flags) {
  return created(call_real(real().cuStreamCreate, out, flags), out);
}
Result cuStreamCreateWithPriority(StreamHandle* out, unsigned flags, int priority) {
  return created(call_real(real().cuStreamCreateWithPriority, out, flags, priority), out);
}
Result cuGreenCtxStreamCreate(StreamHandle* out, GreenContext context, unsigned flags,
                              int priority) {
  return created(call_real(real().cuGreenCtxStreamCreate, out, context, flags, priority), out);
}

Result cuStreamDestroy(StreamHandle stream) { return destroy(real().cuStreamDestroy, stream); }
Result cuStreamDestroy_v2(StreamHandle stream) {
  return destroy(real().cuStreamDestroy_v2, stream);
}

Result cuStreamSynchronize(StreamHandle stream) {
  return synchronize(real().cuStreamSynchronize, stream, kLegacy);
}
Result cuStreamSynchronize_ptsz(StreamHandle stream) {
  return synchronize(real().cuStreamSynchronize_ptsz, stream, kPerThread);
}

Result cuStreamBeginCapture(StreamHandle stream) {
  return begin_capture(stream, kLegacy,
                       [&] { return call_real(real().cuStreamBeginCapture, stream); });
}
Result cuStreamBeginCapture_ptsz(StreamHandle stream) {
  return begin_capture(stream, kPerThread,
                       [&] { return call_real(real().cuStreamBeginCapture_ptsz, stream); });
}
Result cuStreamBeginCapture_v2(StreamHandle stream, int mode) {
  return begin_capture(stream, kLegacy,
                       [&] { return call_real(real().cuStreamBeginCapture_v2, stream, mode); });
}
Result cuStreamBeginCapture_v2_ptsz(StreamHandle stream, int mode) {
  return begin_capture(stream, kPerThread, [&] {
    return call_real(real().cuStreamBeginCapture_v2_ptsz, stream, mode);
  });
}
Result cuStreamBeginCaptureToGraph(StreamHandle stream, Graph graph, const GraphNode* nodes,
                                   const GraphEdge* edges, size_t count, int mode) {
  return begin_capture(stream, kLegacy, [&] {
    return call_real(real().cuStreamBeginCaptureToGraph, stream, graph, nodes, edges, count, mode);
  });
}
Result cuStreamBeginCaptureToGraph_ptsz(StreamHandle stream, Graph graph, const GraphNode* nodes,
                                        const GraphEdge* edges, size_t count, int mode) {
  return begin_capture(stream, kPerThread, [&] {
    return call_real(real().cuStreamBeginCaptureToGraph_ptsz, stream, graph, nodes, edges, count,
                     mode);
  });
}

Result cuStreamBeginRecaptureToGraph(StreamHandle stream, int mode, Graph graph,
                                     RecaptureCallback callback, void* user_data) {
  return begin_capture(stream, kLegacy, [&] {
    return call_real(real().cuStreamBeginRecaptureToGraph, stream, mode, graph, callback,
                     user_data);
  });
}
Result cuStreamBeginRecaptureToGraph_ptsz(StreamHandle stream, int mode, Graph graph,
                                          RecaptureCallback callback, void* user_data) {
  return begin_capture(stream, kPerThread, [&] {
    return call_real(real().cuStreamBeginRecaptureToGraph_ptsz, stream, mode, graph, callback,
                     user_data);
  });
}
Result cuStreamBeginCaptureToCig(StreamHandle stream, CigCaptureParameters parameters) {
  return begin_capture(stream, kLegacy, [&] {
    return call_real(real().cuStreamBeginCaptureToCig, stream, parameters);
  });
}
Result cuStreamBeginCaptureToCig_ptsz(StreamHandle stream, CigCaptureParameters parameters) {
  return begin_capture(stream, kPerThread, [&] {
    return call_real(real().cuStreamBeginCaptureToCig_ptsz, stream, parameters);
  });
}

Result cuStreamEndCaptureToCig(StreamHandle stream) {
  return end_capture(stream, kLegacy,
                     [&] { return call_real(real().cuStreamEndCaptureToCig, stream); });
}
Result cuStreamEndCaptureToCig_ptsz(StreamHandle stream) {
  return end_capture(stream, kPerThread,
                     [&] { return call_real(real().cuStreamEndCaptureToCig_ptsz, stream); });
}
Result cuStreamEndCapture(StreamHandle stream, Graph* out) {
  return end_capture(stream, kLegacy,
                     [&] { return call_real(real().cuStreamEndCapture, stream, out); });
}
Result cuStreamEndCapture_ptsz(StreamHandle stream, Graph* out) {
  return end_capture(stream, kPerThread,
                     [&] { return call_real(real().cuStreamEndCapture_ptsz, stream, out); });
}
