// SPDX-License-Identifier: MIT OR Apache-2.0
#include "picture.h"

#include <algorithm>

#include "base/text.h"
#include "wide.h"

namespace cachalot::policy_model {
namespace {

std::string text_of(Stream stream) {
  return stream == kAllStreams ? "all streams" : format("%llx", wide(stream));
}

std::string text_of(const BlockRow& row) {
  static constexpr const char* kNames[] = {"used", "waiting", "cached", "hole", "waiting hole"};
  std::string text = format("%llx + %llx %s", wide(row.begin), wide(row.size),
                            kNames[static_cast<size_t>(row.state)]);
  if (row.user != 0) text += format(" by %llx", wide(row.user));
  for (const auto& [stream, stamp] : row.stamps)
    text += format(" %llx:%llu", wide(stream), wide(stamp));
  return text;
}

std::vector<std::string> lines_of(const Picture& picture) {
  std::vector<std::string> lines{format("clock %llu", wide(picture.clock))};
  for (const auto& [pair, clock] : picture.waited)
    lines.push_back(format("%llx waited for %s: %llu", wide(pair.first),
                           text_of(pair.second).c_str(), wide(clock)));
  for (const auto& [stream, clock] : picture.finished)
    lines.push_back(format("the host waited for %s: %llu", text_of(stream).c_str(), wide(clock)));
  for (const BlockRow& row : picture.blocks) lines.push_back(text_of(row));
  return lines;
}

std::vector<std::string> lines_of(const Numbers& numbers) {
  const std::pair<const char*, const Counts*> rows[] = {
      {"allocated", &numbers.allocated},     {"active", &numbers.active},
      {"requested", &numbers.requested},     {"reserved", &numbers.reserved},
      {"used blocks", &numbers.used_blocks}, {"active blocks", &numbers.active_blocks}};
  std::vector<std::string> lines;
  for (const auto& [name, counts] : rows) {
    std::string line = name;
    for (const Count& count : *counts)
      line += format(" %lld/%lld", static_cast<long long>(count.current),
                     static_cast<long long>(count.peak));
    lines.push_back(line);
  }
  const PolicyStats& policy = numbers.policy;
  lines.push_back(format("retries %llu, out of memory %llu", wide(numbers.retries),
                         wide(numbers.out_of_memory)));
  lines.push_back(format("pages created %llu, moved %llu, released %llu, pinned bytes %llu",
                         wide(policy.pages_created), wide(policy.pages_moved),
                         wide(policy.pages_released), wide(policy.pinned_bytes)));
  lines.push_back(format("borrowed %llu, waits of streams %llu, of the host %llu",
                         wide(policy.blocks_borrowed), wide(policy.stream_waits),
                         wide(policy.host_waits)));
  return lines;
}

template <class Seen>
std::string difference(const Seen& model, const Seen& library) {
  const std::vector<std::string> expected = lines_of(model);
  const std::vector<std::string> seen = lines_of(library);
  const auto lacks = [](const std::vector<std::string>& lines, const std::string& line) {
    return std::find(lines.begin(), lines.end(), line) == lines.end();
  };
  std::string text;
  for (const std::string& line : expected)
    if (lacks(seen, line)) text += "  model:   " + line + "\n";
  for (const std::string& line : seen)
    if (lacks(expected, line)) text += "  library: " + line + "\n";
  return text;
}

}  // namespace

std::string text_of(const Answer& answer) {
  return format("status %d, code %d, address %llx", static_cast<int>(answer.status), answer.code,
                wide(answer.address));
}

std::string text_of(const OutOfMemory& shortage) {
  return format(
      "stream %llx, %llu in %llu of %llu/%llu, limit %llu, allocated %llu, reserved "
      "%llu, in pools %llu, largest %llu",
      wide(shortage.stream), wide(shortage.requested), wide(shortage.segment_size),
      wide(shortage.device_free), wide(shortage.device_total), wide(shortage.limit),
      wide(shortage.allocated), wide(shortage.reserved), wide(shortage.private_pools_free),
      wide(shortage.largest_free_block));
}

std::string all_of(const Picture& picture) {
  std::string text;
  for (const std::string& line : lines_of(picture)) text += "  all: " + line + "\n";
  return text;
}

std::string difference_of(const Picture& model, const Picture& library) {
  return difference(model, library);
}

std::string difference_of(const Numbers& model, const Numbers& library) {
  return difference(model, library);
}

}  // namespace cachalot::policy_model
