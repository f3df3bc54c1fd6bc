// SPDX-License-Identifier: MIT OR Apache-2.0
#include "bench_report.h"

#include <algorithm>
#include <cmath>

#include "text_file.h"

namespace gpu {
namespace {

// The nearest rank of a sorted sample.
double percentile(const std::vector<double>& sorted, double percent) {
  const double rank = std::ceil(percent / 100 * static_cast<double>(sorted.size()));
  return sorted[static_cast<size_t>(std::max(rank, 1.0)) - 1];
}

}  // namespace

void BenchReport::add_rate(const std::string& load, size_t threads, const std::string& contender,
                           double rate) {
  rates_.push_back({{load, threads}, contender, rate});
}

void BenchReport::add_latency(const std::string& call, const std::string& contender,
                              std::vector<double> samples) {
  if (samples.empty()) return add_failure(contender, call + ": no sample");
  std::sort(samples.begin(), samples.end());
  latencies_.push_back({call, contender, samples.size(), percentile(samples, 50),
                        percentile(samples, 99), percentile(samples, 99.9)});
}

void BenchReport::add_failure(const std::string& contender, const std::string& why) {
  const std::string line = contender + ": " + why;
  if (std::find(failures_.begin(), failures_.end(), line) == failures_.end()) {
    failures_.push_back(line);
  }
}

std::vector<BenchReport::Row> BenchReport::rows() const {
  std::vector<Row> rows;
  for (const Rate& rate : rates_) {
    const bool known = std::any_of(rows.begin(), rows.end(), [&](const Row& row) {
      return row.load == rate.row.load && row.threads == rate.row.threads;
    });
    if (!known) rows.push_back(rate.row);
  }
  return rows;
}

double BenchReport::rate_of(const Row& row, const std::string& contender) const {
  for (const Rate& rate : rates_) {
    if (rate.row.load == row.load && rate.row.threads == row.threads &&
        rate.contender == contender) {
      return rate.rate;
    }
  }
  return 0;
}

std::string BenchReport::markdown() const {
  std::string text = "Million pairs of allocation and free a second, all threads together:\n\n";
  text += "| load | threads |";
  for (const std::string& contender : contenders_) text += " " + contender + " |";
  text += "\n| --- | --- |";
  for (size_t i = 0; i < contenders_.size(); i++) text += " --- |";
  text += "\n";
  for (const Row& row : rows()) {
    text += format("| %s | %zu |", row.load.c_str(), row.threads);
    for (const std::string& contender : contenders_) {
      const double rate = rate_of(row, contender);
      text += rate > 0 ? format(rate < 0.1 ? " %.4f |" : " %.2f |", rate) : " – |";
    }
    text += "\n";
  }
  text += "\nLatency of one call on one thread, ns, the clock's own time included:\n\n";
  text +=
      "| call | allocator | p50 | p99 | p99.9 | samples |\n| --- | --- | --- | --- | --- | --- |\n";
  for (const Latency& latency : latencies_) {
    text +=
        format("| %s | %s | %.0f | %.0f | %.0f | %zu |\n", latency.call.c_str(),
               latency.contender.c_str(), latency.p50, latency.p99, latency.p999, latency.samples);
  }
  return text;
}

std::string BenchReport::csv() const {
  std::string text = "what,threads,allocator,figure,value\n";
  for (const Rate& rate : rates_) {
    text += format("\"%s\",%zu,\"%s\",million_pairs_a_second,%.6f\n", rate.row.load.c_str(),
                   rate.row.threads, rate.contender.c_str(), rate.rate);
  }
  for (const Latency& latency : latencies_) {
    const auto line = [&](const char* figure, double value) {
      return format("\"%s\",1,\"%s\",%s,%.0f\n", latency.call.c_str(), latency.contender.c_str(),
                    figure, value);
    };
    text += line("p50_ns", latency.p50) + line("p99_ns", latency.p99);
    text += line("p99.9_ns", latency.p999);
    text += line("samples", static_cast<double>(latency.samples));
  }
  return text;
}

void BenchReport::write(const std::string& folder) const {
  const std::string table = markdown();
  fputs(table.c_str(), stdout);
  write_file(folder + "/bench.md", table);
  write_file(folder + "/bench.csv", csv());
}

bool BenchReport::judge(const std::string& ours, const std::string& theirs, double required) const {
  for (const std::string& failure : failures_) printf("failed: %s\n", failure.c_str());
  double lowest = INFINITY;
  Row where = {"", 0};
  for (const Row& row : rows()) {
    const double our_rate = rate_of(row, ours);
    const double their_rate = rate_of(row, theirs);
    if (our_rate <= 0 || their_rate <= 0 || our_rate / their_rate >= lowest) continue;
    lowest = our_rate / their_rate;
    where = row;
  }
  if (std::isinf(lowest)) {
    printf("%s and %s have no row in common\n", ours.c_str(), theirs.c_str());
    return failures_.empty() && required == 0;
  }
  printf("%s is at least %.1f times as fast as %s (%s, %zu threads); required are %.1f\n",
         ours.c_str(), lowest, theirs.c_str(), where.load.c_str(), where.threads, required);
  return failures_.empty() && lowest >= required;
}

const BenchReport::Latency* BenchReport::latency_of(const std::string& call,
                                                    const std::string& contender) const {
  const auto found =
      std::find_if(latencies_.begin(), latencies_.end(), [&](const Latency& latency) {
        return latency.call == call && latency.contender == contender;
      });
  return found == latencies_.end() ? nullptr : &*found;
}

bool BenchReport::judge_latency(const std::string& call, const std::string& ours,
                                const std::string& theirs, double percent) const {
  const Latency* const our_latency = latency_of(call, ours);
  const Latency* const their_latency = latency_of(call, theirs);
  if (!our_latency || !their_latency) return true;
  const double measured = 100 * our_latency->p50 / their_latency->p50;
  printf("%s of %s takes %.1f %% of that of %s; allowed are %.0f\n", call.c_str(), ours.c_str(),
         measured, theirs.c_str(), percent);
  return percent == 0 || measured <= percent;
}

}  // namespace gpu
