// SPDX-License-Identifier: MIT OR Apache-2.0
#include "varied_run.h"

#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <unordered_map>

#include "../trace_text.h"

namespace cachalot::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kMostChange = 0.03;
constexpr uint64_t kLeastSize = uint64_t{1} << 20;

class Sizes {
 public:
  explicit Sizes(uint64_t seed) : random_(seed) {}

  uint64_t varied(uint64_t size) {
    if (size < kLeastSize) return size;
    const auto [found, is_new] = varied_.try_emplace(size, 0);
    if (is_new) {
      std::uniform_real_distribution<double> factor(1 - kMostChange, 1 + kMostChange);
      found->second = static_cast<uint64_t>(static_cast<double>(size) * factor(random_));
    }
    return found->second;
  }

 private:
  std::mt19937_64 random_;
  std::unordered_map<uint64_t, uint64_t> varied_;
};

bool is_of_block(int32_t action) {
  return action == CACHALOT_ACTION_ALLOC || action == CACHALOT_ACTION_FREE_REQUESTED ||
         action == CACHALOT_ACTION_FREE_COMPLETED || action == CACHALOT_ACTION_LIVE_AT_BEGIN;
}

std::string varied_text(const TunedRun& run, uint64_t seed) {
  const Json header{{"format", run.info().format}, {"warm_up", 0}, {"torch", run.info().torch}};
  std::string text = "# " + header.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  Sizes sizes(seed);
  for_each_event(run.trace(), [&](cachalot_trace_event event) {
    if (is_of_block(event.action)) event.size = sizes.varied(event.size);
    append_event(&text, event);
  });
  return text;
}

}  // namespace

TunedRun varied_run(const TunedRun& run, uint64_t seed, const std::atomic<bool>* cancelled) {
  return {run.name(), parse_trace(varied_text(run, seed)), run.release(), cancelled};
}

}  // namespace cachalot::cli
