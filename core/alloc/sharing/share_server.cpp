// SPDX-License-Identifier: MIT OR Apache-2.0
#include "alloc/sharing/share_server.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <mutex>
#include <new>
#include <system_error>
#include <utility>

#include "base/blocked_signals.h"
#include "base/error.h"

namespace cachalot {
namespace {

constexpr int kMillisecondsWithoutMeans = 50;

Descriptor new_event() {
  Descriptor event(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!event.is_open()) throw Error(Status::kIo, "the system gives no event for shared blocks");
  return event;
}

template <class Body>
std::thread start_without_signals(Body body) {
  const BlockedSignals blocked;
  try {
    return std::thread(body);
  } catch (const std::system_error&) {
    throw Error(Status::kIo, "the system gives no thread for shared blocks");
  }
}

// What an opener has to know before it asks for handles.
OpenReply reply_for(const SharedBlock& block) {
  OpenReply reply{.is_open = 1, .offset = block.offset, .size = block.size, .segment = {}};
  if (const auto* const pages = std::get_if<SharedPages>(&block.memory)) {
    reply.handle_type = static_cast<int32_t>(pages->type);
    reply.page_size = pages->page_size;
    reply.pages = pages->handles.size();
  } else {
    reply.segment = std::get<ShareableHandle>(block.memory);
  }
  return reply;
}

}  // namespace

ShareServer::ShareServer(Free free)
    : free_(std::move(free)),
      name_(new_token()),
      listener_(LocalSocket::listen(socket_name(name_))),
      wake_(new_event()),
      thread_(start_without_signals([this] { run(); })) {}

ShareServer::~ShareServer() {
  is_ending_ = true;
  wake();
  thread_.join();
}

void ShareServer::wake() const {
  const uint64_t one = 1;
  while (::write(wake_.number(), &one, sizeof one) < 0 && errno == EINTR) continue;
}

// An opener may have ended a moment ago, and a caller that knows of it expects that it counts
// no more.
void ShareServer::catch_up() {
  const uint64_t turn = ++asked_;
  wake();
  for (uint64_t done = done_; done < turn; done = done_) done_.wait(done);
}

// ---- Blocks

Ticket ShareServer::add(Address address, const SharedBlock& block) {
  const Token token = new_token();
  const std::lock_guard lock(lock_);
  entries_.emplace(token, Entry{.address = address, .block = block});
  return {name_, token};
}

// The block is freed outside of the lock (Note [The thread of shared blocks]).
template <class Change>
void ShareServer::change(const Token& block, Change change) {
  Address unused = 0;
  {
    const std::lock_guard lock(lock_);
    const auto found = entries_.find(block);
    if (found == entries_.end()) return;
    Entry& entry = found->second;
    change(entry);
    if (!entry.has_ended || entry.users != 0) return;
    unused = entry.address;
    entries_.erase(found);
  }
  free_(unused);
}

void ShareServer::end(const Token& block) {
  catch_up();
  change(block, [](Entry& entry) { entry.has_ended = true; });
}

uint64_t ShareServer::users(const Token& block) {
  catch_up();
  const std::lock_guard lock(lock_);
  const auto entry = entries_.find(block);
  return entry != entries_.end() ? entry->second.users : 0;
}

// On the server's thread, when an opener is done or its process is gone.
void ShareServer::leave(const Token& block) {
  change(block, [](Entry& entry) { entry.users--; });
}

// ---- The thread

void ShareServer::run() {
  std::vector<pollfd> ends;
  while (!is_ending_) {
    const uint64_t asked = asked_;  // before the look, which sees what came before the question
    try {
      look(&ends, /*may_wait=*/asked == done_);
    } catch (const std::bad_alloc&) {
      // Without memory for a list of descriptors nobody is served for a moment.
      ::poll(nullptr, 0, kMillisecondsWithoutMeans);
    }
    done_ = asked;
    done_.notify_all();
  }
}

// A caller of another thread wakes this thread once, which may have been for the look before: then nothing is waited
// for.
void ShareServer::look(std::vector<pollfd>* ends, bool may_wait) {
  ends->assign({{wake_.number(), POLLIN, 0},
                {listener_.descriptor(), static_cast<short>(accepts_ ? POLLIN : 0), 0}});
  for (const Connection& connection : connections_) {
    const bool waits = connection.waits_for_process;
    ends->push_back(
        {waits ? connection.process.number() : connection.socket.descriptor(), POLLIN, 0});
  }
  const int patience = !may_wait ? 0 : accepts_ ? -1 : kMillisecondsWithoutMeans;
  if (::poll(ends->data(), ends->size(), patience) < 0) return;
  uint64_t times = 0;
  while (::read(wake_.number(), &times, sizeof times) < 0 && errno == EINTR) continue;
  accepts_ = true;
  for (size_t i = connections_.size(); i-- > 0;) {
    if (is_over(connections_[i], (*ends)[i + 2].revents))
      connections_.erase(connections_.begin() + static_cast<ptrdiff_t>(i));
  }
  if ((*ends)[1].revents != 0) accept();
}

// A process that has no descriptor left cannot take the connection, and poll() would tell of it again
// and again: it is left waiting for a moment.
void ShareServer::accept() {
  errno = 0;
  LocalSocket socket = listener_.accept();
  if (!socket.is_open()) {
    accepts_ = errno != EMFILE && errno != ENFILE;
    return;
  }
  Descriptor process = socket.process();
  connections_.push_back({.socket = std::move(socket), .process = std::move(process), .block = {}});
}

bool ShareServer::is_over(Connection& connection, short events) {
  if (events == 0) return false;
  if (!connection.waits_for_process && serve(connection)) return false;
  if (!connection.block) return true;
  connection.waits_for_process = connection.process.is_open();
  if (connection.waits_for_process && !has_died(connection)) return false;
  leave(*connection.block);
  return true;
}

// Of a connection that has ended without a word.
bool ShareServer::has_died(const Connection& connection) {
  pollfd end{connection.process.number(), POLLIN, 0};
  return ::poll(&end, 1, 0) > 0;
}

// All that an opener has said by now: its last words may lie behind a question. Without memory for an
// answer it is treated as one that has died.
bool ShareServer::serve(Connection& connection) try {
  for (;;) {
    errno = 0;
    const Packet packet = connection.socket.receive();
    if (packet.bytes.empty() && (errno == EAGAIN || errno == EWOULDBLOCK)) return true;
    const auto request = read_message<ShareRequest>(packet.bytes);
    if (!request) return false;
    if (request->call == ShareCall::kDone) {
      give_up(connection);
      return false;
    }
    if (!answer(connection, *request)) return false;
  }
} catch (const std::bad_alloc&) {
  return false;
}

// The opener uses nothing of the block.
void ShareServer::give_up(Connection& connection) {
  if (connection.block) leave(*connection.block);
  connection.block.reset();
}

// A connection opens one block. What does not follow the protocol ends it.
bool ShareServer::answer(Connection& connection, const ShareRequest& request) {
  const bool is_open = connection.block.has_value();
  if (request.call != (is_open ? ShareCall::kPages : ShareCall::kOpen)) return false;
  const bool is_sent = is_open ? send_pages(connection, request.first_page)
                               : connection.socket.send(message_of(open(connection, request)));
  // It has nothing to open before it has got all answers.
  if (!is_sent) give_up(connection);
  return is_sent;
}

OpenReply ShareServer::open(Connection& connection, const ShareRequest& request) {
  const std::lock_guard lock(lock_);
  const auto entry = entries_.find(request.block);
  if (entry == entries_.end() || entry->second.has_ended) return {};
  entry->second.users++;
  connection.block = request.block;
  return reply_for(entry->second.block);
}

// The handles stay what they are while the block has a user, so the lock is not held while
// they are sent.
bool ShareServer::send_pages(const Connection& connection, uint64_t first) {
  const SharedPages* pages = nullptr;
  {
    const std::lock_guard lock(lock_);
    const auto entry = entries_.find(*connection.block);
    if (entry != entries_.end()) pages = std::get_if<SharedPages>(&entry->second.block.memory);
  }
  if (pages == nullptr || first >= pages->handles.size()) return false;
  std::string bytes;
  std::vector<int> descriptors;
  const uint64_t end = std::min<uint64_t>(first + kMostDescriptors, pages->handles.size());
  for (uint64_t i = first; i < end; i++) {
    bytes += message_of(pages->handles[i]);
    if (pages->type == HandleType::kPosixFd) descriptors.push_back(pages->handles[i].descriptor());
  }
  return connection.socket.send(bytes, descriptors);
}

}  // namespace cachalot
