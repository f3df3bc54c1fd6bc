// SPDX-License-Identifier: MIT OR Apache-2.0
// What is compared: where two sessions get their memory from, and what is done when nothing is to be done.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime.h"

namespace comparison {

class Contender {
 public:
  virtual ~Contender() = default;
  // Before the sessions are made.
  virtual void begin(const Environment& environment, SessionOptions& options) = 0;
  // Gives back what can be given back.
  virtual void idle() {}
  // How often it asked the driver for memory until now; nothing where it does not say.
  virtual std::optional<int64_t> driver_allocations() const { return std::nullopt; }
  // After the sessions have been closed.
  virtual void end() {}
};

// "arena", "arena-same" (grows by what is asked), "arena-shared" (one for both sessions), "arena-shrink" (shrinks after
// each run), "none", "cachalot", "cachalot-stream" (on CUDA with one stream for both sessions).
std::vector<std::string> contender_names();

struct Setting {
  std::string contender;
  std::string provider;
  // cachalot's option string.
  std::string options;
  uint64_t host_capacity;
};

std::unique_ptr<Contender> make_contender(const Setting& setting);

}  // namespace comparison
