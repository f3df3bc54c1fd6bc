// SPDX-License-Identifier: MIT OR Apache-2.0
#include "tune.h"

#include <algorithm>
#include <array>
#include <functional>
#include <utility>

#include "../failure.h"
#include "../numbers.h"
#include "../options_check.h"
#include "varied_run.h"

namespace cachalot::cli {
namespace {

constexpr uint64_t kDefaultDevice = uint64_t{80} << 30;
constexpr unsigned kVariedRuns = 8;
constexpr double kVariedRoom = 1.02;
constexpr size_t kVerified = 3;  // strings of a search that are looked at on all devices

// PyTorch's defaults, and what its users are told to try; pages of 12 MiB are our own advice (README).
constexpr std::array kUsual{"",
                            "expandable_segments:True",
                            "expandable_segments:True,large_segment_size_mb:12",
                            "max_split_size_mb:128",
                            "max_split_size_mb:64",
                            "garbage_collection_threshold:0.8,per_process_memory_fraction:0.999",
                            "roundup_power2_divisions:4"};

// Besides them what cachalot itself has, and what the caller names.
std::vector<OptionString> asked_for(const TuneCall& call) {
  std::vector<OptionString> strings;
  const auto add = [&](const std::string& config, const std::string& policy) {
    const OptionString string{.config = config, .policy = policy};
    if (std::find(strings.begin(), strings.end(), string) == strings.end())
      strings.push_back(string);
  };
  if (!call.only_these) {
    for (const char* const config : kUsual) add(config, "");
    add("", "serving");
  }
  for (const std::string& config : call.configs) add(config, "");
  for (const std::string& policy : call.policies) add("", policy);
  if (strings.empty()) throw Failure("--only needs a --config or a --policy");
  for (const OptionString& string : strings)
    check_options(string.config,
                  string.is_of_pytorch() ? cachalot_policy{} : read_policy(string.policy));
  return strings;
}

uint64_t device_of(const TunedRun& run, const TuneCall& call) {
  if (call.capacity != 0) return call.capacity;
  return run.info().device_total != 0 ? run.info().device_total : kDefaultDevice;
}

// The best ones, of each kind of segments at least one.
std::vector<OptionSearch::Found> worth_verifying(const std::vector<OptionSearch::Found>& found) {
  std::vector<OptionSearch::Found> chosen;
  for (const OptionSearch::Found& one : found) {
    const bool is_new_kind =
        std::none_of(chosen.begin(), chosen.end(), [&](const OptionSearch::Found& other) {
          return other.options.expandable_segments == one.options.expandable_segments;
        });
    if (is_new_kind || chosen.size() < kVerified) chosen.push_back(one);
  }
  return chosen;
}

}  // namespace

const TunedRow* Tuned::row_of(const OptionString& options) const {
  const auto row = std::find_if(rows.begin(), rows.end(),
                                [&](const TunedRow& one) { return one.options == options; });
  return row == rows.end() ? nullptr : &*row;
}

namespace {

class Tuning {
 public:
  Tuning(const TuneCall& call, const DriverCosts& costs)
      : call_(call), costs_(costs), jobs_(call.threads), asked_for_(asked_for(call)) {}

  TuneResult run() {
    read(call_.files, &result_.runs);
    for (const TunedRun& run : result_.runs) result_.single.push_back(empty({&run}));
    look_at_asked();
    search();
    if (result_.runs.size() > 1) join();
    for (Tuned& tuned : result_.single) advise(&tuned);
    if (result_.together) advise(&*result_.together);
    check_held_back();
    result_.is_complete = !Cancellation::is_set();
    return std::move(result_);
  }

 private:
  // One after another: their texts take more memory than the runs.
  void read(const std::vector<std::string>& files, std::vector<TunedRun>* runs) {
    runs->reserve(files.size());
    for (const std::string& file : files)
      runs->emplace_back(file, release_of(call_.release), &Cancellation::flag());
  }

  Tuned empty(std::vector<const TunedRun*> runs) const {
    uint64_t device = 0;
    for (const TunedRun* run : runs) device = std::max(device, device_of(*run, call_));
    if (call_.reserve >= device)
      throw Failure("--reserve takes " + gibibytes(call_.reserve) + " of a device of " +
                    gibibytes(device));
    return {.runs = std::move(runs),
            .device = device,
            .usable = device - call_.reserve,
            .rows = {},
            .recommended = {}};
  }

