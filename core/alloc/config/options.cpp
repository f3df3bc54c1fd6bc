// SPDX-License-Identifier: MIT OR Apache-2.0
// Reads option strings the way the reference does, which has two configurations reading the same
// one.
//
// Shape: key:value,key:value,... where a value is one token or a list in brackets. Starting at
// token 0: take a token as key, skip one for the separator, let the option take its value, skip one
// for the comma, repeat. Separators are not looked at; only running past the last token is an
// error. Each pass takes the keys of its part and passes over the others, and both know all keys.
#include "alloc/config/options.h"

#include <algorithm>
#include <cinttypes>
#include <utility>

#include "alloc/config/option_checks.h"
#include "alloc/config/option_table.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/text.h"

namespace cachalot {

namespace {

constexpr std::string_view kBackendKey = "backend";
constexpr std::string_view kAsyncBackend = "cudaMallocAsync";
constexpr std::string_view kLargeSegmentSizeKey = "large_segment_size_mb";

// The reference names the configuration that met the key first, which depends on the order of the
// passes.
[[noreturn]] void throw_unknown_key(std::string_view key, OptionPart part) {
  throw_invalid_argument(format("Unrecognized key '%.*s' in %s allocator config.",
                                static_cast<int>(key.size()), key.data(),
                                part == OptionPart::kGeneric ? "Accelerator" : "CUDA"));
}

// What becomes of options that a string does not name.
enum class Unnamed { kReset, kKept };

// One string on its way into settings.
// Owns the tokens and remembers which keys it has applied, since some warnings depend on what this
// very string names.
class OptionPass {
 public:
  OptionPass(std::string_view text, Unnamed unnamed, const Rules& rules, Settings* settings,
             const WarningSink& warn)
      : text_(text),
        tokens_(split_options(text)),
        keeps_unnamed_(unnamed == Unnamed::kKept),
        rules_(rules),
        target_{*settings, warn, rules.wording()} {}

  void apply_generic();
  void apply_cuda();

 private:
  void reset();
  void apply_large_segment_size();
  void apply(OptionPart part);
  bool has_applied(std::string_view key) const;
  void warn_of_pinned_limits() const;
  void warn_of_ignored_options() const;

