// SPDX-License-Identifier: MIT OR Apache-2.0
#include "alloc/config/serving_options.h"

#include <algorithm>
#include <bit>
#include <optional>

#include "base/error.h"
#include "base/text.h"
#include "base/units.h"

namespace cachalot {
namespace {

std::optional<Borrow> borrow_named(std::string_view name) {
  if (name == "first") return Borrow::kFirst;
  if (name == "at_limit") return Borrow::kAtLimit;
  if (name == "never") return Borrow::kNever;
  return {};
}

// False: there is no such option, or not with this value.
bool read_policy_option(std::string_view word, ServingOptions* options) {
  if (word == "thrift") return options->thrift = options->is_on;
  const size_t equals = std::min(word.find('='), word.size());
  const std::string_view key = word.substr(0, equals);
  const std::string_view value = word.substr(std::min(equals + 1, word.size()));
  if (key == "page") {
    const auto bytes = parse_bytes(value);
    options->page_bytes = bytes.value_or(0);
    return bytes.has_value();
  }
  if (!options->is_on) return false;
  if (key == "streams") {
    options->announces_streams = value == "announced";
    return options->announces_streams || value == "unannounced";
  }
  if (key != "borrow") return false;
  const auto borrow = borrow_named(value);
  options->borrow = borrow.value_or(Borrow::kFirst);
  return borrow.has_value();
}

}  // namespace

void check_serving(const ServingOptions& options) {
  const uint64_t page = options.page_bytes;
  if (page == 0 || (std::has_single_bit(page) && page <= GiB)) return;
  throw_invalid_argument(format("a page of %llu bytes: a page is a power of two, at most 1 GiB",
                                static_cast<unsigned long long>(page)));
}

ServingOptions parse_policy(std::string_view text, const char* whose) {
  size_t end = std::min(text.find(','), text.size());
  const std::string_view name = text.substr(0, end);
  ServingOptions options;
  options.is_on = name == "serving";
  bool is_known = options.is_on || name == "pytorch";
  while (is_known && end < text.size()) {
    const size_t begin = end + 1;
    end = std::min(text.find(',', begin), text.size());
    is_known = read_policy_option(text.substr(begin, end - begin), &options);
  }
  if (!is_known) {
    throw_invalid_argument(
        format("%s \"%s\": expected pytorch[,page=SIZE], or serving with any of thrift, page=SIZE, "
               "borrow=first, at_limit or never and streams=announced or unannounced, for example "
               "serving,thrift,page=8MiB",
               whose, std::string(text).c_str()));
  }
  check_serving(options);
  return options;
}

}  // namespace cachalot
