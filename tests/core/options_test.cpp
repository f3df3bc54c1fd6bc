// SPDX-License-Identifier: MIT OR Apache-2.0
// tests/data/option_cases.txt has what PyTorch's own parser makes of 200 strings; here are besides
// the option that only we accept, the checks of settings given as numbers, and docs/config.md.
#include "alloc/config/options.h"

#include <gtest/gtest.h>

#include <clocale>
#include <cstdlib>
#include <limits>
#include <locale>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "alloc/config/option_reader.h"
#include "alloc/config/option_table.h"
#include "base/error.h"
#include "base/text.h"
#include "test_data.h"

namespace cachalot {
namespace {

const Rules kOld = rules_of(Release::k2_11);
const Rules kNew = rules_of(Release::k2_15);

// ---- Settings as option_cases.txt has them

constexpr double kDeviceBytes = 8.0 * GiB;

std::string number(uint64_t value) { return std::to_string(value); }
std::string number(double value) { return format("%.17g", value); }

std::string reserve_bytes(const Reserve& reserve) {
  return number(static_cast<uint64_t>(reserve.value * (reserve.is_fraction ? kDeviceBytes : GiB)));
}

class SettingsText {
 public:
  template <typename Value>
  void add(const char* name, const Value& value, const Value& by_default) {
    if (value != by_default) add_text(name, number(value));
  }
  void add(const char* name, bool value, bool) {
    if (value) add_text(name, "1");
  }
  void add_text(const std::string& name, const std::string& value) {
    text_ += " " + name + "=" + value;
  }

  std::string text() const { return "settings" + (text_.empty() ? " default" : text_); }

 private:
  std::string text_;
};

void add_round(const Settings& settings, SettingsText* text) {
  if (settings.roundup_power2_divisions == Settings().roundup_power2_divisions) return;
  std::string slots;
  for (const uint64_t slot : settings.roundup_power2_divisions)
    slots += (slots.empty() ? "" : ",") + number(slot);
  text->add_text("round", slots);
}

std::string text_of(const Settings& settings) {
  const Settings none;
  SettingsText text;
  if (settings.max_split_size != none.max_split_size)
    text.add_text("max_split", std::to_string(settings.shown_max_split_size()));
  text.add("gc", settings.garbage_collection_threshold, none.garbage_collection_threshold);
  text.add("expandable", settings.expandable_segments, false);
  text.add("threads", settings.pinned_num_register_threads, none.pinned_num_register_threads);
  text.add("release_lock", settings.release_lock_on_cudamalloc, false);
  text.add("host_register", settings.pinned_use_cuda_host_register, false);
  text.add("reuse", settings.graph_capture_record_stream_reuse, false);
  add_round(settings, &text);
  text.add("large_segment", settings.large_segment_size, none.large_segment_size);
  text.add("non_split_rounding", settings.max_non_split_rounding_size,
           none.max_non_split_rounding_size);
  text.add("background", settings.pinned_use_background_threads, false);
  // A fraction may be minus zero.
  if (number(settings.per_process_memory_fraction) != "1")
    text.add_text("fraction", number(settings.per_process_memory_fraction));
  text.add("reserve_segment", settings.pinned_reserve_segment_size_mb,
           none.pinned_reserve_segment_size_mb);
  text.add("throw_on_cudamalloc_oom", settings.throw_on_cudamalloc_oom, false);
  text.add("pinned_free_catch_all", settings.pinned_free_catch_all, false);
  text.add("max_round_threshold", settings.pinned_max_round_threshold,
           none.pinned_max_round_threshold);
  text.add("max_cached_size", settings.pinned_max_cached_size, none.pinned_max_cached_size);
  if (settings.expandable_segments_reserve)
    text.add_text("reserve", reserve_bytes(*settings.expandable_segments_reserve));
  for (const auto& [name, reserve] : settings.expandable_segments_reserve_by_class)
    text.add_text("reserve." + name, reserve_bytes(reserve));
  return text.text();
}

// ---- One step of a case

std::string text_of(const Error& error) {
  const std::string& message = error.message();
  if (error.status() == Status::kInvalidState) return "error other backend";
  EXPECT_EQ(error.status(), Status::kInvalidArgument);
  if (message.rfind("The option string ends too early", 0) == 0) return "error ends too early";
  return "error \"" + message + "\"";
}

std::vector<std::string> run_step(const std::string& word, const std::string& text,
                                  const Rules& rules, Settings* settings) {
  std::vector<std::string> lines;
  const auto warn = [&](const std::string& warning) {
    lines.push_back("warning \"" + warning + "\"");
  };
  const bool is_creation = word == "create";
  const auto moment = is_creation ? OptionMoment::kCreation : OptionMoment::kRunTime;
  try {
    if (is_creation && chooses_async_backend(text)) return {"chooses cudaMallocAsync"};
    apply_options(text, moment, rules, settings, warn);
  } catch (const Error& error) {
    lines.push_back(text_of(error));
    if (is_creation) return lines;
  }
  lines.push_back(text_of(*settings));
  return lines;
}

// Plays one release's part of the file, and gives it back as it should stand there.
class CasePlayer {
 public:
  CasePlayer(const std::string& release, const Rules& rules) : release_(release), rules_(rules) {}

