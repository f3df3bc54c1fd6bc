// SPDX-License-Identifier: MIT OR Apache-2.0
#include "alloc/config/option_table.h"

#include <algorithm>
#include <optional>

#include "alloc/config/option_checks.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/text.h"

namespace cachalot {

namespace {

// ---- Values that several options share

// One function for each field, so that a row of the table names the field.
template <bool Settings::*kField>
void read_flag(OptionReader& reader, const OptionTarget& target) {
  target.settings.*kField = reader.take_flag();
}

template <uint64_t Settings::*kField>
void read_megabytes(OptionReader& reader, const OptionTarget& target) {
  target.settings.*kField = reader.take_megabytes();
}

// ---- Segments and splitting

// An earlier pass has read it, so that it holds for the checks of all others, wherever it stands
// [opt 1.8].
void skip_large_segment_size(OptionReader& reader, const OptionTarget&) { reader.skip_value(); }

// Checked before it is stored: a faulty value leaves the old one, or the one that the reset has
// set.
void read_max_split_size(OptionReader& reader, const OptionTarget& target) {
  const uint64_t size = reader.take_megabytes();
  check_not_below_large_segment("max_split_size_mb", size, target.settings);
  target.settings.max_split_size = size;
}

void read_max_non_split_rounding(OptionReader& reader, const OptionTarget& target) {
  const uint64_t size = reader.take_megabytes();
  check_not_below_large_segment("max_non_split_rounding_mb", size, target.settings);
  target.settings.max_non_split_rounding_size = size;
}

void read_garbage_collection_threshold(OptionReader& reader, const OptionTarget& target) {
  const double fraction = reader.take_fraction();
  check_garbage_collection_threshold(fraction);
  target.settings.garbage_collection_threshold = fraction;
}

// Only the creation of a device looks at it [core 14.2].
void read_per_process_memory_fraction(OptionReader& reader, const OptionTarget& target) {
  const double fraction = reader.take_fraction();
  check_per_process_memory_fraction(fraction);
  target.settings.per_process_memory_fraction = fraction;
}

// ---- roundup_power2_divisions

// The slots of the table while a list is read, entry by entry [opt 4.5].
class RoundupList {
 public:
  explicit RoundupList(Settings& settings) : slots_(settings.roundup_power2_divisions) {}

  void read_entry(OptionReader& reader) {
    const std::string& begin_mb = reader.take();
    reader.take_separator();
    const uint64_t divisions = reader.take_integer();
    check_divisions_of_interval(divisions);
    // The interval is read after the divisions, so its error is the later one [opt 4.5].
    if (begin_mb == ">") {
      set_all_after_last(divisions);
    } else {
      set(parse_integer(begin_mb), divisions);
    }
  }

 private:
  void set(uint64_t begin_mb, uint64_t divisions) {
    check_interval(begin_mb);
    CACHALOT_ASSERT(1, last_ < slots_.size());
    last_ = std::min<size_t>(log2_floor(begin_mb), slots_.size() - 1);
    slots_[last_] = divisions;
    // The first interval of a list serves all smaller sizes too.
    if (is_first_) std::fill_n(slots_.begin(), last_, divisions);
    is_first_ = false;
  }

  // Not the slot of the entry before, which keeps its own value; of `[>:8]` that is slot 0.
  void set_all_after_last(uint64_t divisions) {
    std::fill_n(slots_.rbegin(), slots_.size() - 1 - last_, divisions);
  }

