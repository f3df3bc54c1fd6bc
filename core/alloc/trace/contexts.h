// SPDX-License-Identifier: MIT OR Apache-2.0
// Contexts of history entries: where they come from, and what they mean; the labels and the
// metadata text of a thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "alloc/trace/history.h"

namespace cachalot {

// Gives the calling thread's context as a number, and explains it later. No lock is held.
struct ContextSource {
  std::function<ContextId()> capture;              // empty: there are no contexts
  std::function<std::string(ContextId)> describe;  // one frame a line, innermost first
};

// Native call stacks, each kept once.
ContextSource stack_contexts();
// The calling thread's labels.
ContextSource label_contexts();

// The calling thread's labels: those pushed, outermost first, joined by "/"; null without labels.
// The pointer stays the same until the next push or pop, so that a reader can compare pointers
// first.
void push_label(const std::string& label);
bool pop_label();  // false: there is none
const std::shared_ptr<const std::string>& current_labels();

// The calling thread's metadata text; null without one.
void set_metadata(const char* text);
const std::shared_ptr<const std::string>& current_metadata();

}  // namespace cachalot