  void play(const std::string& word, const std::string& text) {
    finish_step();
    step_ = word + " " + text;
    if (word != "then") settings_ = Settings();
    actual_ = run_step(word, text, rules_, &settings_);
  }

  void expect(const std::string& mark, const std::string& line) {
    if (mark == "*" || mark == release_) expected_.push_back(line);
  }

  void finish_step() {
    EXPECT_EQ(actual_, expected_) << release_ << ": " << step_;
    expected_.clear();
    actual_.clear();
    ++steps_;
  }

  int steps() const { return steps_; }

 private:
  std::string release_;
  Rules rules_;
  std::string step_;
  Settings settings_;
  std::vector<std::string> actual_;
  std::vector<std::string> expected_;
  int steps_ = 0;
};

void play_all_cases(CasePlayer* player) {
  std::istringstream file(read_source_file("tests/data/option_cases.txt"));
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#') continue;
    const bool is_answer = line[0] == ' ';
    if (is_answer) line.erase(0, 2);
    const size_t space = std::min(line.find(' '), line.size());
    const std::string word = line.substr(0, space);
    const std::string rest = space < line.size() ? line.substr(space + 1) : "";
    is_answer ? player->expect(word, rest) : player->play(word, rest);
  }
  player->finish_step();
  EXPECT_GT(player->steps(), 200);
}

TEST(Options, AreReadAsByPyTorch2_11) {
  CasePlayer player("2.11", kOld);
  play_all_cases(&player);
}

TEST(Options, AreReadAsByPyTorch2_15) {
  CasePlayer player("2.15", kNew);
  play_all_cases(&player);
}

// ---- What option_cases.txt does not have

Settings applied(const std::string& text, const Rules& rules = kNew) {
  Settings settings;
  apply_options(text, OptionMoment::kRunTime, rules, &settings, nullptr);
  return settings;
}

std::string error_of(const std::string& text) {
  try {
    applied(text);
  } catch (const Error& error) {
    return error.message();
  }
  return "";
}

TEST(Options, KeepTheLastStringWordForWord) {
  Settings settings = applied(" max_split_size_mb : 64 ");
  EXPECT_EQ(settings.config, " max_split_size_mb : 64 ");
  EXPECT_THROW(apply_options("foo:1", OptionMoment::kRunTime, kNew, &settings, nullptr), Error);
  EXPECT_EQ(settings.config, "foo:1");
}

TEST(Options, SayWhereAStringEndsTooEarly) {
  EXPECT_EQ(error_of("expandable_segments:True,backend:"),
            "The option string ends too early, after 6 tokens");
}

TEST(Options, DoNotNeedSomebodyWhoListensToWarnings) {
  EXPECT_FALSE(applied("expandable_segments_reserve:x").expandable_segments_reserve);
}

TEST(Options, DropEveryKindOfWhiteSpace) {
  EXPECT_TRUE(applied("expandable\t_segments\n:\v\f\rTrue ").expandable_segments);
}

TEST(RoundupBypass, IsKnownToEveryRelease) {
  for (const Rules& rules : {kOld, kNew}) {
    EXPECT_EQ(applied("", rules).roundup_bypass_threshold, kUnlimited);
    EXPECT_EQ(applied("roundup_bypass_threshold_mb:1280", rules).roundup_bypass_threshold,
              1280 * MiB);
  }
}

TEST(RoundupBypass, IsReadLikeASizeWithoutALowerBound) {
  EXPECT_EQ(applied("roundup_bypass_threshold_mb:0").roundup_bypass_threshold, 0u);
  EXPECT_EQ(applied("roundup_bypass_threshold_mb:-1").roundup_bypass_threshold,
            UINT64_MAX / MiB * MiB);
  EXPECT_EQ(error_of("roundup_bypass_threshold_mb:x"), "stoull");
}

TEST(RoundupBypass, IsResetByAStringThatDoesNotNameIt) {
  Settings settings = applied("roundup_bypass_threshold_mb:64");
  apply_options("backend:native", OptionMoment::kRunTime, kNew, &settings, nullptr);
  EXPECT_EQ(settings.roundup_bypass_threshold, kUnlimited);
}

// ---- Locales

struct CommaPoint : std::numpunct<char> {
  char do_decimal_point() const override { return ','; }
  char do_thousands_sep() const override { return '.'; }
  std::string do_grouping() const override { return "\3"; }
};

TEST(Options, DoNotDependOnTheLocaleOfCpp) {
  const std::locale before =
      std::locale::global(std::locale(std::locale::classic(), new CommaPoint));
  const Settings settings =
      applied("garbage_collection_threshold:0.5,expandable_segments_reserve:0.25");
  std::locale::global(before);
  EXPECT_EQ(settings.garbage_collection_threshold, 0.5);
  EXPECT_EQ(settings.expandable_segments_reserve->value, 0.25);
}

TEST(Options, DoNotDependOnTheLocaleOfC) {
  const std::string before = std::setlocale(LC_ALL, nullptr);
  const bool has_comma =
      std::setlocale(LC_ALL, "de_DE.UTF-8") || std::setlocale(LC_ALL, "fr_FR.UTF-8");
  const Settings settings = applied("garbage_collection_threshold:0.5");
  std::setlocale(LC_ALL, before.c_str());
  EXPECT_EQ(settings.garbage_collection_threshold, 0.5);
  if (has_comma) return;
  if (std::getenv("CI")) FAIL() << "no locale with a decimal comma, and CI is set";
  GTEST_SKIP() << "no locale with a decimal comma is installed";
}

// ---- Tokens

TEST(OptionTokens, AreSeparatorsAndWords) {
  EXPECT_EQ(split_options("a:[b c,],"),
            std::vector<std::string>({"a", ":", "[", "bc", ",", "]", ","}));
  EXPECT_TRUE(split_options(" \n").empty());
}

// ---- Settings as numbers

std::string check_error(const Settings& settings, const Rules& rules = kNew) {
  try {
    check_settings(settings, rules);
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), Status::kInvalidArgument);
    return error.message();
  }
  return "";
}

