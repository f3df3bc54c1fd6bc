// SPDX-License-Identifier: MIT OR Apache-2.0
// Sockets between processes of one machine and one user. A packet carries bytes, and
// descriptors beside them; the end of a process ends its connections, whatever it dies of.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/descriptor.h"

namespace cachalot {

// More than the system takes in one packet are never sent.
inline constexpr size_t kMostDescriptors = 64;

struct Packet {
  std::string bytes;
  // Copies of the other process's, which are this one's now.
  std::vector<Descriptor> descriptors;
};

class LocalSocket {
 public:
  LocalSocket() = default;

  // Waits for connections at a name that no file has. Throws Error where the system
  // refuses.
  static LocalSocket listen(const std::string& name);
  // Throws Error where nobody listens, or a process of another user does.
  static LocalSocket connect(const std::string& name);
  // The next connection that waits. Not open: there is none, or it is another user's.
  LocalSocket accept() const;

  bool is_open() const { return socket_.is_open(); }
  int descriptor() const { return socket_.number(); }
  // False: the other end is gone, or does not read. The descriptors stay the caller's.
  bool send(const std::string& bytes, const std::vector<int>& descriptors = {}) const;
  // An empty packet: the other end is gone, or says nothing.
  Packet receive() const;
  // Whether the process at the other end still has it open.
  bool is_connected() const;
  // A descriptor of the process at the other end, which can be read when it has ended. Not
  // open: it cannot be told.
  Descriptor process() const;

 private:
  explicit LocalSocket(int socket) : socket_(socket) {}
  bool is_of_this_user() const;

  Descriptor socket_;
};

}  // namespace cachalot
