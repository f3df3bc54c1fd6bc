// SPDX-License-Identifier: MIT OR Apache-2.0
// The option string: PyTorch's grammar, leniency, precedence and error texts, by release
// (docs/config.md).
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "alloc/rules.h"
#include "alloc/settings.h"

namespace cachalot {

// When a string is read: the order of its two passes, and with it the error that is reported,
// differ (1.11).
enum class OptionMoment { kCreation, kRunTime };

using WarningSink = std::function<void(const std::string& text)>;

// Applies an option string to settings. As in the reference this is not atomic: options before the
// one at fault have taken effect, and so have the resets (5.2, 5.6). Throws
// Error(kInvalidArgument), or kInvalidState for `backend:cudaMallocAsync` at run time,
// kNotSupported for it at creation. Warnings (R33, R34) go to `warn`.
void apply_options(std::string_view text, OptionMoment moment, const Rules& rules,
                   Settings* settings, const WarningSink& warn);

// The same checks for settings that were set as numbers. Throws Error(kInvalidArgument) and changes
// nothing.
void check_settings(const Settings& settings, const Rules& rules);

}  // namespace cachalot