  TunedRow look_at(const TunedRun& run, const OptionString& options, uint64_t usable) const {
    TunedRow row{.options = options, .capacity = smallest_capacity(run, options)};
    const Trial trial = run.run(options, usable);
    row.out_of_memory = trial.out_of_memory;
    row.retries = trial.retries;
    row.driver_calls = trial.driver_calls;
    row.cost_ms = costs_.ns(trial.calls) / 1e6;
    row.reserved = trial.peak_device;
    row.left = usable - std::min(usable, trial.peak_device);
    return row;
  }

  // Rows in the order of the strings; those that the user's stop has left out are missing.
  void look_at_all(const std::string& label,
                   const std::vector<std::pair<Tuned*, OptionString>>& work) {
    std::vector<std::optional<TunedRow>> rows(work.size());
    std::vector<std::function<void()>> jobs;
    for (size_t i = 0; i < work.size(); i++)
      jobs.emplace_back([this, &rows, &work, i] {
        const Tuned& tuned = *work[i].first;
        rows[i] = look_at(*tuned.runs.front(), work[i].second, tuned.usable);
      });
    jobs_.run(label, jobs);
    for (size_t i = 0; i < work.size(); i++)
      if (rows[i]) work[i].first->rows.push_back(*rows[i]);
  }

  void look_at_asked() {
    std::vector<std::pair<Tuned*, OptionString>> work;
    for (const OptionString& options : asked_for_)
      for (Tuned& tuned : result_.single) work.emplace_back(&tuned, options);
    look_at_all("replaying", work);
  }

  // Of PyTorch's strings so far.
  static uint64_t least(const Tuned& tuned) {
    uint64_t least = UINT64_MAX;
    for (const TunedRow& row : tuned.rows)
      if (row.options.is_of_pytorch()) least = std::min(least, row.capacity.fits);
    return least;
  }

  // All runs at the same time: a search alone leaves threads idle at the end of each of its rounds.
  void search() {
    const bool are_several = result_.single.size() > 1;
    std::vector<std::function<void()>> work;
    for (Tuned& tuned : result_.single)
      work.emplace_back(
          [this, &tuned, are_several] { search(&tuned, are_several ? "" : "searching"); });
    Jobs(call_.threads).run(are_several ? "searching" : "", work);
  }

  void search(Tuned* tuned, const std::string& label) {
    if (call_.search.strings == 0 || least(*tuned) == UINT64_MAX || Cancellation::is_set()) return;
    OptionSearch search(*tuned->runs.front(), least(*tuned), call_.search);
    std::vector<std::pair<Tuned*, OptionString>> work;
    for (const OptionSearch::Found& found : worth_verifying(search.search(&jobs_, label))) {
      const OptionString options{.config = found.config, .policy = "", .is_of_search = true};
      if (tuned->row_of(options) == nullptr) work.emplace_back(tuned, options);
    }
    tuned->strings_tried = search.strings_tried();
    look_at_all(label, work);
  }

  // What one program needs whose runs are all recorded: rows of the strings that every run has, and those that were found
  // for one of the runs.
  void join() {
    Tuned& together = result_.together.emplace(empty(all_runs()));
    for (const OptionString& options : asked_for_) add_joined(options, &together);
    std::vector<OptionString> found;
    for (const Tuned& tuned : result_.single)
      if (const auto best = best_found(tuned)) found.push_back(*best);
    for (const OptionString& options : found) look_at_others(options, &together);
  }

  // Found for one of the runs: it is looked at with the others as long as it may be the best for all, the one that needs
  // the largest device first.
  void look_at_others(const OptionString& options, Tuned* together) {
    const uint64_t bound = least(*together);
    std::vector<std::pair<Tuned*, OptionString>> work;
    for (Tuned& tuned : result_.single) {
      const TunedRow* const row = tuned.row_of(options);
      if (row != nullptr && row->capacity.fits >= bound) return;
      if (row == nullptr) work.emplace_back(&tuned, options);
    }
    std::sort(work.begin(), work.end(),
              [](const auto& a, const auto& b) { return least(*a.first) > least(*b.first); });
    if (!work.empty() && !beats(options, bound, *work.front().first->runs.front())) return;
    look_at_all("joining", work);
    if (together->row_of(options) == nullptr) add_joined(options, together);
  }

