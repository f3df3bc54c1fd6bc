// SPDX-License-Identifier: MIT OR Apache-2.0
#include "alloc/sharing/ticket.h"

#include <sys/random.h>

#include <cerrno>
#include <optional>

#include "base/error.h"
#include "base/text.h"

namespace cachalot {
namespace {

constexpr std::string_view kBegin = "cachalot-block-1-";
constexpr size_t kDigits = 2 * sizeof(Token);
constexpr std::string_view kHexadecimal = "0123456789abcdef";

std::optional<Token> token_of(std::string_view digits) {
  Token token{};
  for (size_t i = 0; i < kDigits; i++) {
    const size_t value = kHexadecimal.find(digits[i]);
    if (value == kHexadecimal.npos) return {};
    token[i / 2] = static_cast<uint8_t>(size_t{token[i / 2]} << 4 | value);
  }
  return token;
}

}  // namespace

Token new_token() {
  Token token{};
  ssize_t got = 0;
  do {
    got = ::getrandom(token.data(), token.size(), 0);
  } while (got < 0 && errno == EINTR);
  if (got != static_cast<ssize_t>(token.size()))
    throw Error(Status::kIo, "the system gives no random bytes");
  return token;
}

std::string socket_name(const Token& server) { return "cachalot-" + hex_digits(server); }

// Printable, without blanks: it goes through command lines, variables and JSON as it is.
std::string Ticket::text() const {
  return std::string(kBegin) + hex_digits(server) + hex_digits(block);
}

// The text itself is not told: it may be a secret with a slip of the pen.
Ticket Ticket::of(std::string_view text) {
  const bool is_one = text.size() == kBegin.size() + 2 * kDigits && text.starts_with(kBegin);
  const auto server = is_one ? token_of(text.substr(kBegin.size(), kDigits)) : std::nullopt;
  const auto block = is_one ? token_of(text.substr(kBegin.size() + kDigits)) : std::nullopt;
  if (!server || !block) {
    throw_invalid_argument(
        format("a text of %zu bytes is no ticket of a shared block", text.size()));
  }
  return {*server, *block};
}

}  // namespace cachalot
