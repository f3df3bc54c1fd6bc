// SPDX-License-Identifier: MIT OR Apache-2.0
#include "report_page.h"

#include <string_view>

#include "cachalot/version.h"
#include "packed.h"
#include "page_bytes.h"

namespace cachalot::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kPlaceOfData = "<!-- data -->";

// Inside of a script element only "<" can end it or begin a comment.
std::string script_safe(const Json& json) {
  std::string text;
  for (const char c : json.dump(-1, ' ', true, Json::error_handler_t::replace)) {
    if (c == '<')
      text += "\\u003c";
    else
      text.push_back(c);
  }
  return text;
}

}  // namespace

std::string report_page(const std::vector<ReportRun>& runs, const Json& tune) {
  Json document{{"version", 1}, {"generator", std::string("cachalot ") + cachalot_version()}};
  if (!tune.is_null()) document["tune"] = tune;
  Json& rows = document["runs"] = Json::array();
  std::string columns;
  for (size_t i = 0; i < runs.size(); i++) {
    rows.push_back(runs[i].facts);
    columns += "<script type=\"application/octet-stream\" id=\"columns-" + std::to_string(i) +
               "\">" + base64(gzip(runs[i].columns)) + "</script>\n";
  }
  const std::string_view page(reinterpret_cast<const char*>(kPageBytes), kPageSize);
  const size_t place = page.find(kPlaceOfData);
  std::string text(page.substr(0, place));
  text += "<script type=\"application/json\" id=\"document\">" + script_safe(document) +
          "</script>\n" + columns;
  text += page.substr(place + kPlaceOfData.size());
  return text;
}

}  // namespace cachalot::cli
