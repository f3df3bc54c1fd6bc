// SPDX-License-Identifier: MIT OR Apache-2.0
// The differences between the reference releases, as named rules: the only place that knows release
// numbers. docs/behaviour.md lists the files that rule ids (R2, U5, [core 14.1]) name.
#pragma once

#include <cstdint>

#include "alloc/config/wording.h"

namespace cachalot {

enum class Release : int32_t { k2_11 = 211, k2_15 = 215 };

constexpr const char* release_name(Release release) {
  return release == Release::k2_11 ? "2.11" : "2.15";
}

// Immutable once an allocator is made. A field says what a rule does and not which release has it,
// so that code reads as the rule does. Without a comment behind it, a field's name is the rule.
struct Rules {
  Release release = Release::k2_15;

  // R2: of free blocks of one size the one whose segment was obtained first serves; before: the one
  // with the lowest address.
  bool ties_by_segment_number = true;
  // R10: only marked captures defer work; before: any pool routing does.
  bool captures_are_marked = true;
  bool completes_frees_at_routing_end = true;    // R20
  bool rounds_limit = true;                      // R25: to nearest; before: down
  bool has_rejection = true;                     // R31: throw_on_cudamalloc_oom, num_oom_rejections
  bool has_pinned_free_catch_all = true;         // R32
  bool has_pinned_limits = true;                 // R33
  bool counts_freed_pinned_memory = true;        // [pinned 5.5]
  bool counts_pinned_pools_apart = true;         // [pinned 5.4]
  bool has_reserves = true;                      // R34, R35, R65, R67
  bool gives_up_segments_too_small = true;       // R66
  bool counts_private_pool_bytes = true;         // R40
  bool has_context_of = true;                    // R45
  bool has_annotations = true;                   // R46
  bool has_internal_tag = true;                  // R48
  bool allocates_at_addresses = true;            // R50
  bool forgets_no_split = true;                  // a pool's mark goes when its use count reaches 0
  bool fabric_by_trial = true;                   // R60; before: the first page creation decides
  int32_t share_version = 3;                     // R61
  bool refuses_to_share_without_handles = true;  // R61; before: the driver does
  bool unmaps_shared_fabric_pages = true;        // R62
  bool reserves_opened_pages_only = true;        // R63
  bool oom_text_knows_expandable = true;         // R80-R82
  bool trims_async_pool_and_retries = true;      // R70
  bool counts_graph_memory = true;               // R71

  // Defects of the reference that a caller asked to mend (docs/differences.md 2).
  bool mend_fallback_errors = false;       // U5
  bool mend_fallback_expandable = false;   // U6
  bool mend_handle_type = false;           // U8, first half
  bool mend_search_after_release = false;  // U9
  bool mend_history_order = false;         // U11
  bool mend_rejection = false;             // U16
  bool mend_reserve = false;               // U17
  bool mend_split_limit = false;           // U22

  // A caller's choice too: whose words messages have. No decision depends on it.
  Texts texts = Texts::kPyTorch;
  const Wording& wording() const { return wording_of(texts); }
};

// The defaults are the latest release's; older ones switch off what they lack.
constexpr Rules rules_of(Release release) {
  Rules rules;
  rules.release = release;
  if (release == Release::k2_15) return rules;
  rules.ties_by_segment_number = false;
  rules.captures_are_marked = false;
  rules.completes_frees_at_routing_end = false;
  rules.rounds_limit = false;
  rules.has_rejection = false;
  rules.has_pinned_free_catch_all = false;
  rules.has_pinned_limits = false;
  rules.counts_freed_pinned_memory = false;
  rules.counts_pinned_pools_apart = false;
  rules.has_reserves = false;
  rules.gives_up_segments_too_small = false;
  rules.counts_private_pool_bytes = false;
  rules.has_context_of = false;
  rules.has_annotations = false;
  rules.has_internal_tag = false;
  rules.allocates_at_addresses = false;
  rules.forgets_no_split = false;
  rules.fabric_by_trial = false;
  rules.share_version = 2;
  rules.refuses_to_share_without_handles = false;
  rules.unmaps_shared_fabric_pages = false;
  rules.reserves_opened_pages_only = false;
  rules.oom_text_knows_expandable = false;
  rules.trims_async_pool_and_retries = false;
  rules.counts_graph_memory = false;
  return rules;
}

}  // namespace cachalot
