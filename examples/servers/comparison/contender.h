// SPDX-License-Identifier: MIT OR Apache-2.0
// What is compared: where two sessions get their memory from, and what is done when nothing is to be done.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime.h"

namespace comparison {

class Contender {
 public:
  virtual ~Contender() = default;
  // Before the sessions are made.
  virtual void begin(SessionOptions& options) = 0;
  // Gives back what can be given back.
  virtual void idle() {}
  // After the sessions have been closed.
  virtual void end() {}
};

// "arena", "arena-same" (grows by what is asked), "arena-shrink" (shrinks after each run), "none", "cachalot",
// "cachalot-empty" (on CUDA also with the function that empties the cache).
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
