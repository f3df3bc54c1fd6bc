// SPDX-License-Identifier: MIT OR Apache-2.0
// What a device asks where a policy of the library's own decides instead of the reference: how a request
// is served that the cache of its stream cannot serve, and which stream waits for which.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "alloc/backend/report.h"
#include "alloc/heap/block_changes.h"
#include "alloc/native/alloc_params.h"
#include "alloc/stats/policy_stats.h"

namespace cachalot {

class DeviceState;

class CachePolicy {
 public:
  CachePolicy() = default;
  virtual ~CachePolicy() = default;
  CachePolicy(const CachePolicy&) = delete;
  CachePolicy& operator=(const CachePolicy&) = delete;

  // A free block for the request, in no set; null: out of memory. Throws what the driver says. pre: the
  // whole device; the request is of a pool without a source of its own.
  virtual Block* find_memory(AllocParams& params) = 0;
  // Whether it looks among the cached blocks of other streams too. pre (here and below): the whole device.
  virtual bool may_borrow(const AllocParams& params) const = 0;
  // What would become of such a request, with so many bytes free on the device. Nothing changes.
  virtual Outcome outcome(const AllocParams& params, uint64_t device_free) const = 0;

  // ---- Hand-outs of blocks that the cache or find_memory() found. pre: the whole device.
  // Whatever the stream of the request has to wait for. Throws what the driver says.
  virtual void before_hand_out(const Block* found, Stream stream) = 0;
  // used: cut from the block that was found, or all of it. Does not throw.
  virtual void handed_out(Block* found, Block* used, Stream stream) = 0;
  // Of a block in use, or one that waits. pre: the device's lock.
  virtual Stream user_of(const Block* block) const = 0;
  // Whether that stream has ended, so that another one may have its handle. pre: the device's lock.
  virtual bool has_user_ended(const Block* block) const = 0;

  // ---- The way back
  // Neither throws. pre: the whole device.
  virtual void freed(Block* block) = 0;
  // The free block is about to take these neighbours in.
  virtual void merging(Block* block, Neighbours free) = 0;
  // Unmaps the addresses that pages have moved from, where no work uses them any more; the driver has the
  // memory of a page only then. may_wait: waits for that work. Does nothing while a capture may be under
  // way. pre: the whole device.
  virtual void finish_moves(bool may_wait) = 0;
  // The work of all streams on the block is to be done. pre: the device's lock and the block's shard.
  virtual void before_unmap(Block* block) = 0;
  // So many bytes of pages have gone back to the driver. pre: the device's lock.
  virtual void unmapped(uint64_t bytes) = 0;
  // All that the default pools may give back has gone back. pre: the whole device.
  virtual void cache_emptied() = 0;
  // The caller queues no more work on the stream until it makes a request for it again. Throws what the
  // driver says. pre: the whole device.
  virtual void stream_ended(Stream stream) = 0;
  // Destroys the policy's events, which later calls make again. pre: the whole device.
  virtual void destroy_events() = 0;

  // pre: the device's lock.
  virtual PolicyStats stats() const = 0;

  // The auditor: empty, or the first thing that is wrong.
  virtual std::string check() const = 0;
};

// Makes the policy of a device; empty: the reference decides.
using MakeCachePolicy = std::function<std::unique_ptr<CachePolicy>(DeviceState&)>;

}  // namespace cachalot
