// SPDX-License-Identifier: MIT OR Apache-2.0
// cachalot_verify: replays what the reference did and reports where the library does something
// else.
//
// Exit status: 0 all is as expected, 1 a difference was found, 2 an input or the call is wrong.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "cachalot/cachalot.h"
#include "input_error.h"
#include "replayer.h"
#include "text_file.h"

namespace cachalot::differential {
namespace {

enum ExitStatus { kAsExpected = 0, kDifferent = 1, kFaulty = 2 };

struct CommandLine {
  std::vector<std::string> files;
  ReplayOptions replay;
  bool verbose = false;
  bool table = false;
};

// How many lines of an operation are shown around its first difference.
constexpr size_t kLinesBefore = 3;
constexpr size_t kLinesAfter = 3;

void print_lines(const char* title, const std::vector<std::string>& lines, size_t first) {
  const size_t start = first - std::min(first, kLinesBefore);
  const size_t end = std::min(lines.size(), first + 1 + kLinesAfter);
  std::printf("  %s\n", title);
  if (start > 0) std::printf("      ... %zu lines\n", start);
  for (size_t i = start; i < end; i++)
    std::printf("    %s %s\n", i == first ? ">" : " ", lines[i].c_str());
  if (first >= lines.size()) std::printf("    > (nothing)\n");
  if (end < lines.size()) std::printf("      ... %zu lines\n", lines.size() - end);
}

void print_difference(const std::string& path, const Difference& difference) {
  const size_t line =
      difference.line_number + (difference.expected.empty() ? 0 : difference.first + 1);
  std::printf("%s:%zu: differs at '%s' (line %zu)\n", path.c_str(), line,
              difference.operation.c_str(), difference.line_number);
  print_lines("expected", difference.expected, difference.first);
  print_lines("actual", difference.actual, difference.first);
}

ExitStatus report_verdict(const CommandLine& call, const std::string& path, const Verdict& verdict,
                          Tally& tally) {
  if (verdict.difference) {
    tally.differences++;
    print_difference(path, *verdict.difference);
    return kDifferent;
  }
  if (!verdict.mended.empty()) tally.mended[verdict.mended]++;
  if (!verdict.exempt.empty()) tally.exempt_files++;
  if (!call.verbose) return kAsExpected;
  std::printf("%s: OK%s%s%s%s\n", path.c_str(),
              verdict.mended.empty() ? "" : ", mended: ", verdict.mended.c_str(),
              verdict.exempt.empty() ? "" : ", exempt: ", verdict.exempt.c_str());
  return kAsExpected;
}

ExitStatus verify_file(const CommandLine& call, const std::string& path, Tally& tally) {
  tally.files++;
  try {
    const ExpectedFile file(read_text_file(path));
    return report_verdict(call, path, Replayer(file, call.replay, tally).run(), tally);
  } catch (const InputError& error) {
    tally.faulty_files++;
    const std::string line = error.line() > 0 ? ":" + decimal(error.line()) : "";
    std::printf("%s%s: %s\n", path.c_str(), line.c_str(), error.what());
    return kFaulty;
  }
}

void print_table(const Tally& tally) {
  std::printf("%-20s %12s %12s\n", "operation", "compared", "lines");
  for (const OperationKind& kind : operation_kinds()) {
    const auto found = tally.words.find(kind.word);
    const WordCount count = found == tally.words.end() ? WordCount{} : found->second;
    std::printf("%-20s %12s %12s\n", std::string(kind.word).c_str(),
                decimal(count.operations).c_str(), decimal(count.lines).c_str());
  }
}

void print_summary(const Tally& tally) {
  const WordCount total = tally.total();
  std::string text = decimal(tally.files) + " files, " + decimal(total.operations) +
                     " operations, " + decimal(total.lines) + " lines compared, " +
                     decimal(tally.differences) + " differences";
  for (const auto& [defect, count] : tally.mended)
    text += ", mended " + defect + ": " + decimal(count);
  const auto add = [&](uint64_t count, const char* what) {
    if (count > 0) text += ", " + decimal(count) + " " + what;
  };
  add(tally.exempt_operations, "operations exempt");
  add(tally.exempt_files, "files exempt");
  add(tally.faulty_files, "files faulty");
  std::printf("%s\n", text.c_str());
}

int verify(const CommandLine& call) {
  Tally tally;
  ExitStatus status = kAsExpected;
  for (const std::string& path : call.files) {
    status = std::max(status, verify_file(call, path, tally));
    std::fflush(stdout);
  }
  if (call.table) print_table(tally);
  print_summary(tally);
  return status;
}

int32_t release_of(const std::string& name) {
  return name == "2.11" ? CACHALOT_RELEASE_2_11 : CACHALOT_RELEASE_2_15;
}

int run(int argc, char** argv) {
  CommandLine call;
  std::string release = "2.15";
  CLI::App app("Replays what PyTorch's allocator did, as the oracle printed it, and compares.");
  app.add_option("FILE", call.files, "expected files: plain, .gz or .xz")->required();
  app.add_option("--torch", release, "the release that the files are from")
      ->check(CLI::IsMember({"2.11", "2.15"}))
      ->capture_default_str();
  app.add_flag("--check", call.replay.check, "the library checks itself after each operation");
  app.add_flag("--unobserved", call.replay.unobserved,
               "compares all but events, without observers: the library takes its hot path");
  app.add_flag("--table", call.table, "prints how often each operation was compared");
  app.add_flag("-v,--verbose", call.verbose, "also names the files that are as expected");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kAsExpected : kFaulty;
  }
  call.replay.release = release_of(release);
  return verify(call);
}

}  // namespace
}  // namespace cachalot::differential

int main(int argc, char** argv) {
  try {
    return cachalot::differential::run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "cachalot_verify: %s\n", error.what());
    return cachalot::differential::kFaulty;
  }
}
