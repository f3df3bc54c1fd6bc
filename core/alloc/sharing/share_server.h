// SPDX-License-Identifier: MIT OR Apache-2.0
// The blocks that this process shares, and who has them open.
//
// Note [Lifetimes of shared blocks]
// Rationale: a process that uses another one's memory can die at any moment, and so can the
// other one. Counters in shared memory stay wrong then; the kernel's list of open sockets
// does not.
// Approach: each opener keeps a connection to the thread of this server while it uses the
// block. A block is freed once: when its owner has ended it and no opener has it any more.
// An opener says so when it closes. An opener whose connection ends without a word has died,
// and counts until the system has taken its process apart: its device may work on the memory
// until then.
// Limitations: a child that the opener has forked keeps the connection open. One of the
// sharer's keeps openers from seeing that the sharer has died.
#pragma once

#include <poll.h>

#include <atomic>
#include <functional>
#include <map>
#include <optional>
#include <thread>
#include <vector>

#include "alloc/sharing/local_socket.h"
#include "alloc/sharing/share_messages.h"
#include "alloc/sharing/shared_memory.h"
#include "alloc/sharing/ticket.h"
#include "base/mutex.h"

namespace cachalot {

// Note [The thread of shared blocks]
// Rationale: openers come, ask and die at any time, and the sharer's own threads may not
// call the library for hours. A block that waits for its last opener has to be freed all
// the same.
// Approach: one thread an allocator, from the first shared block on. It sleeps in poll()
// over the socket that listens, all connections, and the processes of openers that died. It
// answers what an opener asks, one packet a question, so that no opener can keep it waiting
// for room.
//   A call that depends on who has a block open makes the thread look first (catch_up): what an
// opener did before that call then counts.
// Invariants: an entry has as many users as connections have its token. It goes when it has
// ended and has no user; then its block is freed, outside of the lock, since the free takes
// the device's lock.

// Owns the socket, the thread and the connections. Any thread may call anything.
class ShareServer {
 public:
  // Called without a lock, also on the thread of the server. Does not throw.
  using Free = std::function<void(Address)>;

  // Throws where the system has no socket or no thread.
  explicit ShareServer(Free free);
  // Ends all connections. What is still shared is not freed.
  ~ShareServer();
  ShareServer(const ShareServer&) = delete;
  ShareServer& operator=(const ShareServer&) = delete;

  // The block's memory stays as it is until it is freed.
  Ticket add(Address address, const SharedBlock& block);
  // Its owner has ended it: nobody opens it from now on, and it is freed when nobody has it
  // open.
  void end(const Token& block);
  uint64_t users(const Token& block);

 private:
  // A block that is shared.
  struct Entry {
    Address address = 0;
    SharedBlock block;
    // Connections that have it open.
    uint64_t users = 0;
    // By its owner.
    bool has_ended = false;
  };
  // An opener.
  struct Connection {
    LocalSocket socket;
    // Not open where the opener's process cannot be told, as from another process namespace: then the end
    // of the connection is the end of the use.
    Descriptor process;
    // What it has open.
    std::optional<Token> block;
    // The connection has ended without a word.
    bool waits_for_process = false;
  };

  void run();
  // pre of the next ones: the server's thread.
  void accept();
  bool serve(Connection& connection);  // false: the connection is over
  bool answer(Connection& connection, const ShareRequest& request);
  bool send_pages(const Connection& connection, uint64_t first);
  bool is_over(Connection& connection, short events);
  static bool has_died(const Connection& connection);
  void look(std::vector<pollfd>* ends, bool may_wait);
  void give_up(Connection& connection);
  OpenReply open(Connection& connection, const ShareRequest& request);
  // One user less (the server's thread).
  void leave(const Token& block);
  // Changes the entry, if it is there still, and frees its block where nobody needs it any more.
  template <class Change>
  void change(const Token& block, Change change);
  // Returns when the thread has seen all that openers have said and done by now.
  void catch_up();
  void wake() const;

  const Free free_;
  const Token name_;
  const LocalSocket listener_;
  const Descriptor wake_;
  Mutex lock_{LockRank::kSharedBlocks};
  std::map<Token, Entry> entries_;
  std::vector<Connection> connections_;  // of the thread
  bool accepts_ = true;                  // false: the process has no descriptor left, for a moment
  std::atomic<bool> is_ending_{false};
  // How often somebody has asked to catch up, and how many of these the thread has done.
  std::atomic<uint64_t> asked_{0};
  std::atomic<uint64_t> done_{0};
  std::thread thread_;
};

}  // namespace cachalot
