// SPDX-License-Identifier: MIT OR Apache-2.0
// The text by which another process opens a shared block.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace cachalot {

// 16 random bytes, which nobody guesses.
using Token = std::array<uint8_t, 16>;

// Throws Error where the system gives none.
Token new_token();

struct Ticket {
  // Names the socket of the process that shares the block.
  Token server;
  // Names the block there, and shows that whoever asks for it was given the ticket.
  Token block;

  std::string text() const;
  // Throws Error for a text that is none.
  static Ticket of(std::string_view text);
};

// Where the process of this name listens.
std::string socket_name(const Token& server);

}  // namespace cachalot
