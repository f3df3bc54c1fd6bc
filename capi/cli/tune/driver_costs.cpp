// SPDX-License-Identifier: MIT OR Apache-2.0
#include "driver_costs.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "../failure.h"
#include "measured_costs.h"

namespace cachalot::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMostBytes = size_t{1} << 20;  // of a file of costs

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file)
    throw Failure("'" + path +
                  "' is neither H100, H200 nor a file that cachalot measure has written");
  std::string text(std::istreambuf_iterator<char>(file), {});
  if (text.size() > kMostBytes) throw Failure(path + ": a file of costs has at most 1 MiB");
  return text;
}

// The longer a program works between two calls, the less of what the driver needs is in the processor's caches. Between
// these two the cost grows with the logarithm of the time (docs/gpu.md).
constexpr double kWarmUs = 100;
constexpr double kColdUs = 10000;
constexpr double kMiddle = 1.41;  // of a gap that was rounded down to a power of two

// Of a call behind such a gap: 0 is warm, 1 cold.
double coldness(uint64_t gap_us) {
  const double us = std::clamp(static_cast<double>(gap_us) * kMiddle, kWarmUs, kColdUs);
  return std::log(us / kWarmUs) / std::log(kColdUs / kWarmUs);
}

double between(double a, double b, double share) { return a + share * (b - a); }

DriverCosts::Point on_line(const DriverCosts::Point& a, const DriverCosts::Point& b,
                           uint64_t size) {
  const double share = static_cast<double>(size - a.size) / static_cast<double>(b.size - a.size);
  return {size, between(a.warm_ns, b.warm_ns, share), between(a.cold_ns, b.cold_ns, share)};
}

std::vector<DriverCosts::Point> read_points(const Json& rows, const std::string& name) {
  std::vector<DriverCosts::Point> points;
  for (const Json& row : rows) {
    const DriverCosts::Point point{row.at(0).get<uint64_t>(), row.at(1).get<double>(),
                                   row.at(2).get<double>()};
    if (!(point.warm_ns >= 0 && point.cold_ns >= 0)) throw Failure(name + ": a cost is below 0");
    if (!points.empty() && points.back().size >= point.size)
      throw Failure(name + ": sizes of a function do not ascend");
    points.push_back(point);
  }
  if (points.empty()) throw Failure(name + ": a function has no costs");
  return points;
}

}  // namespace

DriverCosts DriverCosts::of(const std::string& gpu_or_file) {
  for (const MeasuredCosts& measured : kMeasuredCosts)
    if (gpu_or_file == measured.gpu) return parse(measured.json, measured.gpu);
  return parse(read_file(gpu_or_file), gpu_or_file);
}

// {"gpu": NAME, "calls": {FUNCTION: [[BYTES, NANOSECONDS WARM, COLD], ...]}}
DriverCosts DriverCosts::parse(const std::string& json, const std::string& name) {
  DriverCosts costs;
  costs.name_ = name;
  try {
    const Json file = Json::parse(json);
    for (const auto& [function, rows] : file.at("calls").items())
      costs.points_[function] = read_points(rows, name);
  } catch (const Json::exception& error) {
    throw Failure(name + ": not a file that cachalot measure has written: " + error.what());
  }
  return costs;
}

DriverCosts::Point DriverCosts::at(const std::string& function, uint64_t size) const {
  const auto found = points_.find(function);
  if (found == points_.end()) return {size, 0, 0};
  const std::vector<Point>& points = found->second;
  const auto above = std::find_if(points.begin(), points.end(),
                                  [size](const Point& point) { return point.size >= size; });
  if (above == points.begin()) return {size, above->warm_ns, above->cold_ns};
  if (above != points.end()) return on_line(*std::prev(above), *above, size);
  const Point& last = points.back();
  const double factor = static_cast<double>(size) / static_cast<double>(last.size);
  return {size, last.warm_ns * factor, last.cold_ns * factor};
}

double DriverCosts::ns(const std::vector<cachalot_replay_call>& calls) const {
  double sum = 0;
  for (const cachalot_replay_call& call : calls) {
    const Point cost = at(call.function, call.size);
    sum += static_cast<double>(call.count) *
           between(cost.warm_ns, cost.cold_ns, coldness(call.gap_us));
  }
  return sum;
}

}  // namespace cachalot::cli
