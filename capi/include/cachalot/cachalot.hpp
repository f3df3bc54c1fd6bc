// SPDX-License-Identifier: MIT OR Apache-2.0
/**
 * @file cachalot.hpp
 * The C interface for C++20: owners that move and end by themselves, errors as exceptions, texts as
 * std::string. Everything is inline over cachalot.h.
 *
 * @code
 * cachalot::Allocator allocator;
 * const cachalot::Block block = allocator.allocate(1 << 20);
 * ... use 1 MiB at block.address() on the default stream of device 0 ...
 * @endcode
 *
 * Conventions, everywhere:
 * - Each function does what the C function named in its text does. Sizes are bytes. Errors are
 *   those of the C function, thrown as Error (OutOfMemory for CACHALOT_ERROR_OUT_OF_MEMORY). A call
 *   that throws has changed nothing, except where the text of that function says so.
 * - Options are the structs of C, given by value: `{.driver = driver.get(), .config = ""}`. Zero
 *   means default, and struct_size is set here. (With -Wextra GCC warns of the fields that such a
 *   list leaves out: `-Wno-missing-field-initializers`, or name a struct and assign its fields.)
 * - Objects are owners: they can be moved and not copied, and own nothing afterwards. Then get() is
 *   NULL, functions that throw nothing give 0 or NULL, close() and free() do nothing, and all other
 *   calls throw CACHALOT_ERROR_INVALID_ARGUMENT. Destructors and moves never throw.
 * - Blocks, pools, tenants and scopes borrow their allocator: it has to live longer. Moving it does
 *   not disturb them.
 * - Any thread may call any function; one object is changed (moved, ended) by one thread at a time.
 *   Label and TenantScope belong to the thread that made them, and cannot be moved.
 * - All other functions of C take get(), the handle.
 */
#ifndef CACHALOT_CACHALOT_HPP_
#define CACHALOT_CACHALOT_HPP_

#if __cplusplus < 202002L
#error "cachalot.hpp needs C++20 (-std=c++20); cachalot.h is for C99 and C++11"
#endif

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "cachalot/cachalot.h"

