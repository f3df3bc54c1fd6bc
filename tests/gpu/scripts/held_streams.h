// SPDX-License-Identifier: MIT OR Apache-2.0
// The streams of a script as real ones. Work on a stream is a wait that the host ends, so that the
// script says when it is done; captures are real captures.
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "device/device.h"

namespace cachalot::gpu {

class HeldStreams {
 public:
  // Needs the device's context to be current, here and in every function.
  // is_default_legacy: stream 0 is the legacy stream; else a stream like the others, which can be
  // captured.
  explicit HeldStreams(bool is_default_legacy);
  ~HeldStreams();
  HeldStreams(const HeldStreams&) = delete;
  HeldStreams& operator=(const HeldStreams&) = delete;

  // The real stream of a script's.
  CUstream real(Stream stream);

  // False: the stream is captured, so there is no work on it.
  bool begin_work(Stream stream);
  void finish_oldest(Stream stream);
  void finish_stream(Stream stream);
  // Up to the piece of work with this number.
  void finish_up_to(Stream stream, uint64_t piece);
  void finish_all();
  uint64_t pieces(Stream stream) { return at(stream).begun; }
  bool has_pending_work() const;
  bool is_idle(Stream stream);
  // Lets all waits end, from any thread; nothing is waited for.
  void let_go();

  void begin_capture(Stream stream, uint64_t capture);
  void end_capture(uint64_t capture);
  void end_all_captures();
  void add_node(Stream stream);
  // Refused where a real capture refuses the wait, or ends with it, or takes it otherwise.
  void fork(Stream from, Stream to);
  // Whether a fork was refused since the last question.
  bool take_refused_fork() { return std::exchange(has_refused_fork_, false); }
  void join(Stream into, Stream other);
  bool is_captured(Stream stream) { return at(stream).capture.has_value(); }

 private:
  struct Held {
    CUstream stream = nullptr;
    uint32_t* word = nullptr;  // pieces up to this number may end
    CUdeviceptr device_word = 0;
    uint64_t begun = 0;
    uint64_t done = 0;
    std::deque<CUevent> before;  // before each piece that is not done
    // Behind all pieces: a stream that is captured cannot be waited for.
    CUevent before_capture = nullptr;
    std::optional<uint64_t> capture;
  };

  Held& at(Stream stream);
  void wait_for_piece(Held& held);
  void make_wait(Stream waiting, Stream awaited);

  const bool is_default_legacy_;
  std::map<Stream, Held> streams_;
  std::map<uint64_t, Stream> origins_;  // of captures
  uint32_t* words_ = nullptr;
  CUdeviceptr scratch_ = 0;
  bool has_refused_fork_ = false;
};

// Throws std::runtime_error with the driver's words.
void check(CUresult code, const char* call);

}  // namespace cachalot::gpu
