// SPDX-License-Identifier: MIT OR Apache-2.0
// The forms in which a ledger is shown.
#include <cinttypes>
#include <cstdio>

#include "ledger.h"
#include "numbers.h"

namespace cachalot::cli {
namespace {

using Json = nlohmann::ordered_json;

std::string line(const std::string& name, int64_t bytes, uint64_t blocks) {
  char text[160];
  std::snprintf(text, sizeof text, "  %-66s %10.1f MiB", name.c_str(),
                static_cast<double>(bytes) / 1048576);
  std::string row = text;
  if (blocks > 0) row += "  " + grouped(blocks) + " blocks";
  return row + "\n";
}

// Lines of the text format.
class Exposition {
 public:
  void family(const char* name, const char* type, const char* help) {
    name_ = name;
    text_ += std::string("# HELP ") + name + " " + help + "\n# TYPE " + name + " " + type + "\n";
  }
  using Labels = std::vector<std::pair<const char*, std::string>>;
  void sample(const Labels& labels, double value) {
    text_ += name_;
    for (size_t i = 0; i < labels.size(); i++) {
      text_ += i == 0 ? "{" : ",";
      text_ += std::string(labels[i].first) + "=\"" + escaped(labels[i].second) + "\"";
    }
    if (!labels.empty()) text_ += "}";
    char number[40];
    std::snprintf(number, sizeof number, " %.17g\n", value);
    text_ += number;
  }
  std::string take() { return std::move(text_); }

 private:
  static std::string escaped(const std::string& value) {
    std::string out;
    for (const char character : value) {
      if (character == '\n') {
        out += "\\n";
        continue;
      }
      if (character == '"' || character == '\\') out += '\\';
      out += character;
    }
    return out;
  }

  std::string name_;
  std::string text_;
};

void add_devices(const Ledger& ledger, Exposition* out) {
  out->family("cachalot_recorded_device_info", "gauge", "What other tools call a device.");
  for (const DeviceLedger& row : ledger.devices)
    if (row.device) out->sample({{"device", row.bus}, {"gpu_uuid", row.device->gpu_uuid}}, 1);
  out->family("cachalot_recorded_device_total_bytes", "gauge", "Memory of the device.");
  for (const DeviceLedger& row : ledger.devices)
    if (row.device) out->sample({{"device", row.bus}}, static_cast<double>(row.device->total));
  out->family("cachalot_recorded_device_used_bytes", "gauge",
              "Memory of the device in use by all programs, as nvidia-smi shows it.");
  for (const DeviceLedger& row : ledger.devices)
    if (row.device) out->sample({{"device", row.bus}}, static_cast<double>(row.device->used));
  out->family("cachalot_recorded_device_held_bytes", "gauge",
              "Who holds what is in use; the sum over holders is all of it.");
  for (const DeviceLedger& row : ledger.devices)
    for (const Holder& holder : row.holders)
      out->sample({{"device", row.bus}, {"holder", holder.name}},
                  static_cast<double>(holder.bytes));
}

void add_holdings(const Ledger& ledger, Exposition* out) {
  const auto add = [&](const char* name, const char* help, auto value_of) {
    out->family(name, "gauge", help);
    for (const ProcessHolding& row : ledger.holdings)
      out->sample({{"process", std::to_string(row.process)},
                   {"device", row.bus.empty() ? "host" : row.bus},
                   {"call", row.call}},
                  static_cast<double>(value_of(row.holding)));
  };
  add("cachalot_recorded_bytes", "Memory that a process has, as requested.",
      [](const Holding& holding) { return holding.bytes; });
  add("cachalot_recorded_peak_bytes", "The most memory that a process has had, as requested.",
      [](const Holding& holding) { return holding.peak; });
  add("cachalot_recorded_blocks", "Blocks that a process has.",
      [](const Holding& holding) { return holding.blocks; });
}

void add_calls(const Ledger& ledger, Exposition* out) {
  const auto add = [&](const char* name, const char* help, auto value_of) {
    out->family(name, "counter", help);
    for (const auto& [call, sum] : ledger.calls)
      out->sample({{"call", call}}, static_cast<double>(value_of(sum)));
  };
  add("cachalot_recorded_calls_total", "Calls of the driver.",
      [](const CallSum& sum) { return static_cast<double>(sum.calls); });
  add("cachalot_recorded_call_seconds_total", "What the calls took.",
      [](const CallSum& sum) { return static_cast<double>(sum.cost_ns) / 1e9; });
  add("cachalot_recorded_wait_seconds_total", "Of it, for work of the device.",
      [](const CallSum& sum) { return static_cast<double>(sum.wait_ns) / 1e9; });
  out->family("cachalot_recorded_out_of_memory_total", "counter",
              "Requests that the driver refused.");
  out->sample({}, static_cast<double>(ledger.refused));
  out->family(
      "cachalot_recorded_missed_files_total", "counter",
      "Parts of recordings that were overwritten before they were read: their calls are not "
      "counted. A larger --keep makes it none.");
  out->sample({}, static_cast<double>(ledger.missed_files));
  out->family("cachalot_recorded_processes", "gauge", "Processes that are recorded and run.");
  out->sample({}, static_cast<double>(ledger.running));
}

}  // namespace

std::string ledger_text(const Ledger& ledger) {
  std::string text;
  for (const DeviceLedger& row : ledger.devices) {
    text += "device " + row.bus + "\n";
    for (const Holder& holder : row.holders) text += line(holder.name, holder.bytes, holder.blocks);
    if (row.device)
      text += line("in use, of " + mebibytes(row.device->total),
                   static_cast<int64_t>(row.device->used), 0);
  }
  text += "processes\n";
  for (const ProcessHolding& row : ledger.holdings)
    if (row.holding.blocks > 0)
      text += line(
          std::to_string(row.process) + " " + (row.bus.empty() ? "host" : row.bus) + " " + row.call,
          static_cast<int64_t>(row.holding.bytes), row.holding.blocks);
  return text;
}

Json ledger_json(const Ledger& ledger) {
  Json devices = Json::array();
  for (const DeviceLedger& row : ledger.devices) {
    Json device{{"device", row.bus}};
    if (row.device) {
      device["total_bytes"] = row.device->total;
      device["used_bytes"] = row.device->used;
    }
    device["holders"] = Json::array();
    for (const Holder& holder : row.holders)
      device["holders"].push_back(
          {{"holder", holder.name}, {"bytes", holder.bytes}, {"blocks", holder.blocks}});
    devices.push_back(std::move(device));
  }
  Json processes = Json::array();
  for (const ProcessHolding& row : ledger.holdings)
    processes.push_back({{"process", row.process},
                         {"device", row.bus.empty() ? "host" : row.bus},
                         {"call", row.call},
                         {"bytes", row.holding.bytes},
                         {"peak_bytes", row.holding.peak},
                         {"blocks", row.holding.blocks}});
  return {{"devices", devices}, {"processes", processes}, {"out_of_memory", ledger.refused}};
}

std::string ledger_metrics(const Ledger& ledger) {
  Exposition out;
  add_devices(ledger, &out);
  add_holdings(ledger, &out);
  add_calls(ledger, &out);
  return out.take();
}

}  // namespace cachalot::cli
