// SPDX-License-Identifier: MIT OR Apache-2.0
#include "share_operations.h"

#include <optional>
#include <string>
#include <string_view>

#include "../hex_digits.h"

namespace cachalot::differential {
namespace {

struct Shared {
  std::string bytes;
  uint64_t offset = 0;
};

// Asked once, since a plain segment's handle is a call to the device. Enough for 32,000 pages.
std::optional<Shared> share(Script& script, cachalot_address address) {
  Shared shared{std::string(size_t{1} << 21, '\0'), 0};
  size_t size = 0;
  if (!script.worked(cachalot_share(script.allocator(), address, shared.bytes.data(),
                                    shared.bytes.size(), &size, &shared.offset, script.error())))
    return std::nullopt;
  shared.bytes.resize(size);
  return shared;
}

std::string bytes_of(std::string_view digits) {
  std::string bytes;
  for (size_t i = 0; i + 1 < digits.size(); i += 2)
    bytes += static_cast<char>(parse_hex(digits.substr(i, 2)));
  return bytes;
}

// Of an id that has one open already the new one comes first, as in the oracle.
void open(Script& script, int64_t id, const std::string& bytes) {
  cachalot_address address = 0;
  if (!script.worked(cachalot_open_shared(script.allocator(), kDevice, bytes.data(), bytes.size(),
                                          &address, script.error())))
    return;
  script.close_import(id);
  script.imported[id] = address;
  script.transcript().add("# imported " + hex(address));
}

}  // namespace

void share_block(Script& script, Arguments& arguments) {
  const auto found = script.live.find(arguments.number());
  arguments.end();
  if (found == script.live.end()) return;
  if (const auto shared = share(script, found->second)) {
    script.transcript().add("# share " + decimal(shared->offset) + " " +
                            cachalot_test::to_hex_digits(shared->bytes));
  }
}

void import_block(Script& script, Arguments& arguments) {
  const int64_t id = arguments.number();
  arguments.end();
  const auto found = script.live.find(id);
  if (found == script.live.end()) return;
  if (const auto shared = share(script, found->second)) open(script, id, shared->bytes);
}

void open_bytes(Script& script, Arguments& arguments) {
  const int64_t id = arguments.number();
  open(script, id, bytes_of(arguments.rest()));
}

void close_import(Script& script, Arguments& arguments) {
  const int64_t id = arguments.number();
  arguments.end();
  script.close_import(id);
}

}  // namespace cachalot::differential
