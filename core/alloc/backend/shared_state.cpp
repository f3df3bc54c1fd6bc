// SPDX-License-Identifier: MIT OR Apache-2.0
#include "alloc/backend/shared_state.h"

namespace cachalot {

SharedState::SharedState(const AllocatorOptions& options)
    : driver(*options.driver),
      rules(options.rules),
      track_labels(options.track_labels),
      looks_in_stream_order(options.looks_in_stream_order),
      contexts(options.context_source),
      log(options.log),
      settings(rules, log),
      handle_types(driver, rules, options.shareable_pages, log),
      tenants(std::make_shared<Tenants>(driver.device_count())),
      debug(options.debug),
      serving(options.serving) {}

}  // namespace cachalot