  static bool beats(const OptionString& options, uint64_t bound, const TunedRun& run) {
    try {
      return run.run_until_failure(options, one_step_below(bound)).fits();
    } catch (const Cancelled&) {
      return false;
    }
  }

  std::vector<const TunedRun*> all_runs() const {
    std::vector<const TunedRun*> runs;
    for (const TunedRun& run : result_.runs) runs.push_back(&run);
    return runs;
  }

  static std::optional<OptionString> best_found(const Tuned& tuned) {
    const TunedRow* best = nullptr;
    for (const TunedRow& row : tuned.rows)
      if (row.options.is_of_search && (best == nullptr || row.capacity.fits < best->capacity.fits))
        best = &row;
    return best == nullptr ? std::optional<OptionString>() : best->options;
  }

  void add_joined(const OptionString& options, Tuned* together) const {
    TunedRow joined{.options = options, .capacity = {0, 0}, .left = UINT64_MAX};
    for (const Tuned& tuned : result_.single) {
      const TunedRow* const row = tuned.row_of(options);
      if (row == nullptr) return;
      if (row->capacity.fits > joined.capacity.fits) joined.capacity = row->capacity;
      joined.out_of_memory += row->out_of_memory;
      joined.retries += row->retries;
      joined.driver_calls += row->driver_calls;
      joined.cost_ms += row->cost_ms;
      joined.reserved = std::max(joined.reserved, row->reserved);
      joined.left = std::min(joined.left, row->left);
    }
    together->rows.push_back(joined);
  }

  void advise(Tuned* tuned) {
    mark_front(&tuned->rows);
    tuned->recommended = recommend(tuned->rows);
    if (tuned->recommended) vary(tuned);
  }

  void vary(Tuned* tuned) {
    const TunedRow& row = tuned->rows[tuned->recommended->row];
    std::vector<int> finished(kVariedRuns), by_default(kVariedRuns), made(kVariedRuns);
    std::vector<std::function<void()>> jobs;
    for (unsigned i = 0; i < kVariedRuns; i++)
      jobs.emplace_back([&, i] {
        const TunedRun& run = *tuned->runs[i % tuned->runs.size()];
        const TunedRun varied = varied_run(run, call_.search.seed + i, &Cancellation::flag());
        const double share =
            static_cast<double>(row.capacity.fits) / static_cast<double>(run.peak_requested());
        const auto room = static_cast<uint64_t>(share * kVariedRoom *
                                                static_cast<double>(varied.peak_requested()));
        finished[i] = varied.run_until_failure(row.options, room).fits();
        by_default[i] = varied.run_until_failure({}, room).fits();
        made[i] = 1;
      });
    jobs_.run("varying", jobs);
    const auto sum = [](const std::vector<int>& flags) {
      return static_cast<unsigned>(std::count(flags.begin(), flags.end(), 1));
    };
    tuned->recommended->variations = {sum(made), sum(finished), sum(by_default)};
  }

  void check_held_back() {
    const Tuned& tuned = result_.together ? *result_.together : result_.single.front();
    if (!tuned.recommended || call_.held_back.empty() || Cancellation::is_set()) return;
    const OptionString& options = tuned.rows[tuned.recommended->row].options;
    try {
      std::vector<TunedRun> runs;
      read(call_.held_back, &runs);
      for (const TunedRun& run : runs)
        result_.held_back.push_back({run.name(), run.peak_requested(),
                                     smallest_capacity(run, options), smallest_capacity(run, {})});
    } catch (const Cancelled&) {  // those that are done are there
    }
  }

  const TuneCall& call_;
  const DriverCosts& costs_;
  Jobs jobs_;
  const std::vector<OptionString> asked_for_;
  TuneResult result_;
};

}  // namespace

TuneResult tune(const TuneCall& call, const DriverCosts& costs) {
  try {
    return Tuning(call, costs).run();
  } catch (const Cancelled&) {
    throw Failure("stopped while the recordings were read: nothing has been looked at");
  }
}

}  // namespace cachalot::cli