  std::string_view text_;
  std::vector<std::string> tokens_;
  const bool keeps_unnamed_;
  const Rules& rules_;
  OptionTarget target_;
  std::vector<std::string_view> applied_keys_;
};

void OptionPass::apply_generic() {
  if (!keeps_unnamed_) reset();
  apply_large_segment_size();
  apply(OptionPart::kGeneric);
  CACHALOT_ASSERT(1, target_.settings.large_segment_size > kMinLargeAlloc &&
                         target_.settings.large_segment_size % MiB == 0);
  warn_of_pinned_limits();
}

void OptionPass::apply_cuda() {
  apply(OptionPart::kCuda);
  warn_of_ignored_options();
}

// [opt 5.2] Before anything is read, so a string that fails has reset all the same.
void OptionPass::reset() {
  for (const Option& option : option_table())
    if (option.reset) option.reset(target_.settings);
  target_.settings.config = text_;
}

// The first of the two walks: other keys are checked against this size, wherever it stands. Any token of
// that spelling counts, also one in the place of a value [opt 1.8].
void OptionPass::apply_large_segment_size() {
  for (size_t i = 0; i < tokens_.size(); ++i) {
    if (tokens_[i] != kLargeSegmentSizeKey) continue;
    OptionReader reader(tokens_, i + 1);
    reader.take_separator();
    const uint64_t size = reader.take_megabytes();
    check_large_segment_size(size);
    if (keeps_unnamed_) {
      target_.settings.set_large_segment_size(size);
    } else {
      target_.settings.large_segment_size = size;
    }
  }
  if (keeps_unnamed_) return;
  // Its default is the segment size, so this reset waits until that is known. A faulty size ends the
  // pass before it.
  target_.settings.max_non_split_rounding_size = target_.settings.large_segment_size;
}

// One walk over all tokens. Keys of the other part are looked up too, because an unknown key is an
// error in either walk.
void OptionPass::apply(OptionPart part) {
  OptionReader reader(tokens_);
  while (!reader.at_end()) {
    const std::string& key = reader.take();
    const Option* option = find_option(key, rules_);
    if (!option) throw_unknown_key(key, part);
    reader.take_separator();
    if (option->part == part) {
      if (keeps_unnamed_ && option->reset) option->reset(target_.settings);
      option->read(reader, target_);
      applied_keys_.push_back(option->key);
    } else {
      reader.skip_value();
    }
    if (!reader.at_end()) reader.take_separator();
  }
}

bool OptionPass::has_applied(std::string_view key) const {
  return std::find(applied_keys_.begin(), applied_keys_.end(), key) != applied_keys_.end();
}

// Warns only if this very string sets both (R33).
void OptionPass::warn_of_pinned_limits() const {
  const uint64_t threshold = target_.settings.pinned_max_round_threshold;
  const uint64_t cached = target_.settings.pinned_max_cached_size;
  if (threshold <= cached || !has_applied("pinned_max_round_threshold_mb") ||
      !has_applied("pinned_max_cached_size_mb"))
    return;
  target_.give_warning(format(
      "pinned_max_round_threshold_mb (%" PRIu64 ") > pinned_max_cached_size_mb (%" PRIu64
      "). The cache size limit takes precedence: allocations above pinned_max_cached_size_mb "
      "are never rounded up.",
      threshold / MiB, cached / MiB));
}

// [opt 4.16] The generic keys that the warning names do not trigger it in the reference either.
void OptionPass::warn_of_ignored_options() const {
  const auto is_other = [](std::string_view key) { return key != kBackendKey; };
  if (!target_.settings.is_backend_async || !has_applied(kBackendKey) ||
      std::none_of(applied_keys_.begin(), applied_keys_.end(), is_other))
    return;
  target_.give_warning(
      "backend:cudaMallocAsync ignores max_split_size_mb,roundup_power2_divisions, and "
      "garbage_collect_threshold.");
}

void check_reserve(const Reserve& reserve) {
  if (!is_valid_reserve(reserve))
    throw_invalid_argument(
        format("expandable_segments_reserve must be positive and finite, got %g", reserve.value));
}

// For numbers that a program set; a string is checked by take_reserve(), which warns instead (R34).
void check_reserves(const Settings& settings) {
  if (settings.expandable_segments_reserve) check_reserve(*settings.expandable_segments_reserve);
  for (const auto& [name, reserve] : settings.expandable_segments_reserve_by_class)
    check_reserve(reserve);
}

// An option that the release does not have must keep its default.
void check_release(const Settings& settings, const Rules& rules) {
  const std::pair<const char*, bool> uses[] = {
      {"throw_on_cudamalloc_oom", settings.throw_on_cudamalloc_oom},
      {"pinned_free_catch_all", settings.pinned_free_catch_all},
      {"pinned_max_round_threshold_mb", settings.pinned_max_round_threshold != kUnlimited},
      {"pinned_max_cached_size_mb", settings.pinned_max_cached_size != kUnlimited},
      {"expandable_segments_reserve", settings.expandable_segments_reserve.has_value()},
      {"expandable_segments_reserve_by_class",
       !settings.expandable_segments_reserve_by_class.empty()},
  };
  for (const auto& [key, is_used] : uses)
    if (is_used && !find_option(key, rules)) throw_unknown_key(key, OptionPart::kGeneric);
}

}  // namespace

// Does not look other keys up, so faults of theirs do not change the backend [opt 4.9].
bool chooses_async_backend(std::string_view text) {
  const std::vector<std::string> tokens = split_options(text);
  OptionReader reader(tokens);
  while (!reader.at_end()) {
    const bool is_backend = reader.take() == kBackendKey;
    reader.take_separator();
    if (is_backend) return reader.take() == kAsyncBackend;
    reader.skip_value();
    if (!reader.at_end()) reader.take_separator();
  }
  return false;
}

void apply_option_part(std::string_view text, OptionPart part, const Rules& rules,
                       Settings* settings, const WarningSink& warn) {
  OptionPass pass(text, Unnamed::kReset, rules, settings, warn);
  part == OptionPart::kGeneric ? pass.apply_generic() : pass.apply_cuda();
}

// [opt 1.11] At creation the CUDA configuration is asked first and reads the generic one only then.
void apply_options(std::string_view text, OptionMoment moment, const Rules& rules,
                   Settings* settings, const WarningSink& warn) {
  const bool generic_first = moment == OptionMoment::kRunTime;
  const OptionPart first = generic_first ? OptionPart::kGeneric : OptionPart::kCuda;
  const OptionPart second = generic_first ? OptionPart::kCuda : OptionPart::kGeneric;
  apply_option_part(text, first, rules, settings, warn);
  apply_option_part(text, second, rules, settings, warn);
}

// The order of the run-time passes. The reference has no such call.
void update_options(std::string_view text, const Rules& rules, Settings* settings,
                    const WarningSink& warn) {
  OptionPass pass(text, Unnamed::kKept, rules, settings, warn);
  pass.apply_generic();
  pass.apply_cuda();
}

void check_settings(const Settings& settings, const Rules& rules) {
  check_large_segment_size(settings.large_segment_size);
  if (settings.large_segment_size % MiB != 0)
    throw_invalid_argument(format("large_segment_size must be a multiple of 1 MiB, got %" PRIu64
                                  " bytes",
                                  settings.large_segment_size));
  check_not_below_large_segment("max_split_size_mb", settings.max_split_size, settings);
  check_not_below_large_segment("max_non_split_rounding_mb", settings.max_non_split_rounding_size,
                                settings);
  if (settings.garbage_collection_threshold != 0)
    check_garbage_collection_threshold(settings.garbage_collection_threshold);
  check_per_process_memory_fraction(settings.per_process_memory_fraction);
  for (const uint64_t divisions : settings.roundup_power2_divisions)
    check_divisions_of_interval(divisions);
  check_register_threads(settings.pinned_num_register_threads);
  check_reserves(settings);
  check_release(settings, rules);
}

}  // namespace cachalot
