// SPDX-License-Identifier: MIT OR Apache-2.0
#include "measure_command.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <vector>

#include "../option_value.h"
#include "../progress.h"
#include "measured_device.h"

namespace cachalot::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr unsigned kMostBlocks = 32;
// What a program writes between two calls of the driver: next to nothing, and more than a core's own caches hold.
constexpr size_t kWarm = size_t{1} << 20;
constexpr size_t kCold = size_t{32} << 20;

// Segments and pages: powers of two from a small segment on, and the segment of 20 MiB.
std::vector<uint64_t> sizes_up_to(uint64_t most) {
  std::vector<uint64_t> sizes;
  for (uint64_t size = 2 * kMiB; size <= most; size *= 2) {
    sizes.push_back(size);
    if (size == 16 * kMiB && 20 * kMiB <= most) sizes.push_back(20 * kMiB);
  }
  return sizes;
}

// As many as fit into half of what is free.
unsigned blocks_of(uint64_t size, uint64_t free) {
  return static_cast<unsigned>(std::min<uint64_t>(kMostBlocks, free / 2 / size));
}

double median(std::vector<double> samples) {
  const auto middle = samples.begin() + static_cast<std::ptrdiff_t>(samples.size() / 2);
  std::nth_element(samples.begin(), middle, samples.end());
  return *middle;
}

MeasuredDevice::Samples time_size(MeasuredDevice* device, uint64_t size, unsigned blocks,
                                  unsigned rounds, size_t touched) {
  MeasuredDevice::Samples first;  // the first round is not counted
  MeasuredDevice::Samples samples;
  device->set_touched(touched);
  for (unsigned round = 0; round <= rounds; round++) {
    device->time_plain(size, blocks, round == 0 ? &first : &samples);
    device->time_virtual(size, blocks, round == 0 ? &first : &samples);
  }
  return samples;
}

void add_size(MeasuredDevice* device, uint64_t size, const MeasureCall& call, Json* calls) {
  const unsigned blocks = blocks_of(size, device->free_bytes());
  if (blocks == 0) return;
  const auto warm = time_size(device, size, blocks, call.rounds, kWarm);
  const auto cold = time_size(device, size, blocks, call.rounds, kCold);
  for (const auto& [function, costs] : warm) {
    const bool is_of_range = function == "cuMemAddressReserve" || function == "cuMemAddressFree";
    (*calls)[function].push_back(
        {is_of_range ? size * blocks : size, median(costs), median(cold.at(function))});
  }
}

void sort_rows(Json* calls) {
  for (auto& [function, rows] : calls->items()) {
    std::map<uint64_t, Json> by_size;
    for (const Json& row : rows) by_size[row[0].get<uint64_t>()] = row;
    rows = Json::array();
    for (const auto& [size, row] : by_size) rows.push_back(row);
  }
}

void write(const MeasureCall& call, const std::string& text) {
  if (call.out.empty()) {
    std::fputs(text.c_str(), stdout);
    return;
  }
  std::ofstream file(call.out);
  file << text;
  if (!file.flush()) throw Failure(call.out + ": cannot be written");
}

}  // namespace

void add_measure_command(CLI::App* app, MeasureCall* call) {
  CLI::App* const measure = app->add_subcommand(
      "measure", "Time the driver's calls on the GPU at hand, for the prices of cachalot tune");
  measure->add_option("--device", call->device, "Number of the GPU [0]")->check(CLI::Range(0, 63));
  measure->add_option("-o,--output", call->out, "A file for the JSON object [standard output]");
  add_capacity_option(measure, "--max-size", &call->most_bytes, "Largest size, like 8GiB [8GiB]");
  measure->add_option("--rounds", call->rounds, "Rounds of up to 32 blocks of each size [5]")
      ->check(CLI::Range(1U, 1000U));
}

ExitCode run_measure_command(const MeasureCall& call) {
  MeasuredDevice device(call.device);
  const std::vector<uint64_t> sizes = sizes_up_to(call.most_bytes);
  Json calls;
  ProgressBar bar("measuring");
  for (size_t i = 0; i < sizes.size(); i++) {
    bar.show(i, sizes.size());
    add_size(&device, sizes[i], call, &calls);
  }
  sort_rows(&calls);
  const Json json{{"gpu", device.name()}, {"driver", device.driver_version()}, {"calls", calls}};
  write(call, json.dump() + "\n");
  return kAsExpected;
}

}  // namespace cachalot::cli
