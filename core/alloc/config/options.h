// SPDX-License-Identifier: MIT OR Apache-2.0
// The option string: PyTorch's grammar, leniency, precedence and error texts, by release
// (docs/config.md).
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "alloc/config/rules.h"
#include "alloc/config/settings.h"

namespace cachalot {

// When a string is read: the order of its two passes, and with it the error that is reported,
// differ [opt 1.11].
enum class OptionMoment { kCreation, kRunTime };

// The reference has two configurations that read the same string; each takes its own keys.
enum class OptionPart { kGeneric, kCuda };

using WarningSink = std::function<void(const std::string& text)>;

// Applies an option string to settings. As in the reference this is not atomic: options before the
// one at fault have taken effect, and so have the resets [opt 5.2, 5.6]. Throws
// Error(kInvalidArgument), or kInvalidState for another backend than the settings'. Warnings
// [R33, R34, opt 4.16] go to `warn`.
void apply_options(std::string_view text, OptionMoment moment, const Rules& rules,
                   Settings* settings, const WarningSink& warn);
// One of its two passes.
void apply_option_part(std::string_view text, OptionPart part, const Rules& rules,
                       Settings* settings, const WarningSink& warn);

// Sets the options that the string names, and resets no other option. Throws like apply_options,
// maybe half-way.
void update_options(std::string_view text, const Rules& rules, Settings* settings,
                    const WarningSink& warn);

// Whether a string chooses backend:cudaMallocAsync: looks for the first backend key only [opt 4.9].
// Throws Error(kInvalidArgument) for a string that ends too early.
bool chooses_async_backend(std::string_view text);

// The same checks for settings that were set as numbers. Throws Error(kInvalidArgument) and changes
// nothing.
void check_settings(const Settings& settings, const Rules& rules);

}  // namespace cachalot
