// SPDX-License-Identifier: MIT OR Apache-2.0
#include "measure_command.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <vector>

#include "../numbers.h"
#include "../option_value.h"
#include "../progress.h"
#include "measured_device.h"

namespace cachalot::cli {
namespace {

using Json = nlohmann::ordered_json;

// What a program writes between two calls of the driver: next to nothing, and more than the processor's caches hold,
// which takes ten milliseconds and more.
struct Work {
  size_t touched;
  unsigned most_blocks;
};
constexpr Work kWarm{.touched = size_t{1} << 20, .most_blocks = 32};
constexpr Work kCold{.touched = size_t{128} << 20, .most_blocks = 8};

// Segments and pages: powers of two from a small segment on, and the segment of 20 MiB.
std::vector<uint64_t> sizes_up_to(uint64_t most) {
  std::vector<uint64_t> sizes;
  for (uint64_t size = 2 * kMiB; size <= most; size *= 2) {
    sizes.push_back(size);
    if (size == 16 * kMiB && 20 * kMiB <= most) sizes.push_back(20 * kMiB);
  }
  return sizes;
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

struct Cost {
  double warm_ns;
  double cold_ns;
};
using Costs = std::map<std::string, std::map<uint64_t, Cost>>;  // by function and size

void add_size(MeasuredDevice* device, uint64_t size, unsigned rounds, Costs* costs) {
  const uint64_t room = device->free_bytes() / 2 / size;
  if (room == 0) return;
  const auto blocks = [room](const Work& work) {
    return static_cast<unsigned>(std::min<uint64_t>(work.most_blocks, room));
  };
  const auto warm = time_size(device, size, blocks(kWarm), rounds, kWarm.touched);
  const auto cold = time_size(device, size, blocks(kCold), rounds, kCold.touched);
  for (const auto& [function, samples] : warm) {
    const bool is_of_range = function == "cuMemAddressReserve" || function == "cuMemAddressFree";
    (*costs)[function][is_of_range ? size * blocks(kWarm) : size] = {median(samples),
                                                                     median(cold.at(function))};
  }
}

Json json_of(const Costs& costs) {
  Json json;
  for (const auto& [function, by_size] : costs)
    for (const auto& [size, cost] : by_size)
      json[function].push_back({size, cost.warm_ns, cost.cold_ns});
  return json;
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
  Costs costs;
  ProgressBar bar("measuring");
  for (size_t i = 0; i < sizes.size(); i++) {
    bar.show(i, sizes.size());
    add_size(&device, sizes[i], call.rounds, &costs);
  }
  const Json json{
      {"gpu", device.name()}, {"driver", device.driver_version()}, {"calls", json_of(costs)}};
  write(call, json.dump() + "\n");
  return kAsExpected;
}

}  // namespace cachalot::cli
