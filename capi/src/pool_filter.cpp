// SPDX-License-Identifier: MIT OR Apache-2.0
#include "pool_filter.h"

#include <utility>

#include "base/thread_number.h"
#include "guard.h"
#include "values.h"

namespace cachalot::capi {
namespace {

PoolFilter capture_filter(Driver& driver, int device, uint64_t capture_id) {
  return [&driver, device, capture_id](Stream stream) {
    CaptureInfo info;
    return driver.capture_info(device, stream, &info) == kSuccess && info.capturing &&
           info.capture_id == capture_id;
  };
}

PoolFilter predicate_filter(const cachalot_pool_route& route, Driver& driver) {
  if (route.predicate == nullptr) throw_null("route->predicate");
  return [&driver, predicate = route.predicate, user_data = route.user_data](Stream stream) {
    return predicate(user_data, driver.user_handle(stream)) != 0;
  };
}

PoolFilter this_thread_filter() {
  return [thread = this_thread_number()](Stream) { return this_thread_number() == thread; };
}

PoolFilter read_kind(const cachalot_pool_route& route, Driver& driver, int device) {
  switch (read_choice(route.kind, CACHALOT_ROUTE_THIS_THREAD, CACHALOT_ROUTE_PREDICATE, "kind")) {
    case CACHALOT_ROUTE_ALL:
      return [](Stream) { return true; };
    case CACHALOT_ROUTE_NONE:
      return [](Stream) { return false; };
    case CACHALOT_ROUTE_STREAM:
      return [wanted = driver.resolve(route.stream)](Stream stream) { return stream == wanted; };
    case CACHALOT_ROUTE_CAPTURE:
      return capture_filter(driver, device, route.capture_id);
    case CACHALOT_ROUTE_PREDICATE:
      return predicate_filter(route, driver);
    default:
      return this_thread_filter();
  }
}

}  // namespace

CallerRoute::CallerRoute(const cachalot_pool_route* route)
    : route_(read_options(route, "route")), user_data_(own(route_.user_data, route_.destroy)) {}

PoolFilter CallerRoute::filter(Driver& driver, int device) const {
  return [filter = read_kind(route_, driver, device), user_data = user_data_](Stream stream) {
    return filter(stream);
  };
}

}  // namespace cachalot::capi
