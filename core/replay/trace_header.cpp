// SPDX-License-Identifier: MIT OR Apache-2.0
#include "replay/trace_header.h"

#include <limits>

#include "base/error.h"
#include "base/text.h"
#include "replay/json_reader.h"

namespace cachalot {
namespace {

constexpr std::string_view kMark = "# ";
constexpr const char* kConfigKey = "PYTORCH_CUDA_ALLOC_CONF";

[[noreturn]] void fail(const std::string& what) { throw Error(Status::kIo, "line 1: " + what); }

uint64_t read_bytes(JsonReader& json, const std::string& name) {
  const int64_t value = json.integer();
  if (value < 0) fail(format("%s is %lld bytes", name.c_str(), static_cast<long long>(value)));
  return static_cast<uint64_t>(value);
}

std::string read_config(JsonReader& json) {
  std::string config;
  json.object([&](const std::string& name) {
    if (name == kConfigKey && json.next() == '"')
      config = json.string();
    else
      json.skip();
  });
  return config;
}

std::vector<RecordedStat> read_recorded_stats(JsonReader& json) {
  std::vector<RecordedStat> stats;
  json.object([&](const std::string& name) {
    int64_t value = 0;
    if (json.take_integer(&value)) stats.push_back({name, value});
  });
  return stats;
}

int read_format(JsonReader& json) {
  const int64_t format = json.integer();
  if (format != 1 && format != 2)
    fail("trace format " + std::to_string(format) + " is not known: 1 and 2 are");
  return static_cast<int>(format);
}

// In format 1 other recorders may mean something else by these names.
void read_text(JsonReader& json, std::string* text) {
  if (json.next() == '"')
    *text = json.string();
  else
    json.skip();
}

template <class Number>
void read_number(JsonReader& json, Number* number) {
  int64_t value = 0;
  if (json.take_integer(&value) && value >= 0 && value <= std::numeric_limits<Number>::max())
    *number = static_cast<Number>(value);
}

// What only format 2 has. False: there is no such key.
bool read_member_of_format_2(JsonReader& json, const std::string& name, TraceHeader* header) {
  if (name == "command")
    read_text(json, &header->command);
  else if (name == "pid")
    read_number(json, &header->pid);
  else if (name == "parent")
    read_number(json, &header->parent);
  else if (name == "start_us")
    read_number(json, &header->start_us);
  else if (name == "driver")
    read_number(json, &header->driver);
  else
    return false;
  return true;
}

void read_member(JsonReader& json, const std::string& name, TraceHeader* header) {
  if (name == "format")
    header->format = read_format(json);
  else if (name == "workload")
    header->workload = json.string();
  else if (name == "recorder")
    header->recorder = json.string();
  else if (name == "torch")
    header->torch = json.string();
  else if (name == "config")
    header->config = read_config(json);
  else if (name == "device_total")
    header->device_total = read_bytes(json, name);
  else if (name == "warm_up")
    header->warm_up = read_bytes(json, name);
  else if (name == "stats")
    header->stats = read_recorded_stats(json);
  else if (!read_member_of_format_2(json, name, header))
    json.skip();
}

void forget_format_2(TraceHeader* header) {
  header->command.clear();
  header->pid = header->parent = header->start_us = 0;
  header->driver = 0;
}

void append_member(std::string* out, std::string_view name, std::string_view text) {
  append_json_string(out, name);
  *out += ": ";
  append_json_string(out, text);
}

void append_member(std::string* out, std::string_view name, int64_t number) {
  append_json_string(out, name);
  *out += ": " + std::to_string(number);
}

// With a comma before each.
std::string format_members_of_format_2(const TraceHeader& header) {
  std::string out = ", ";
  append_member(&out, "format", header.format);
  out += ", ";
  append_member(&out, "command", header.command);
  const std::pair<std::string_view, int64_t> numbers[] = {{"pid", header.pid},
                                                          {"parent", header.parent},
                                                          {"driver", header.driver},
                                                          {"start_us", header.start_us}};
  for (const auto& [name, number] : numbers) {
    if (number == 0) continue;
    out += ", ";
    append_member(&out, name, number);
  }
  return out;
}

std::string format_stats(const std::vector<RecordedStat>& stats) {
  std::string out = "{";
  for (const RecordedStat& stat : stats) {
    if (out.size() > 1) out += ", ";
    append_json_string(&out, stat.name);
    out += ": " + std::to_string(stat.value);
  }
  return out + "}";
}

}  // namespace

TraceHeader parse_trace_header(std::string_view line) {
  if (line.substr(0, kMark.size()) != kMark)
    fail("not a trace: the header, \"# {...}\", is missing");
  TraceHeader header;
  bool has_warm_up = false;
  JsonReader json(line.substr(kMark.size()));
  json.object([&](const std::string& name) {
    has_warm_up |= name == "warm_up";
    read_member(json, name, &header);
  });
  json.end();
  if (header.format == 1) forget_format_2(&header);
  if (header.format >= 2 && !has_warm_up) header.warm_up = 0;
  return header;
}

std::string format_trace_header(const TraceHeader& header) {
  std::string out = std::string(kMark) + "{";
  append_member(&out, "workload", header.workload);
  out += ", ";
  append_member(&out, "recorder", header.recorder);
  out += ", ";
  append_member(&out, "torch", header.torch);
  out += ", \"config\": {";
  append_member(&out, kConfigKey, header.config);
  out += format("}, \"device_total\": %llu, \"warm_up\": %llu, \"stats\": ",
                static_cast<unsigned long long>(header.device_total),
                static_cast<unsigned long long>(header.warm_up));
  out += format_stats(header.stats);
  if (header.format >= 2) out += format_members_of_format_2(header);
  return out + "}\n";
}

}  // namespace cachalot
