// SPDX-License-Identifier: MIT OR Apache-2.0
#include "varied_run.h"

#include <cinttypes>
#include <cstdio>
#include <random>
#include <unordered_map>

#include "../failure.h"

namespace cachalot::cli {
namespace {

constexpr double kMostChange = 0.03;
constexpr uint64_t kLeastSize = uint64_t{1} << 20;

// The letters of docs/trace-format.md, as far as a replay looks at them.
char letter_of(int32_t action) {
  switch (action) {
    case CACHALOT_ACTION_ALLOC:
      return 'a';
    case CACHALOT_ACTION_FREE_REQUESTED:
      return 'q';
    case CACHALOT_ACTION_FREE_COMPLETED:
      return 'c';
    case CACHALOT_ACTION_SEGMENT_ALLOC:
      return 'S';
    case CACHALOT_ACTION_SEGMENT_FREE:
      return 'F';
    case CACHALOT_ACTION_SEGMENT_MAP:
      return 'M';
    case CACHALOT_ACTION_SEGMENT_UNMAP:
      return 'U';
    case CACHALOT_ACTION_OOM:
      return 'o';
    case CACHALOT_ACTION_LIVE_AT_BEGIN:
      return 'b';
    case CACHALOT_ACTION_CONTEXT_END:
      return 'x';
    default:
      return 0;
  }
}

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

bool is_of_block(char letter) {
  return letter == 'a' || letter == 'q' || letter == 'c' || letter == 'b';
}

std::string line_of(const cachalot_trace_event& event, char letter, uint64_t size,
                    bool names_stream) {
  char line[256];
  const int length = std::snprintf(
      line, sizeof line, "%c,%" PRIx64 ",%" PRIu64 ",%" PRIx64 ",%" PRId32 ",%" PRIu64 ":%" PRIu64,
      letter, event.address, size, event.stream, event.device, event.pool.first, event.pool.second);
  std::string text(line, static_cast<size_t>(length));
  if (event.pool.first == 0 && event.pool.second == 0) text.erase(text.rfind(',') + 1);
  if (names_stream) {
    std::snprintf(line, sizeof line, ",,,,,,%" PRIx64, event.freed_on);
    text += line;
  }
  return text + '\n';
}

std::string varied_text(const TunedRun& run, uint64_t seed) {
  const cachalot_trace_info& info = run.info();
  std::string text = "# {\"format\":" + std::to_string(info.format) +
                     ",\"warm_up\":0,\"torch\":\"" + info.torch + "\"}\n";
  Sizes sizes(seed);
  cachalot_trace_event event{};
  event.struct_size = sizeof event;
  for (size_t i = 0; i < info.event_count; i++) {
    check(cachalot_trace_get_event(run.trace(), i, &event));
    const char letter = letter_of(event.action);
    if (letter == 0) continue;
    const uint64_t size = is_of_block(letter) ? sizes.varied(event.size) : event.size;
    text += line_of(event, letter, size, letter == 'q' && event.freed_on != event.stream);
  }
  return text;
}

}  // namespace

TunedRun varied_run(const TunedRun& run, uint64_t seed, const std::atomic<bool>* cancelled) {
  return {run.name(), parse_trace(varied_text(run, seed)), run.release(), cancelled};
}

}  // namespace cachalot::cli