// The default settings with one field changed.
template <typename Value>
Settings with(Value Settings::*field, const Value& value) {
  Settings settings;
  settings.*field = value;
  return settings;
}

TEST(CheckSettings, AcceptsTheDefaultsAndWhatStringsGive) {
  EXPECT_EQ(check_error(Settings(), kOld), "");
  EXPECT_EQ(check_error(applied("large_segment_size_mb:30,max_split_size_mb:-1,"
                                "garbage_collection_threshold:0.1,roundup_power2_divisions:[64:8],"
                                "pinned_num_register_threads:128,per_process_memory_fraction:0,"
                                "expandable_segments_reserve:1G,"
                                "expandable_segments_reserve_by_class:[a:2],"
                                "throw_on_cudamalloc_oom:True,pinned_max_cached_size_mb:0")),
            "");
}

TEST(CheckSettings, RefusesSizesOutOfTheirRange) {
  EXPECT_EQ(check_error(with(&Settings::max_split_size, 20 * MiB - 1)),
            "CachingAllocator option max_split_size_mb too small, must be >= 20");
  EXPECT_EQ(check_error(with(&Settings::max_non_split_rounding_size, uint64_t{0})),
            "CachingAllocator option max_non_split_rounding_mb too small, must be >= 20");
  EXPECT_EQ(check_error(with(&Settings::large_segment_size, 10 * MiB)),
            "CachingAllocator option large_segment_size_mb must be > 10 MB");
  EXPECT_EQ(check_error(with(&Settings::large_segment_size, 11 * MiB + 512)),
            "large_segment_size must be a multiple of 1 MiB, got 11534848 bytes");
}

TEST(CheckSettings, RefusesFractionsOutOfTheirRange) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const double wrong : {nan, 1.0, -0.5})
    EXPECT_EQ(check_error(with(&Settings::garbage_collection_threshold, wrong)),
              "garbage_collect_threshold is invalid, set it in (0.0, 1.0)");
  for (const double wrong : {nan, 1.5, -0.5})
    EXPECT_EQ(check_error(with(&Settings::per_process_memory_fraction, wrong)),
              "per_process_memory_fraction is invalid, set it in [0.0, 1.0]");
}

