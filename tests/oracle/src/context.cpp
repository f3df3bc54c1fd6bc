// SPDX-License-Identifier: MIT OR Apache-2.0
#include "context.h"

#include "verbosity.h"

namespace oracle {
namespace {

struct Context : c10::GatheredContext {
  long line = script_line;
};

}  // namespace

long script_line = 0;

std::shared_ptr<c10::GatheredContext> capture_context() {
  return verbosity.context ? std::make_shared<Context>() : nullptr;
}

long line_of(const c10::GatheredContext& context) {
  return static_cast<const Context&>(context).line;
}

std::string context_suffix(const std::shared_ptr<c10::GatheredContext>& context) {
  if (!verbosity.context) return "";
  return context ? " line " + std::to_string(line_of(*context)) : " no line";
}

}  // namespace oracle
