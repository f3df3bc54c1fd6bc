// SPDX-License-Identifier: MIT OR Apache-2.0
// What a language's wrapper of ORT does: loads it for itself alone, makes an environment and sessions.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cachalot/onnxruntime.h"
#include "onnxruntime_c_api.h"

namespace cachalot::ort_test {

// ORT's functions; the library is loaded at the first call, with RTLD_LOCAL. CACHALOT_ORT_TEST_LIBRARY
// names another one than that which was fetched.
const OrtApi& ort();

// The second number of its version, or that of the header if that is less.
uint32_t ort_version();

// The text of a status, which is released; "" for NULL.
std::string take(OrtStatus* status);

// An allocator over the host driver, with everything of it closed at the end.
class Host {
 public:
  explicit Host(uint64_t capacity = uint64_t{1} << 30);
  ~Host();
  Host(const Host&) = delete;
  cachalot_allocator* get() const { return allocator_; }
  cachalot_stats stats() const;
  uint64_t reserved() const { return cachalot_memory_reserved(allocator_, 0); }

 private:
  cachalot_allocator* allocator_ = nullptr;
};

// Registered as long as it lives.
class Registered {
 public:
  explicit Registered(const Host& host, const char* library = nullptr);
  ~Registered();
  Registered(const Registered&) = delete;
  cachalot_ort_info info() const;
  OrtAllocator* table() const { return cachalot_ort_get_table(registered_); }
  // "" if it worked, or the message.
  std::string end();

 private:
  cachalot_ort_allocator* registered_ = nullptr;
};

// An environment, as a wrapper has one.
class Environment {
 public:
  Environment();
  ~Environment();
  Environment(const Environment&) = delete;
  OrtEnv* get() const { return env_; }

 private:
  OrtEnv* env_ = nullptr;
};

struct SessionOptions {
  bool uses_shared_allocator = true;
  bool reserves_weights = true;
  bool has_memory_pattern = false;
  bool is_parallel = false;
  bool is_on_gpu = false;
  int threads = 2;
};

// The detection model: an image of any size in, a map of it out.
class Session {
 public:
  explicit Session(const Environment& environment, const SessionOptions& options = {});
  // "" if that works, or ORT's message.
  static std::string try_to_make(const Environment& environment, const SessionOptions& options,
                                 OrtSession** out);
  ~Session();
  Session(const Session&) = delete;
  // Height and width are multiples of 32. "" if it worked, or ORT's message.
  // The map goes to `output` if it is not NULL. The image lies in memory of `image_memory`, or if that is NULL in the
  // program's own. Any thread.
  std::string run(int64_t height, int64_t width, std::vector<float>* output = nullptr,
                  OrtAllocator* image_memory = nullptr) const;
  OrtSession* get() const { return session_; }

 private:
  OrtSession* session_ = nullptr;
};

}  // namespace cachalot::ort_test
