// SPDX-License-Identifier: MIT OR Apache-2.0
#include "held_streams.h"

#include <stdexcept>

#include "input_error.h"

namespace cachalot::gpu {
namespace {

constexpr size_t kMostStreams = 1024;

using differential::InputError;

}  // namespace

void check(CUresult code, const char* call) {
  if (code == CUDA_SUCCESS) return;
  const char* text = nullptr;
  cuGetErrorString(code, &text);
  throw InputError(std::string(call) + ": " + (text != nullptr ? text : "unknown error"));
}

HeldStreams::HeldStreams(bool is_default_legacy) : is_default_legacy_(is_default_legacy) {
  void* words = nullptr;
  check(cuMemHostAlloc(&words, kMostStreams * sizeof(uint32_t), CU_MEMHOSTALLOC_DEVICEMAP),
        "cuMemHostAlloc");
  words_ = static_cast<uint32_t*>(words);
  for (size_t i = 0; i < kMostStreams; i++) words_[i] = 0;
  check(cuMemAlloc(&scratch_, 1), "cuMemAlloc");
}

HeldStreams::~HeldStreams() {
  let_go();
  cuCtxSynchronize();
  for (auto& [stream, held] : streams_) {
    for (CUevent event : held.before) cuEventDestroy(event);
    if (held.before_capture != nullptr) cuEventDestroy(held.before_capture);
    if (held.stream != nullptr) cuStreamDestroy(held.stream);
  }
  cuMemFree(scratch_);
  cuMemFreeHost(words_);
}

HeldStreams::Held& HeldStreams::at(Stream stream) {
  const auto found = streams_.find(stream);
  if (found != streams_.end()) return found->second;
  if (streams_.size() == kMostStreams) throw InputError("too many streams");
  Held held;
  held.word = words_ + streams_.size();
  check(cuMemHostGetDevicePointer(&held.device_word, held.word, 0), "cuMemHostGetDevicePointer");
  if (stream != 0 || !is_default_legacy_)
    check(cuStreamCreate(&held.stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
  return streams_.emplace(stream, std::move(held)).first->second;
}

CUstream HeldStreams::real(Stream stream) { return at(stream).stream; }

// ---- Work

bool HeldStreams::begin_work(Stream stream) {
  Held& held = at(stream);
  if (held.capture) return false;
  CUevent before = nullptr;
  check(cuEventCreate(&before, CU_EVENT_DISABLE_TIMING), "cuEventCreate");
  held.before.push_back(before);
  check(cuEventRecord(before, held.stream), "cuEventRecord");
  held.begun++;
  check(cuStreamWaitValue32(held.stream, held.device_word, static_cast<uint32_t>(held.begun),
                            CU_STREAM_WAIT_VALUE_GEQ),
        "cuStreamWaitValue32");
  return true;
}

// Everything that stands before the next piece is done when its event is.
void HeldStreams::wait_for_piece(Held& held) {
  held.done++;
  std::atomic_ref(*held.word).store(static_cast<uint32_t>(held.done));
  cuEventDestroy(held.before.front());
  held.before.pop_front();
  if (!held.before.empty()) {
    check(cuEventSynchronize(held.before.front()), "cuEventSynchronize");
  } else if (held.capture) {
    check(cuEventSynchronize(held.before_capture), "cuEventSynchronize");
  } else {
    check(cuStreamSynchronize(held.stream), "cuStreamSynchronize");
  }
}

void HeldStreams::finish_up_to(Stream stream, uint64_t piece) {
  Held& held = at(stream);
  while (held.done < held.begun && held.done < piece) wait_for_piece(held);
}

void HeldStreams::finish_oldest(Stream stream) { finish_up_to(stream, at(stream).done + 1); }

void HeldStreams::finish_stream(Stream stream) { finish_up_to(stream, at(stream).begun); }

void HeldStreams::finish_all() {
  for (auto& [stream, held] : streams_) finish_stream(stream);
}

bool HeldStreams::has_pending_work() const {
  for (const auto& [stream, held] : streams_) {
    if (held.done < held.begun) return true;
  }
  return false;
}

bool HeldStreams::is_idle(Stream stream) {
  const Held& held = at(stream);
  return held.done == held.begun;
}

void HeldStreams::let_go() {
  for (size_t i = 0; i < kMostStreams; i++) std::atomic_ref(words_[i]).store(0x7fffffff);
}

// ---- Captures

void HeldStreams::begin_capture(Stream stream, uint64_t capture) {
  Held& held = at(stream);
  if (held.capture || origins_.count(capture) != 0)
    throw InputError("a capture on a captured stream");
  if (held.before_capture == nullptr)
    check(cuEventCreate(&held.before_capture, CU_EVENT_DISABLE_TIMING), "cuEventCreate");
  check(cuEventRecord(held.before_capture, held.stream), "cuEventRecord");
  check(cuStreamBeginCapture(held.stream, CU_STREAM_CAPTURE_MODE_RELAXED), "cuStreamBeginCapture");
  held.capture = capture;
  origins_[capture] = stream;
}

// Streams that were not joined make the driver refuse; the capture has ended all the same.
void HeldStreams::end_capture(uint64_t capture) {
  const auto found = origins_.find(capture);
  if (found == origins_.end()) return;
  CUgraph graph = nullptr;
  cuStreamEndCapture(at(found->second).stream, &graph);
  if (graph != nullptr) cuGraphDestroy(graph);
  origins_.erase(found);
  for (auto& [stream, held] : streams_) {
    if (held.capture == capture) held.capture.reset();
  }
}

void HeldStreams::end_all_captures() {
  while (!origins_.empty()) end_capture(origins_.begin()->first);
}

void HeldStreams::add_node(Stream stream) {
  if (!is_captured(stream)) throw InputError("a node on a stream that is not captured");
  check(cuMemsetD8Async(scratch_, 0, 1, real(stream)), "cuMemsetD8Async");
}

// The oracle's fork gives a stream the nodes of the other; a real one adds them.
void HeldStreams::fork(Stream from, Stream to) {
  if (!is_captured(from) || is_captured(to) || !is_idle(to)) {
    has_refused_fork_ = true;
    return;
  }
  make_wait(to, from);
  at(to).capture = at(from).capture;
}

void HeldStreams::join(Stream into, Stream other) {
  if (!is_captured(into) || at(into).capture != at(other).capture)
    throw InputError("a join of streams of different captures");
  make_wait(into, other);
}

void HeldStreams::make_wait(Stream waiting, Stream awaited) {
  CUevent event = nullptr;
  check(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING), "cuEventCreate");
  check(cuEventRecord(event, real(awaited)), "cuEventRecord");
  check(cuStreamWaitEvent(real(waiting), event, 0), "cuStreamWaitEvent");
  cuEventDestroy(event);
}

}  // namespace cachalot::gpu
