// SPDX-License-Identifier: MIT OR Apache-2.0
// Streams and an event of the GPU programs, destroyed with their owner.
#pragma once

#include <cuda_runtime_api.h>

#include <utility>
#include <vector>

#include "check.h"

namespace gpu {

// Streams of the thread's current device that do not wait for the default stream.
class Streams {
 public:
  explicit Streams(size_t count) : streams_(count) {
    for (cudaStream_t& stream : streams_) {
      CHECK_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    }
  }
  Streams(const Streams&) = delete;
  Streams& operator=(const Streams&) = delete;
  ~Streams() {
    for (cudaStream_t stream : streams_) cudaStreamDestroy(stream);
  }

  size_t size() const { return streams_.size(); }
  cudaStream_t operator[](size_t index) const { return streams_[index]; }

  // The stream is destroyed, and another one takes its place. No other thread may use it.
  void renew(size_t index) {
    CHECK_CUDA(cudaStreamDestroy(std::exchange(streams_[index], nullptr)));
    CHECK_CUDA(cudaStreamCreateWithFlags(&streams_[index], cudaStreamNonBlocking));
  }

 private:
  std::vector<cudaStream_t> streams_;
};

class Event {
 public:
  Event() { CHECK_CUDA(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming)); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  ~Event() { cudaEventDestroy(event_); }

  // What is queued on `later` from now on waits for all that is queued on `earlier`.
  void order(cudaStream_t earlier, cudaStream_t later) {
    CHECK_CUDA(cudaEventRecord(event_, earlier));
    CHECK_CUDA(cudaStreamWaitEvent(later, event_, 0));
  }

 private:
  cudaEvent_t event_ = nullptr;
};

}  // namespace gpu
