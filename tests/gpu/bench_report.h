// SPDX-License-Identifier: MIT OR Apache-2.0
// The figures of a benchmark run as a table of Markdown and as CSV.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace gpu {

class BenchReport {
 public:
  // Columns, in this order.
  void add_contender(const std::string& name) { contenders_.push_back(name); }
  // Million pairs a second.
  void add_rate(const std::string& load, size_t threads, const std::string& contender, double rate);
  // Nanoseconds; not sorted.
  void add_latency(const std::string& call, const std::string& contender,
                   std::vector<double> samples);
  void add_failure(const std::string& contender, const std::string& why);

  // Writes bench.md, also to the standard output, and bench.csv into a folder.
  void write(const std::string& folder) const;
  // Whether nothing failed and, if `required` is not 0, each rate of `ours` is at least so many times
  // that of `theirs`. Prints a line that says so.
  bool judge(const std::string& ours, const std::string& theirs, double required) const;
  // Whether the median of `ours` is at most so many percent of that of `theirs`; without one of the
  // two, or with 0 percent, it is. Prints a line that says so.
  bool judge_latency(const std::string& call, const std::string& ours, const std::string& theirs,
                     double percent) const;

 private:
  struct Row {
    std::string load;
    size_t threads;
  };
  struct Rate {
    Row row;
    std::string contender;
    double rate;
  };
  struct Latency {
    std::string call;
    std::string contender;
    size_t samples;
    double p50;
    double p99;
    double p999;
  };

  std::vector<Row> rows() const;
  // 0 if it was not measured.
  double rate_of(const Row& row, const std::string& contender) const;
  // Null if it was not measured.
  const Latency* latency_of(const std::string& call, const std::string& contender) const;
  std::string markdown() const;
  std::string csv() const;

  std::vector<std::string> contenders_;
  std::vector<Rate> rates_;
  std::vector<Latency> latencies_;
  std::vector<std::string> failures_;
};

}  // namespace gpu
