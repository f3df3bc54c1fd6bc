// SPDX-License-Identifier: MIT OR Apache-2.0
// ONNX Runtime by its C interface, as far as it is needed here.
#pragma once

#include <onnxruntime_c_api.h>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "sequence.h"

namespace comparison {

// What ONNX Runtime refused, in its words.
class Refused : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Loads ORT's library, which stays.
void load_runtime(const std::string& path);
const OrtApi& ort();
void check(OrtStatus* status);

class Environment {
 public:
  Environment();
  ~Environment();
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;
  OrtEnv* get() const { return env_; }
  // Makes an arena of ORT's, as it is by default, for the sessions that want a shared one.
  void share_arena(const char* provider, const char* memory) const;

 private:
  OrtEnv* env_ = nullptr;
};

using Entries = std::vector<std::pair<std::string, std::string>>;

struct SessionOptions {
  std::string provider = "cpu";
  bool has_arena = true;
  int threads = 1;
  Entries config;
  // Options of the CUDA provider.
  Entries cuda;
  // Run options.
  Entries run;
};

// A model with one input and one output.
class Session {
 public:
  Session(const Environment& environment, const std::string& model, const SessionOptions& options);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // One image of zeros, whose memory the caller has: three channels of the shape. Throws Refused.
  void run(Shape shape, std::vector<float>& pixels) const;

 private:
  OrtSession* session_ = nullptr;
  OrtRunOptions* run_options_ = nullptr;
  std::string input_;
  std::string output_;
};

}  // namespace comparison