  std::array<uint64_t, kRoundupSlots>& slots_;
  size_t last_ = 0;
  bool is_first_ = true;
};

void read_roundup_power2_divisions(OptionReader& reader, const OptionTarget& target) {
  if (!reader.next_is("[")) {
    const uint64_t divisions = reader.take_integer();
    check_divisions(divisions);
    target.settings.roundup_power2_divisions.fill(divisions);
    return;
  }
  reader.take();
  RoundupList list(target.settings);
  while (!reader.next_is("]")) {
    list.read_entry(reader);
    if (!reader.next_is("]")) reader.take_separator();
  }
  reader.take();
}

// ---- Reserves of expandable segments

// "0.5" is a fraction, "40G" are GiB. Nothing may stand beside the number (R34).
std::optional<Reserve> parse_reserve(std::string text) {
  CACHALOT_ASSERT(1, !text.empty());
  Reserve reserve;
  reserve.is_fraction = text.back() != 'G' && text.back() != 'g';
  if (!reserve.is_fraction) text.pop_back();
  // A stream of the reference's C++ library reads these characters only; other libraries' streams differ.
  if (text.find_first_not_of("0123456789.+-eE") != std::string::npos) return {};
  size_t length = 0;
  reserve.value = read_number(text, &length);
  if (length == 0 || length != text.size() || !is_valid_reserve(reserve)) return {};
  return reserve;
}

// Warns of a value that is no reserve, and goes on: the reference does not refuse the string (R34).
std::optional<Reserve> take_reserve(OptionReader& reader, const OptionTarget& target) {
  const std::string& text = reader.take();
  const std::optional<Reserve> reserve = parse_reserve(text);
  if (!reserve)
    target.give_warning(
        format("Ignoring invalid expandable-segment reserve value '%s' in "
               "%s (expected a positive, finite fraction like 0.5 or an "
               "absolute size like 40G); using default.",
               text.c_str(), target.wording.config_variable));
  return reserve;
}

void read_expandable_segments_reserve(OptionReader& reader, const OptionTarget& target) {
  const std::optional<Reserve> reserve = take_reserve(reader, target);
  if (reserve) target.settings.expandable_segments_reserve = reserve;
}

// Replaces the table only when the list is complete (R35). Takes any token for the bracket that opens
// it.
void read_expandable_segments_reserve_by_class(OptionReader& reader, const OptionTarget& target) {
  std::map<std::string, Reserve> reserves;
  reader.take();
  while (!reader.next_is("]")) {
    const std::string& name = reader.take();
    reader.take_separator();
    const std::optional<Reserve> reserve = take_reserve(reader, target);
    if (reserve) reserves[name] = *reserve;
    if (reader.next_is(",")) reader.take_separator();
  }
  reader.take();
  target.settings.expandable_segments_reserve_by_class = std::move(reserves);
}

// ---- Others

// Chooses nothing: the backend was chosen when the allocator was made (options.cpp). Afterwards a string
// can only name that one.
void read_backend(OptionReader& reader, const OptionTarget& target) {
  const std::string& named = reader.take();
  if (named != "native" && named != "cudaMallocAsync")
    throw_invalid_argument("Unknown allocator backend, options are native and cudaMallocAsync");
  const char* const running = target.settings.is_backend_async ? "cudaMallocAsync" : "native";
  if (named != running) {
    throw_invalid_state(format("The backend is %s and cannot become %s", running, named.c_str()));
  }
}

void read_pinned_num_register_threads(OptionReader& reader, const OptionTarget& target) {
  const uint64_t threads = reader.take_integer();
  check_register_threads(threads);
  target.settings.pinned_num_register_threads = threads;
}

void read_pinned_reserve_segment_size(OptionReader& reader, const OptionTarget& target) {
  const uint64_t size_mb = reader.take_integer();
  check_reserve_segment_size(size_mb);
  target.settings.pinned_reserve_segment_size_mb = size_mb;
}

// ---- The table

constexpr OptionPart kGeneric = OptionPart::kGeneric;
constexpr OptionPart kCuda = OptionPart::kCuda;

// Keys with "hip" are those of AMD devices, which the reference reads as if they were the ones
// beside them.
constexpr Option kOptions[] = {
    {"max_split_size_mb", kGeneric, read_max_split_size,
     [](Settings& settings) { settings.max_split_size = kUnlimited; }},
    {"max_non_split_rounding_mb", kGeneric, read_max_non_split_rounding},
    {"large_segment_size_mb", kGeneric, skip_large_segment_size},
    {"garbage_collection_threshold", kGeneric, read_garbage_collection_threshold,
     [](Settings& settings) { settings.garbage_collection_threshold = 0; }},
    {"roundup_power2_divisions", kGeneric, read_roundup_power2_divisions,
     [](Settings& settings) { settings.roundup_power2_divisions.fill(0); }},
    {"roundup_bypass_threshold_mb", kGeneric, read_megabytes<&Settings::roundup_bypass_threshold>,
     [](Settings& settings) { settings.roundup_bypass_threshold = kUnlimited; }},
    {"expandable_segments", kGeneric, read_flag<&Settings::expandable_segments>},
    {"expandable_segments_reserve", kCuda, read_expandable_segments_reserve, nullptr,
     &Rules::has_reserves},
    {"expandable_segments_reserve_by_class", kCuda, read_expandable_segments_reserve_by_class,
     nullptr, &Rules::has_reserves},
    {"per_process_memory_fraction", kCuda, read_per_process_memory_fraction},
    {"throw_on_cudamalloc_oom", kCuda, read_flag<&Settings::throw_on_cudamalloc_oom>, nullptr,
     &Rules::has_rejection},
    {"release_lock_on_cudamalloc", kCuda, read_flag<&Settings::release_lock_on_cudamalloc>},
    {"release_lock_on_hipmalloc", kCuda, read_flag<&Settings::release_lock_on_cudamalloc>},
    {"graph_capture_record_stream_reuse", kCuda,
     read_flag<&Settings::graph_capture_record_stream_reuse>},
    {"backend", kCuda, read_backend},
    {"pinned_use_background_threads", kGeneric,
     read_flag<&Settings::pinned_use_background_threads>},
    {"pinned_max_round_threshold_mb", kGeneric,
     read_megabytes<&Settings::pinned_max_round_threshold>, nullptr, &Rules::has_pinned_limits},
    {"pinned_max_cached_size_mb", kGeneric, read_megabytes<&Settings::pinned_max_cached_size>,
     nullptr, &Rules::has_pinned_limits},
    {"pinned_use_cuda_host_register", kCuda, read_flag<&Settings::pinned_use_cuda_host_register>},
    {"pinned_use_hip_host_register", kCuda, read_flag<&Settings::pinned_use_cuda_host_register>},
    {"pinned_num_register_threads", kCuda, read_pinned_num_register_threads},
    {"pinned_reserve_segment_size_mb", kCuda, read_pinned_reserve_segment_size},
    {"pinned_free_catch_all", kCuda, read_flag<&Settings::pinned_free_catch_all>, nullptr,
     &Rules::has_pinned_free_catch_all},
};

}  // namespace

// find_option() takes the first row, so a second one would never be read.
static_assert(std::all_of(std::begin(kOptions), std::end(kOptions), [](const Option& option) {
  const auto has_same_key = [&](const Option& other) { return other.key == option.key; };
  return std::count_if(std::begin(kOptions), std::end(kOptions), has_same_key) == 1;
}));

std::span<const Option> option_table() { return kOptions; }

const Option* find_option(std::string_view key, const Rules& rules) {
  const auto found = std::find_if(std::begin(kOptions), std::end(kOptions),
                                  [&](const Option& option) { return option.key == key; });
  if (found == std::end(kOptions)) return nullptr;
  // An option of a later release is an unknown key in an earlier one, as it was then.
  const bool is_known = !found->needs || rules.*found->needs;
  return is_known ? found : nullptr;
}

}  // namespace cachalot
