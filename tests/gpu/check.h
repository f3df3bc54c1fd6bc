// SPDX-License-Identifier: MIT OR Apache-2.0
// How the GPU programs end: a failed call is one line, and the exit code says passed, failed or
// skipped.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdio>
#include <exception>
#include <stdexcept>
#include <string>

#include "cachalot/cachalot.h"

namespace gpu {

inline constexpr int kPassed = 0;
inline constexpr int kFailed = 1;
inline constexpr int kWrongCall = 2;
inline constexpr int kSkipped = 77;

struct Failure : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// What the program needs is not on this machine.
struct Skip : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct WrongCall : std::runtime_error {
  using std::runtime_error::runtime_error;
};

inline void check_cuda(cudaError_t code, const char* call, const char* file, int line) {
  if (code == cudaSuccess) return;
  throw Failure(std::string(file) + ":" + std::to_string(line) + ": " + call + ": " +
                cudaGetErrorString(code) + " (" + std::to_string(code) + ")");
}

inline void check_status(cachalot_status status, const cachalot_error& error, const char* what) {
  if (status == CACHALOT_OK) return;
  throw Failure(std::string(what) + ": " + cachalot_status_name(status) + ": " + error.message);
}

#define CHECK_CUDA(call) ::gpu::check_cuda((call), #call, __FILE__, __LINE__)

inline void require(bool holds, const std::string& otherwise) {
  if (!holds) throw Failure(otherwise);
}

// How many GPUs there are; skips the program if they are fewer than it needs.
inline int require_gpus(int needed) {
  int count = 0;
  const cudaError_t code = cudaGetDeviceCount(&count);
  if (code != cudaSuccess) throw Skip(std::string("no GPU: ") + cudaGetErrorString(code));
  if (count < needed) {
    throw Skip("needs " + std::to_string(needed) + " GPUs, here are " + std::to_string(count));
  }
  return count;
}

// Runs the program and turns what it throws into a line and an exit code.
template <class Body>
int run_program(Body body) {
  try {
    return body() ? kPassed : kFailed;
  } catch (const Skip& skip) {
    printf("skipped: %s\n", skip.what());
    return kSkipped;
  } catch (const WrongCall& wrong) {
    fprintf(stderr, "%s\n", wrong.what());
    return kWrongCall;
  } catch (const std::exception& failure) {
    printf("failed: %s\n", failure.what());
    return kFailed;
  }
}

}  // namespace gpu