namespace cachalot {

// The static library has classes of the same names in namespace cachalot, so these are in a namespace of
// their own: a program that links it must not get one for the other.
inline namespace hpp {

/** Why a call failed. */
class Error : public std::exception {
 public:
  /** @param record  As a call that failed has filled it. Copied. */
  explicit Error(const cachalot_error& record) noexcept {
    // The library writes nothing behind the NUL of the message.
    std::memcpy(&record_, &record,
                offsetof(cachalot_error, message) + std::strlen(record.message) + 1);
    record_.struct_size = sizeof record_;
  }

  /** The message. Lives as long as this object. */
  const char* what() const noexcept override { return record_.message; }
  /** What the call came to; a number of a newer library stays a number. */
  cachalot_status status() const noexcept { return static_cast<cachalot_status>(record_.status); }
  /** The whole record. Lives as long as this object. */
  const cachalot_error& record() const noexcept { return record_; }

 private:
  cachalot_error record_ = CACHALOT_ERROR_INIT;
};

/** CACHALOT_ERROR_OUT_OF_MEMORY: record() has all numbers. The allocator stays usable. */
class OutOfMemory : public Error {
 public:
  using Error::Error;
};

namespace detail {

[[noreturn, gnu::cold, gnu::noinline]] inline void raise(const cachalot_error& error) {
  if (error.status == CACHALOT_ERROR_OUT_OF_MEMORY) throw OutOfMemory(error);
  throw Error(error);
}

// Calls a function of C that takes a place for its error last. Only that place's first field is
// set, since to clear 4 KiB would cost more than a hit.
template <auto Function, class... Arguments>
inline void call(Arguments... arguments) {
  cachalot_error error;
  error.struct_size = sizeof error;
  if (Function(arguments..., &error) != CACHALOT_OK) [[unlikely]] {
    raise(error);
  }
}

// The same, for a function whose result is the last argument before the error.
template <class Result, auto Function, class... Arguments>
inline Result get(Arguments... arguments) {
  Result result = {};
  if constexpr (requires { result.struct_size; }) result.struct_size = sizeof result;
  call<Function>(arguments..., &result);
  return result;
}

// The same, for a function that writes text like snprintf. The text may grow between two calls.
template <auto Function, class... Arguments>
std::string text(Arguments... arguments) {
  std::string text;
  size_t length = 0;
  do {
    text.resize(length);
    call<Function>(arguments..., text.data(), text.size() + 1, &length);
  } while (length > text.size());
  text.resize(length);
  return text;
}

// An allocator or a tenant that has live blocks cannot be ended, and a destructor cannot throw that.
template <auto Function>
struct EndOrLeave {
  template <class Handle>
  void operator()(Handle* handle) const noexcept {
    cachalot_error error;
    error.struct_size = sizeof error;
    if (Function(handle, &error) == CACHALOT_OK) return;
    constexpr bool kIsTenant = std::is_same_v<Handle, cachalot_tenant>;
    std::fprintf(stderr, "cachalot: %s was left behind: %s\n",
                 kIsTenant ? "a tenant" : "an allocator", error.message);
  }
};

template <auto Function>
struct End {
  template <class Handle>
  void operator()(Handle* handle) const noexcept {
    Function(handle);
  }
};

// Owns a part of the library, as `Held` names it: a Held that is true is ended once, by its end().
template <class Held>
class Owner {
 public:
  Owner() noexcept = default;
  explicit Owner(const Held& held) noexcept : held_(held) {}
  Owner(Owner&& other) noexcept : held_(other.release()) {}
  Owner& operator=(Owner&& other) noexcept {
    Owner taken(std::move(other));
    std::swap(held_, taken.held_);
    return *this;
  }
  ~Owner() {
    if (held_) held_.end();
  }

  Held release() noexcept { return std::exchange(held_, Held{}); }
  const Held* operator->() const noexcept { return &held_; }

 private:
  Held held_ = {};
};

struct HeldBlock {
  cachalot_allocator* allocator = nullptr;
  cachalot_address address = 0;
  explicit operator bool() const noexcept { return address != 0; }
  void end() const noexcept { cachalot_free(allocator, address, nullptr); }
};

struct HeldPinned {
  cachalot_allocator* allocator = nullptr;
  void* memory = nullptr;
  explicit operator bool() const noexcept { return memory != nullptr; }
  void end() const noexcept { cachalot_pinned_free(allocator, memory, nullptr); }
};

struct HeldUse {
  cachalot_allocator* allocator = nullptr;
  int32_t device = 0;
  cachalot_pool_id id = {0, 0};
  explicit operator bool() const noexcept { return allocator != nullptr; }
  void end() const noexcept { cachalot_pool_release(allocator, device, id, nullptr); }
};

struct HeldRoute : HeldUse {
  void end() const noexcept {
    cachalot_pool_end(allocator, device, id, nullptr);
    HeldUse::end();
  }
};

struct HeldCache {
  cachalot_allocator* allocator = nullptr;
  explicit operator bool() const noexcept { return allocator != nullptr; }
  void end() const noexcept { cachalot_empty_cache(allocator, nullptr); }
};

// The parameter that {} stands for where options are expected. With options of C as the only parameter,
// Allocator({}) would be ambiguous: options, or an Allocator to move from.
enum class Defaults {};

}  // namespace detail

/** Where memory comes from: one reference to a driver. An allocator holds one of its own, so this
 * may end before it. */
class Driver {
 public:
  /** cachalot_driver_open. @param name  "cuda", "host:8GiB", "sim:80GiB"; NULL: as the environment
   * says, else the GPUs if there are any, else host memory. */
  explicit Driver(const char* name = nullptr)
      : Driver(Handle(detail::get<cachalot_driver*, cachalot_driver_open>(name))) {}

  /** cachalot_driver_create_host: ordinary memory. @param capacity  Bytes a device has; 0: 4 GiB. */
  static Driver host(uint64_t capacity = 0, int32_t device_count = 1) {
    return own(detail::get<cachalot_driver*, cachalot_driver_create_host>(capacity, device_count));
  }

  /** cachalot_sim_create: a simulated device (sim.h takes get()). */
  static Driver sim(cachalot_sim_options options = {}) {
    options.struct_size = sizeof options;
    return own(detail::get<cachalot_driver*, cachalot_sim_create>(&options));
  }

  /** Takes over the caller's reference to a driver that was made in C. */
  static Driver own(cachalot_driver* driver) noexcept { return Driver(Handle(driver)); }

  /** The handle, borrowed. */
  cachalot_driver* get() const noexcept { return handle_.get(); }
  /** cachalot_driver_name: "cuda", "host", ...; lives as long as the library. */
  const char* name() const noexcept { return cachalot_driver_name(get()); }
  /** cachalot_driver_device_count. */
  int32_t device_count() const noexcept { return cachalot_driver_device_count(get()); }

 private:
  using Handle = std::unique_ptr<cachalot_driver, detail::End<cachalot_driver_destroy>>;
  explicit Driver(Handle handle) noexcept : handle_(std::move(handle)) {}

  Handle handle_;
};

/**
 * A block of an allocator, freed when this ends: at once on its own stream, and where others were
 * recorded when their work is done.
 *
 * A free can fail only for a block that somebody else has freed by its address, for one whose
 * allocator has ended all blocks (Allocator::close_all), after a fork, and by an error of the driver
 * under backend:cudaMallocAsync. The destructor ignores such an error: the block is given up either way,
 * and nothing is freed twice unless its address has been handed out anew. free() throws it.
 */
class [[nodiscard]] Block {
 public:
  /** No block. */
  Block() noexcept = default;

  /** Takes over a live block, such as one that was given away by release(). 0: no block. */
  Block(cachalot_allocator* allocator, cachalot_address address) noexcept
      : held_({allocator, address}) {}

  /** The block's first byte; 0 if there is none, as for a request of 0 bytes. */
  cachalot_address address() const noexcept { return held_->address; }
  /** The same as a pointer: for kernels, and for the host where its driver is `host`. */
  template <class T = void>
  T* data() const noexcept {
    return reinterpret_cast<T*>(static_cast<uintptr_t>(address()));
  }
  /** Whether there is a block. */
  explicit operator bool() const noexcept { return address() != 0; }
  /** Its allocator, borrowed; NULL where there never was a block, or is none any more. */
  cachalot_allocator* allocator() const noexcept { return held_->allocator; }

  /** cachalot_get_block: size, stream, pool and so on. */
  cachalot_block info() const {
    return detail::get<cachalot_block, cachalot_get_block>(allocator(), address());
  }

  /** cachalot_record_stream: work on this stream uses the block, which after its free stays out of
   * use until that work is done. */
  void record_stream(cachalot_stream stream) {
    detail::call<cachalot_record_stream>(allocator(), address(), stream);
  }

  /** cachalot_free: frees it now, as the destructor does. No block is there afterwards, also if this
   * throws; without a block nothing happens. */
  void free() {
    const detail::HeldBlock block = held_.release();
    if (block) detail::call<cachalot_free>(block.allocator, block.address);
  }

  /** cachalot_free_on_stream: the same, made while this is the thread's current stream, which matters
   * during captures. */
  void free_on_stream(cachalot_stream current) {
    const detail::HeldBlock block = held_.release();
    if (!block) return;
    detail::call<cachalot_free_on_stream>(block.allocator, block.address, current);
  }

  /** Gives the block away: the caller frees the address. */
  cachalot_address release() noexcept { return held_.release().address; }

 private:
  detail::Owner<detail::HeldBlock> held_;
};

/** Pinned host memory, taken back when this ends. Streams whose copies the host does not wait for
 * have to be recorded before. */
class [[nodiscard]] PinnedBlock {
 public:
  /** No block. */
  PinnedBlock() noexcept = default;

  /** Takes over a live block of pinned memory. NULL: no block. */
  PinnedBlock(cachalot_allocator* allocator, void* memory) noexcept : held_({allocator, memory}) {}

  /** Its first byte, at a multiple of 512; NULL if there is no block. */
  template <class T = void>
  T* data() const noexcept {
    return static_cast<T*>(held_->memory);
  }
  /** Whether there is a block. */
  explicit operator bool() const noexcept { return held_->memory != nullptr; }

  /** cachalot_pinned_size: its bytes, at least what was asked for. */
  uint64_t size() const {
    return detail::get<uint64_t, cachalot_pinned_size>(held_->allocator, held_->memory);
  }

  /** cachalot_pinned_record_stream: call it behind each copy that the host does not wait for.
   * @param device  Of the stream. */
  void record_stream(cachalot_stream stream, int32_t device = 0) {
    detail::call<cachalot_pinned_record_stream>(held_->allocator, held_->memory, device, stream);
  }

  /** cachalot_pinned_free: takes it back now. No block is there afterwards, also if this throws;
   * without a block nothing happens. */
  void free() {
    const detail::HeldPinned block = held_.release();
    if (block) detail::call<cachalot_pinned_free>(block.allocator, block.memory);
  }

  /** Gives the block away: the caller gives it to cachalot_pinned_free. */
  void* release() noexcept { return held_.release().memory; }

 private:
  detail::Owner<detail::HeldPinned> held_;
};

/** Requests go to a pool until this ends. A route for one thread's requests is for the thread that
 * called Pool::route, wherever the scope is moved to and ended. */
class [[nodiscard]] PoolScope {
  friend class Pool;
  explicit PoolScope(const detail::HeldUse& use) noexcept : held_({use}) {}

  detail::Owner<detail::HeldRoute> held_;
};

/** A private pool: one of its uses, which is released when this ends. Its blocks may live on; what it
 * has cached goes back with Allocator::empty_cache once no use is left. */
class [[nodiscard]] Pool {
 public:
  /** Its id, for the functions of C. */
  cachalot_pool_id id() const noexcept { return held_->id; }
  /** The device where it is. */
  int32_t device() const noexcept { return held_->device; }

  /** cachalot_pool_use_count. */
  int32_t use_count() const {
    return detail::get<int32_t, cachalot_pool_use_count>(held_->allocator, device(), id());
  }

  /**
   * cachalot_pool_begin: routes requests to the pool until the scope ends.
   *
   * @param route  Which requests; {}: those of this thread.
   */
  PoolScope route(cachalot_pool_route route = {}) {
    route.struct_size = sizeof route;
    try {
      detail::call<cachalot_pool_begin>(held_->allocator, device(), id(), &route);
    } catch (const Error& error) {
      // A beginning that is refused by the pool's state has raised the use count.
      if (error.status() == CACHALOT_ERROR_INVALID_STATE) held_->end();
      throw;
    }
    return PoolScope({held_->allocator, device(), id()});
  }

 private:
  friend class Allocator;
  explicit Pool(const detail::HeldUse& use) noexcept : held_(use) {}

  detail::Owner<detail::HeldUse> held_;
};

/** Requests of this thread that name no tenant are a tenant's until this ends. These nest, and have to
 * end in reverse order on the thread that made them, so they cannot be moved. */
class [[nodiscard]] TenantScope {
 public:
  TenantScope(const TenantScope&) = delete;
  TenantScope& operator=(const TenantScope&) = delete;
  ~TenantScope() { cachalot_tenant_end(tenant_, nullptr); }

 private:
  friend class Tenant;
  explicit TenantScope(cachalot_tenant* tenant) : tenant_(tenant) {
    detail::call<cachalot_tenant_begin>(tenant);
  }

  cachalot_tenant* tenant_;
};

/**
 * A tenant of an allocator (tenant.h), ended with this.
 *
 * One that has live blocks cannot be ended. The destructor then leaves it behind, with a line on the
 * standard error output: it goes with its allocator, and its handle stays.
 */
class [[nodiscard]] Tenant {
 public:
  /** The handle, borrowed. */
  cachalot_tenant* get() const noexcept { return handle_.get(); }

  /** cachalot_allocate_for. @param size  Bytes. @param stream  The stream that will use the block. */
  Block allocate(uint64_t size, int32_t device = 0, cachalot_stream stream = 0) {
    return {allocator_, detail::get<cachalot_address, cachalot_allocate_for>(allocator_, get(),
                                                                             size, device, stream)};
  }

  /** cachalot_tenant_begin: this is the tenant of the thread until the scope ends. */
  TenantScope enter() { return TenantScope(get()); }

  /** cachalot_tenant_set_bytes. @param limit_bytes  0: none. @param device  Default: each. */
  void set_bytes(uint64_t guaranteed_bytes, uint64_t limit_bytes,
                 int32_t device = CACHALOT_ALL_DEVICES) {
    detail::call<cachalot_tenant_set_bytes>(get(), device, guaranteed_bytes, limit_bytes);
  }
  /** cachalot_tenant_set_priority. */
  void set_priority(int32_t priority) {
    detail::call<cachalot_tenant_set_priority>(get(), priority);
  }

  /** cachalot_get_tenant_stats. */
  cachalot_tenant_stats stats(int32_t device = 0) const {
    return detail::get<cachalot_tenant_stats, cachalot_get_tenant_stats>(get(), device);
  }

  /** cachalot_tenant_destroy: ends it now. CACHALOT_ERROR_INVALID_STATE while it has live blocks or
   * is the tenant of a thread: then it is still there. */
  void close() {
    detail::call<cachalot_tenant_destroy>(get());
    static_cast<void>(handle_.release());
  }

 private:
  friend class Allocator;
  Tenant(cachalot_allocator* allocator, cachalot_tenant* handle) noexcept
      : allocator_(allocator), handle_(handle) {}

  cachalot_allocator* allocator_;
  std::unique_ptr<cachalot_tenant, detail::EndOrLeave<cachalot_tenant_destroy>> handle_;
};

/** A label on the calling thread until this ends: what the thread allocates meanwhile counts for it,
 * in every allocator. Labels nest ("model-a/kv-cache"), and have to end in reverse order on the thread
 * that made them, so they cannot be moved. */
class [[nodiscard]] Label {
 public:
  /** cachalot_label_push. @param label  Copied; not NULL, not empty. */
  explicit Label(const char* label) { detail::call<cachalot_label_push>(label); }
  explicit Label(const std::string& label) : Label(label.c_str()) {}
  Label(const Label&) = delete;
  Label& operator=(const Label&) = delete;
  ~Label() { cachalot_label_pop(nullptr); }
};

/** Empties the cache of an allocator (cachalot_empty_cache) when this ends, however the scope is left.
 * An error of the driver is passed over: what did not go back stays cached. */
class [[nodiscard]] EmptyCacheGuard {
  friend class Allocator;
  explicit EmptyCacheGuard(cachalot_allocator* allocator) noexcept : held_({allocator}) {}

  detail::Owner<detail::HeldCache> held_;
};

/** The holders of a device's memory, and the obstacles of a request (report.h). A report may outlive
 * its allocator. */
class [[nodiscard]] Report {
 public:
  /** The handle, borrowed: its rows are read with the functions of report.h. */
  cachalot_report* get() const noexcept { return handle_.get(); }
  /** cachalot_report_text: a table of one screen. */
  std::string text() const { return detail::text<cachalot_report_text>(get()); }
  /** cachalot_report_json: one object. */
  std::string json() const { return detail::text<cachalot_report_json>(get()); }

 private:
  friend class Allocator;
  explicit Report(cachalot_report* handle) noexcept : handle_(handle) {}

  std::unique_ptr<cachalot_report, detail::End<cachalot_report_destroy>> handle_;
};

/**
 * A caching allocator over all devices of its driver.
 *
 * Live blocks keep it from ending, as their addresses are in use somewhere. The destructor then leaves
 * it behind, with a line on the standard error output: it stays for the life of the process, and its
 * blocks can still be used and freed. A child process of a fork cannot use it, and the line gives that
 * reason there. close() throws an error instead of leaving it behind, and close_all() frees the live
 * blocks too. Every other call has to have returned.
 */
class Allocator {
 public:
  /** All defaults: the environment's driver and options. */
  explicit Allocator(detail::Defaults = {}) : Allocator(cachalot_allocator_options{}) {}

  /** cachalot_allocator_create. */
  explicit Allocator(cachalot_allocator_options options) {
    options.struct_size = sizeof options;
    handle_.reset(detail::get<cachalot_allocator*, cachalot_allocator_create>(&options));
  }

  /** Takes over an allocator that was made in C, or given away by release(). */
  static Allocator own(cachalot_allocator* allocator) noexcept {
    return Allocator(Handle(allocator));
  }
  /** Gives the allocator away: the caller destroys it, or never does. */
  cachalot_allocator* release() noexcept { return handle_.release(); }

  /** The handle, borrowed. */
  cachalot_allocator* get() const noexcept { return handle_.get(); }

  /** cachalot_allocator_destroy: gives all memory back and ends it. CACHALOT_ERROR_INVALID_STATE with
   * their number while blocks are live: then it is still there. */
  void close() {
    detail::call<cachalot_allocator_destroy>(get());
    static_cast<void>(handle_.release());
  }
  /** cachalot_allocator_destroy_all: the same, but live blocks are freed too, after all work on their
   * devices. What still owns them has to be gone, or to release() them. */
  void close_all() {
    detail::call<cachalot_allocator_destroy_all>(get());
    static_cast<void>(handle_.release());
  }

  // ---- Blocks

  /**
   * cachalot_allocate: hands out a block.
   *
   * @param size    Bytes. 0 gives no block.
   * @param stream  The stream that will use the block: it is not waited for between blocks of one stream.
   */
  Block allocate(uint64_t size, int32_t device = 0, cachalot_stream stream = 0) {
    return {get(), detail::get<cachalot_address, cachalot_allocate>(get(), size, device, stream)};
  }
  /** cachalot_allocate_with: with all that a request may say. */
  Block allocate(cachalot_request request) {
    request.struct_size = sizeof request;
    return {get(), detail::get<cachalot_address, cachalot_allocate_with>(get(), &request)};
  }

  /** cachalot_pinned_allocate: hands out pinned host memory. @param size  Bytes. 0 gives no block. */
  PinnedBlock allocate_pinned(uint64_t size) {
    return {get(), detail::get<void*, cachalot_pinned_allocate>(get(), size)};
  }

  // ---- The cache and limits

  /** cachalot_empty_cache: gives the cached memory of all devices back. */
  void empty_cache() { detail::call<cachalot_empty_cache>(get()); }
  /** cachalot_empty_device_cache: the same for one device. */
  void empty_cache(int32_t device) { detail::call<cachalot_empty_device_cache>(get(), device); }
  /** cachalot_release_context: lets go of a device's context, which the caller is about to end. */
  void release_context(int32_t device) { detail::call<cachalot_release_context>(get(), device); }
  /** Empties the cache at the end of a scope, however it is left. Blocks that are declared behind the
   * guard are freed before. */
  EmptyCacheGuard empty_cache_on_exit() noexcept { return EmptyCacheGuard(get()); }

  /** cachalot_trim: gives idle memory back until no more than keep_bytes are reserved.
   * @param min_idle_ns  Nanoseconds; 0: whatever is free goes. @return The bytes given back. */
  uint64_t trim(int32_t device, uint64_t keep_bytes = 0, uint64_t min_idle_ns = 0) {
    return detail::get<uint64_t, cachalot_trim>(get(), device, keep_bytes, min_idle_ns);
  }

  /** cachalot_set_memory_limit. @param bytes  UINT64_MAX: none. */
  void set_memory_limit(int32_t device, uint64_t bytes) {
    detail::call<cachalot_set_memory_limit>(get(), device, bytes);
  }
  /** cachalot_memory_limit: bytes; UINT64_MAX: none. */
  uint64_t memory_limit(int32_t device = 0) const {
    return detail::get<uint64_t, cachalot_memory_limit>(get(), device);
  }

  // ---- Options

  /** cachalot_configure: changes options by a string; some that it does not name are reset. */
  void configure(const char* config) { detail::call<cachalot_configure>(get(), config); }
  void configure(const std::string& config) { configure(config.c_str()); }
  /** cachalot_update_config: changes the options that the string names, and no other. */
  void update_config(const char* config) { detail::call<cachalot_update_config>(get(), config); }
  void update_config(const std::string& config) { update_config(config.c_str()); }
  /** cachalot_get_config: the last option string. */
  std::string config() const { return detail::text<cachalot_get_config>(get()); }
  /** cachalot_get_settings: the options in force. */
  cachalot_settings settings() const {
    return detail::get<cachalot_settings, cachalot_get_settings>(get());
  }
  /** cachalot_set_settings: sets all options at once. */
  void set_settings(cachalot_settings settings) {
    settings.struct_size = sizeof settings;
    detail::call<cachalot_set_settings>(get(), &settings);
  }

  // ---- Statistics and texts

  /** cachalot_get_stats: the statistics of a device. */
  cachalot_stats stats(int32_t device = 0) const {
    return detail::get<cachalot_stats, cachalot_get_stats>(get(), device);
  }
  /** cachalot_reset_peak_stats. */
  void reset_peak_stats(int32_t device = 0) {
    detail::call<cachalot_reset_peak_stats>(get(), device);
  }
  /** cachalot_reset_accumulated_stats. */
  void reset_accumulated_stats(int32_t device = 0) {
    detail::call<cachalot_reset_accumulated_stats>(get(), device);
  }
  /** cachalot_memory_allocated: bytes handed out now. */
  uint64_t memory_allocated(int32_t device = 0) const noexcept {
    return cachalot_memory_allocated(get(), device);
  }
  /** cachalot_memory_reserved: bytes obtained from the driver. */
  uint64_t memory_reserved(int32_t device = 0) const noexcept {
    return cachalot_memory_reserved(get(), device);
  }
  /** cachalot_pinned_get_stats: the statistics of pinned memory. */
  cachalot_pinned_stats pinned_stats() const {
    return detail::get<cachalot_pinned_stats, cachalot_pinned_get_stats>(get());
  }
  /** cachalot_label_stats_at: the rows of all labels on a device, where track_labels is on. */
  std::vector<cachalot_label_stats> label_stats(int32_t device = 0) const {
    const auto count = detail::get<size_t, cachalot_label_stats_count>(get(), device);
    std::vector<cachalot_label_stats> rows;
    rows.reserve(count);
    for (size_t index = 0; index < count; ++index) {
      rows.push_back(
          detail::get<cachalot_label_stats, cachalot_label_stats_at>(get(), device, index));
    }
    return rows;
  }

  /** cachalot_memory_summary: the table of torch.cuda.memory_summary.
   * @param abbreviated  Leaves out the rows by kind of pool. */
  std::string memory_summary(int32_t device = 0, bool abbreviated = false) const {
    return detail::text<cachalot_memory_summary>(get(), device, abbreviated ? 1 : 0);
  }
  /** cachalot_metrics_text: the page for Prometheus. */
  std::string metrics() const { return detail::text<cachalot_metrics_text>(get()); }
  /** cachalot_report_create: of a request, or of the device alone. `report({...}).text()` is the
   * table. */
  Report report(cachalot_report_options options = {}) const {
    options.struct_size = sizeof options;
    return Report(detail::get<cachalot_report*, cachalot_report_create>(get(), &options));
  }

  /** cachalot_check: the auditor. */
  void check() const { detail::call<cachalot_check>(get()); }

  // ---- Pools and tenants

  /** A new pool with an id of its own (cachalot_pool_new_id, cachalot_pool_create). */
  Pool create_pool(int32_t device = 0, cachalot_pool_options options = {}) {
    return join_pool(device, detail::get<cachalot_pool_id, cachalot_pool_new_id>(get(), 0),
                     options);
  }
  /** cachalot_pool_create: the pool with this id, which is made if there is none. */
  Pool join_pool(int32_t device, cachalot_pool_id id, cachalot_pool_options options = {}) {
    options.struct_size = sizeof options;
    detail::call<cachalot_pool_create>(get(), device, id, &options);
    return Pool({get(), device, id});
  }

  /** cachalot_tenant_create. */
  Tenant create_tenant(cachalot_tenant_options options = {}) {
    options.struct_size = sizeof options;
    return {get(), detail::get<cachalot_tenant*, cachalot_tenant_create>(get(), &options)};
  }

 private:
  using Handle =
      std::unique_ptr<cachalot_allocator, detail::EndOrLeave<cachalot_allocator_destroy>>;
  explicit Allocator(Handle handle) noexcept : handle_(std::move(handle)) {}

  Handle handle_;
};

}  // namespace hpp
}  // namespace cachalot

#endif  // CACHALOT_CACHALOT_HPP_
