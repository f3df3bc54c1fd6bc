// SPDX-License-Identifier: MIT OR Apache-2.0
#include "alloc/sharing/local_socket.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>

#include "base/assert.h"
#include "base/error.h"

namespace cachalot {
namespace {

constexpr int kType = SOCK_SEQPACKET | SOCK_CLOEXEC;
constexpr int kSecondsToAnswer = 10;
constexpr size_t kMostBytes = 8192;

struct Name {
  sockaddr_un address = {};
  socklen_t length = 0;
};

// A first byte of 0: the name is in no folder and goes with its last socket.
Name socket_name_of(const std::string& text) {
  Name name;
  name.address.sun_family = AF_UNIX;
  CACHALOT_ASSERT(1, text.size() + 1 < sizeof name.address.sun_path);
  std::memcpy(name.address.sun_path + 1, text.data(), text.size());
  name.length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + text.size());
  return name;
}

const sockaddr* pointer_to(const Name& name) {
  return reinterpret_cast<const sockaddr*>(&name.address);
}

[[noreturn]] void throw_failure(const char* what, int error) {
  throw Error(Status::kIo, std::string(what) + ": " + std::generic_category().message(error));
}

bool credentials_of(int socket, ucred* credentials) {
  socklen_t length = sizeof *credentials;
  return ::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, credentials, &length) == 0;
}

// Room for the descriptors of a packet, aligned as the system wants it.
struct Control {
  alignas(cmsghdr) char bytes[CMSG_SPACE(kMostDescriptors * sizeof(int))] = {};
};

void put_descriptors(msghdr* message, Control* control, const std::vector<int>& descriptors) {
  if (descriptors.empty()) return;
  CACHALOT_ASSERT(1, descriptors.size() <= kMostDescriptors);
  const size_t size = descriptors.size() * sizeof(int);
  message->msg_control = control->bytes;
  message->msg_controllen = CMSG_SPACE(size);
  cmsghdr* const header = CMSG_FIRSTHDR(message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(size);
  std::memcpy(CMSG_DATA(header), descriptors.data(), size);
}

// They are this process's from now on, whatever becomes of the packet.
void take_descriptors(msghdr* message, std::vector<Descriptor>* descriptors) {
  for (cmsghdr* header = CMSG_FIRSTHDR(message); header != nullptr;
       header = CMSG_NXTHDR(message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; i++) {
      int number = -1;
      std::memcpy(&number, CMSG_DATA(header) + i * sizeof number, sizeof number);
      descriptors->emplace_back(number);
    }
  }
}

}  // namespace

// Each accepted socket is of the same kind: packets keep their borders, and the end of a process is
// told to the other end.
LocalSocket LocalSocket::listen(const std::string& text) {
  LocalSocket socket(::socket(AF_UNIX, kType | SOCK_NONBLOCK, 0));
  const Name name = socket_name_of(text);
  if (!socket.is_open() || ::bind(socket.descriptor(), pointer_to(name), name.length) != 0 ||
      ::listen(socket.descriptor(), SOMAXCONN) != 0)
    throw_failure("no socket for shared blocks", errno);
  return socket;
}

// The other process may be stopped in a debugger, or be no library of ours: nothing is waited for
// without an end.
LocalSocket LocalSocket::connect(const std::string& text) {
  LocalSocket socket(::socket(AF_UNIX, kType, 0));
  if (!socket.is_open()) throw_failure("no socket for a shared block", errno);
  const timeval limit{kSecondsToAnswer, 0};
  ::setsockopt(socket.descriptor(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  ::setsockopt(socket.descriptor(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
  const Name name = socket_name_of(text);
  if (::connect(socket.descriptor(), pointer_to(name), name.length) != 0) {
    if (errno != ECONNREFUSED) throw_failure("cannot reach the process of a shared block", errno);
    throw_invalid_state(
        "the process or the allocator that shared the block is gone, or in another network "
        "namespace");
  }
  if (!socket.is_of_this_user())
    throw_invalid_state("the block was shared by a process of another user");
  return socket;
}

LocalSocket LocalSocket::accept() const {
  LocalSocket socket(::accept4(descriptor(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  return socket.is_open() && socket.is_of_this_user() ? std::move(socket) : LocalSocket();
}

// Names of such sockets have no owner and no mode, so any process that knows one could connect to it, or
// listen there once its process is gone. Root may do what it likes anyway.
bool LocalSocket::is_of_this_user() const {
  ucred credentials = {};
  if (!credentials_of(descriptor(), &credentials)) return false;
  return credentials.uid == ::geteuid() || credentials.uid == 0;
}

bool LocalSocket::send(const std::string& bytes, const std::vector<int>& descriptors) const {
  iovec part{const_cast<char*>(bytes.data()), bytes.size()};
  Control control;
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  put_descriptors(&message, &control, descriptors);
  ssize_t sent = 0;
  do {
    sent = ::sendmsg(descriptor(), &message, MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  return sent == static_cast<ssize_t>(bytes.size());
}

// A packet that does not fit is no packet of ours. Its descriptors are closed with it.
Packet LocalSocket::receive() const {
  Packet packet;
  packet.bytes.resize(kMostBytes);
  iovec part{packet.bytes.data(), packet.bytes.size()};
  Control control;
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.bytes;
  message.msg_controllen = sizeof control.bytes;
  ssize_t got = 0;
  do {
    got = ::recvmsg(descriptor(), &message, MSG_CMSG_CLOEXEC);
  } while (got < 0 && errno == EINTR);
  if (got > 0) take_descriptors(&message, &packet.descriptors);
  const bool is_whole = got > 0 && (message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) == 0;
  packet.bytes.resize(is_whole ? static_cast<size_t>(got) : 0);
  return packet;
}

bool LocalSocket::is_connected() const {
  pollfd end{descriptor(), POLLRDHUP, 0};
  return is_open() && ::poll(&end, 1, 0) >= 0 &&
         (end.revents & (POLLHUP | POLLRDHUP | POLLERR)) == 0;
}

Descriptor LocalSocket::process() const {
  ucred credentials = {};
  if (!credentials_of(descriptor(), &credentials) || credentials.pid <= 0) return {};
  return Descriptor::of_process(credentials.pid);
}

}  // namespace cachalot