TEST(CheckSettings, RefusesNumbersThatAreNoPowersOfTwo) {
  Settings settings;
  settings.roundup_power2_divisions[15] = 3;
  EXPECT_EQ(check_error(settings),
            "For roundups, the divisions has to be power of 2 or 0 to disable roundup ");
  EXPECT_EQ(check_error(with(&Settings::pinned_num_register_threads, uint64_t{0})),
            "Number of register threads has to be power of 2, got 0");
  EXPECT_EQ(check_error(with(&Settings::pinned_num_register_threads, uint64_t{256})),
            "Number of register threads should be less than or equal to 128, got 256");
}

TEST(CheckSettings, RefusesReservesThatAreNotPositiveAndFinite) {
  const double infinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(check_error(with(&Settings::expandable_segments_reserve, {Reserve{false, infinity}})),
            "expandable_segments_reserve must be positive and finite, got inf");
  EXPECT_EQ(
      check_error(with(&Settings::expandable_segments_reserve_by_class, {{"a", Reserve{true, 0}}})),
      "expandable_segments_reserve must be positive and finite, got 0");
}

TEST(CheckSettings, RefusesOptionsOfLaterReleases) {
  EXPECT_EQ(check_error(with(&Settings::throw_on_cudamalloc_oom, true), kOld),
            "Unrecognized key 'throw_on_cudamalloc_oom' in Accelerator allocator config.");
  EXPECT_EQ(check_error(with(&Settings::pinned_max_cached_size, 0 * MiB), kOld),
            "Unrecognized key 'pinned_max_cached_size_mb' in Accelerator allocator config.");
}

// ---- docs/config.md

// The cells of the rows whose first cell is a key, by key.
std::map<std::string, std::vector<std::string>> documented_options() {
  std::map<std::string, std::vector<std::string>> rows;
  std::istringstream file(read_source_file("docs/config.md"));
  for (std::string line; std::getline(file, line) && line != "## What each does";) {
    if (line.rfind("| `", 0) != 0) continue;
    std::vector<std::string> cells;
    std::istringstream row(line.substr(1));
    for (std::string cell; std::getline(row, cell, '|');)
      cells.push_back(cell.size() > 2 ? cell.substr(1, cell.size() - 2) : "");
    rows[cells[0].substr(1, cells[0].size() - 2)] = cells;
  }
  return rows;
}

// A value of each option that is not its default.
const std::map<std::string, std::string> kValues = {
    {"max_split_size_mb", "64"},
    {"max_non_split_rounding_mb", "64"},
    {"large_segment_size_mb", "64"},
    {"garbage_collection_threshold", "0.5"},
    {"roundup_power2_divisions", "8"},
    {"roundup_bypass_threshold_mb", "64"},
    {"expandable_segments_reserve", "0.5"},
    {"expandable_segments_reserve_by_class", "[a:0.5]"},
    {"per_process_memory_fraction", "0.5"},
    {"backend", "native"},
    {"pinned_max_round_threshold_mb", "64"},
    {"pinned_max_cached_size_mb", "64"},
    {"pinned_num_register_threads", "8"},
    {"pinned_reserve_segment_size_mb", "8"},
};

std::string full_text(const Settings& settings) {
  return text_of(settings) + number(settings.roundup_bypass_threshold);
}

TEST(OptionDocs, HaveARowForEachOptionAndNoOther) {
  const auto rows = documented_options();
  for (const Option& option : option_table())
    EXPECT_TRUE(rows.count(std::string(option.key))) << option.key;
  EXPECT_EQ(rows.size(), option_table().size());
}

TEST(OptionDocs, SayWhichOptionsAreReset) {
  for (const auto& [key, cells] : documented_options()) {
    const auto value = kValues.find(key);
    Settings settings = applied(key + ":" + (value == kValues.end() ? "True" : value->second));
    const std::string before = full_text(settings);
    EXPECT_EQ(before == full_text(Settings()), key == "backend") << key;
    apply_options("", OptionMoment::kRunTime, kNew, &settings, nullptr);
    EXPECT_EQ(cells.at(4), full_text(settings) == before ? "kept" : "reset") << key;
  }
}

TEST(OptionDocs, SayWhichOptionsAreOfALaterRelease) {
  for (const auto& [key, cells] : documented_options()) {
    const std::string& since = cells.at(3);
    const bool is_new = since == "2.12" || since == "2.13" || since == "2.15";
    EXPECT_EQ(find_option(key, kOld) == nullptr, is_new) << key;
    EXPECT_NE(find_option(key, kNew), nullptr) << key;
  }
}

}  // namespace
}  // namespace cachalot
