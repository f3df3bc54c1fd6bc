// SPDX-License-Identifier: MIT OR Apache-2.0
// The options of an allocator while it runs: the calls that read and change them (docs/config.md).
//
// The settings in force are shared (shared_settings.h). A change is made to a copy, which then
// takes their place for all devices at once.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "alloc/config/options.h"
#include "alloc/config/settings.h"

namespace cachalot {

class Backend;
class SharedState;

// Every function throws Error and may be called from any thread at any time.
class Configuration {
 public:
  // Option strings that nothing has asked for yet, by the part that is still to be read.
  using Unread = std::map<OptionPart, std::string>;

  // A string of which neither part was read.
  static Unread unread(const std::string& config);

  // Gets the settings after each change, under their lock. Throws nothing.
  using OnChange = std::function<void(const Settings&)>;

  Configuration(SharedState& shared, Backend& backend, Unread unread, OnChange on_change)
      : shared_(shared),
        backend_(backend),
        unread_(std::move(unread)),
        on_change_(std::move(on_change)) {}

  // The whole string, as at creation: options that it does not name are reset where the reference
  // resets them.
  void configure(const std::string& config);
  // Reads what is unread first, so that a faulty string fails the first call that needs it.
  Settings settings();
  // The same for a look under their lock, so that no change comes between.
  void look(const std::function<void(const Settings&)>& see);
  // Changes all or nothing, and no other call changes settings meanwhile. `change` must not call back.
  void change(const std::function<void(Settings&)>& change);
  void set_default_reserve(const std::string& name, double fraction);

 private:
  // pre (here and below): the lock of the settings.
  void read(OptionPart part, Unread* unread, Settings* settings);
  void commit(Settings changed, Unread unread);

  SharedState& shared_;
  Backend& backend_;
  // AsyncBackend needs no setting, so the string that an allocator was made with waits here for the
  // first call that does [async 7.2].
  Unread unread_;
  const OnChange on_change_;
};

}  // namespace cachalot
