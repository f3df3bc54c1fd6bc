// SPDX-License-Identifier: MIT OR Apache-2.0
// The ONNX Runtime of this process.
#pragma once

#include "cachalot/cachalot.h"
#include "onnxruntime_c_api.h"

#if ORT_API_VERSION < 23
#error "ONNX Runtime's header has to be that of version 1.23 or newer"
#endif

namespace cachalot::ort {

struct Runtime {
  const OrtApi* api = nullptr;
  uint32_t api_version = 0;       // of `api`: what this library knows, or less
  const char* version = nullptr;  // these live as long as ORT's library, which is never closed
  const char* library = nullptr;
  const void* base = nullptr;  // where the library lies
};

// Finds it, or loads it from a path.
cachalot_status find_runtime(const char* path, Runtime* out, cachalot_error* error);

// Whether this code is ORT's own, that of its providers included: C++ through which its own arena
// throws too.
bool bears_exceptions(const Runtime& runtime, const void* code);

// Makes an error of a status of ORT's, which is released; CACHALOT_OK for NULL.
cachalot_status check(const Runtime& runtime, OrtStatus* status, cachalot_error* error);

}  // namespace cachalot::ort
