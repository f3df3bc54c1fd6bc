// SPDX-License-Identifier: MIT OR Apache-2.0
#include "trace_text.h"

#include <array>
#include <charconv>
#include <nlohmann/json.hpp>

namespace cachalot::cli {
namespace {

constexpr std::string_view kLetters =
    "aqcSFMUsonbARkxCDghwWez";  // by the numbers of cachalot_action

void append_number(std::string* out, uint64_t number, int base = 10) {
  std::array<char, 24> digits;
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number, base).ptr;
  out->append(digits.data(), end);
}

void append_if_said(std::string* out, int64_t number) {
  if (number >= 0) append_number(out, static_cast<uint64_t>(number));
}

void append_pool(std::string* out, cachalot_pool_id pool) {
  if (pool.first == 0 && pool.second == 0) return;
  append_number(out, pool.first);
  *out += ':';
  append_number(out, pool.second);
}

void append_detail(std::string* out, const cachalot_trace_event& event) {
  *out += ',';
  append_if_said(out, event.cost_ns);
  *out += ',';
  if (event.entry != 0) *out += static_cast<char>(event.entry);
  *out += ',';
  if (event.thread != 0) append_number(out, event.thread);
  *out += ',';
  if (event.freed_on != event.stream) append_number(out, event.freed_on, 16);
  *out += ',';
  append_if_said(out, event.wait_ns);
  *out += ',';
  if (event.driver_context != 0) append_number(out, event.driver_context, 16);
}

}  // namespace

cachalot_trace_event blank_event(cachalot_action action) {
  cachalot_trace_event event{};
  event.struct_size = sizeof event;
  event.action = action;
  event.time_us = event.cost_ns = event.wait_ns = -1;
  return event;
}

std::string header_line(const TraceHead& head) {
  nlohmann::ordered_json json;
  json["workload"] = "";
  json["recorder"] = "cachalot " + std::string(cachalot_version()) + ", from " + head.source;
  json["torch"] = head.torch;
  json["config"]["PYTORCH_CUDA_ALLOC_CONF"] = head.config;
  json["device_total"] = head.device_total;
  json["warm_up"] = 0;
  json["format"] = 2;
  if (head.process != 0) json["pid"] = head.process;
  return "# " + json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

void append_event(std::string* out, const cachalot_trace_event& event) {
  *out += kLetters.at(static_cast<size_t>(event.action));
  *out += ',';
  append_number(out, event.address, 16);
  *out += ',';
  append_number(out, event.size);
  *out += ',';
  append_number(out, event.stream, 16);
  *out += ',';
  append_number(out, static_cast<uint64_t>(event.device));
  *out += ',';
  append_pool(out, event.pool);
  *out += ',';
  append_if_said(out, event.time_us);
  *out += ',';
  if (event.context != 0) append_number(out, event.context, 16);
  append_detail(out, event);
  out->resize(out->find_last_not_of(',') + 1);
  *out += '\n';
}

void append_label(std::string* out, uint64_t context, std::string_view text) {
  *out += "# label ";
  append_number(out, context, 16);
  *out += ' ';
  for (const char c : text) {
    if (c == '\n' || c == '\\') *out += '\\';
    if (c == '\n')
      *out += 'n';
    else
      *out += c == '\0' ? ' ' : c;  // a zero byte ends a trace
  }
  *out += '\n';
}

}  // namespace cachalot::cli
