// SPDX-License-Identifier: MIT OR Apache-2.0
#include "alloc/configuration.h"

#include <mutex>
#include <utility>
#include <vector>

#include "alloc/backend/backend.h"
#include "alloc/backend/shared_state.h"
#include "base/error.h"

namespace cachalot {
namespace {

constexpr OptionPart kParts[] = {OptionPart::kGeneric, OptionPart::kCuda};

}  // namespace

// A copy for each part: the reference's two configurations read the string at different moments.
Configuration::Unread Configuration::unread(const std::string& config) {
  Unread unread;
  for (const OptionPart part : kParts) unread[part] = config;
  return unread;
}

// A faulty string stays unread, so each call that needs it fails.
void Configuration::read(OptionPart part, Unread* unread, Settings* settings) {
  const auto found = unread->find(part);
  if (found == unread->end()) return;
  apply_option_part(found->second, part, shared_.rules, settings, shared_.settings.warnings());
  unread->erase(found);
}

// Changes all devices or none: what can fail comes first.
void Configuration::commit(Settings changed, Unread unread) {
  const int devices = shared_.driver.device_count();
  // Made before anything changes: a device takes its copy by a move, which cannot fail.
  std::vector<Settings> copies(static_cast<size_t>(devices), changed);
  // Before the change, since its text needs memory.
  shared_.settings.advise_of(changed);
  shared_.settings.current() = std::move(changed);
  unread_ = std::move(unread);
  for (int i = 0; i < devices; i++)
    backend_.device(i).set_settings(std::move(copies[static_cast<size_t>(i)]));
  on_change_(shared_.settings.current());
}

// Keeps what stands before an error, as the reference does [opt 1.10].
void Configuration::configure(const std::string& config) {
  const auto lock = shared_.settings.lock();
  Settings changed = shared_.settings.current();
  Unread unread = unread_;
  try {
    for (const OptionPart part : kParts) {
      read(part, &unread, &changed);
      apply_option_part(config, part, shared_.rules, &changed, shared_.settings.warnings());
    }
    backend_.require_possible(changed);
  } catch (const Error&) {
    // Otherwise a driver that cannot serve the option would have it on after its refusal.
    if (!shared_.driver.supports_virtual_memory())
      changed.expandable_segments = shared_.settings.current().expandable_segments;
    commit(std::move(changed), std::move(unread));
    throw;
  }
  commit(std::move(changed), std::move(unread));
}

Settings Configuration::settings() {
  Settings settings;
  look([&](const Settings& current) { settings = current; });
  return settings;
}

void Configuration::look(const std::function<void(const Settings&)>& see) {
  const auto lock = shared_.settings.lock();
  for (const OptionPart part : kParts) read(part, &unread_, &shared_.settings.current());
  see(shared_.settings.current());
}

void Configuration::change(const std::function<void(Settings&)>& change) {
  const auto lock = shared_.settings.lock();
  Settings changed = shared_.settings.current();
  Unread unread = unread_;
  for (const OptionPart part : kParts) read(part, &unread, &changed);
  change(changed);
  // A caller's numbers have not been through the parser's checks.
  check_settings(changed, shared_.rules);
  backend_.require_possible(changed);
  commit(std::move(changed), std::move(unread));
}

// R67: an option for the class, or for all streams, comes before a default.
void Configuration::set_default_reserve(const std::string& name, double fraction) {
  const auto lock = shared_.settings.lock();
  Settings changed = shared_.settings.current();
  Unread unread = unread_;
  read(OptionPart::kCuda, &unread, &changed);
  if (!changed.expandable_segments_reserve)
    changed.expandable_segments_reserve_by_class.try_emplace(name, Reserve{true, fraction});
  commit(std::move(changed), std::move(unread));
}

}  // namespace cachalot
