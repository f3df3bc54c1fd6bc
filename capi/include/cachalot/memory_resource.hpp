// SPDX-License-Identifier: MIT OR Apache-2.0
/**
 * @file memory_resource.hpp
 * Memory resources, for engines and libraries that take one: std::pmr's and CUDA's.
 *
 * | class                 | contract                                                           |
 * | --------------------- | ------------------------------------------------------------------ |
 * | StreamResource        | std::pmr::memory_resource over the blocks of a device and a stream |
 * | PinnedResource        | std::pmr::memory_resource over pinned host memory                  |
 * | cuda::Resource        | cuda::mr::resource; before CCCL 3.1 cuda::mr::async_resource       |
 * | cuda::StreamAllocator | a standard allocator, for Thrust and cuCollections                 |
 *
 * @code
 * using DeviceResource = cachalot::cuda::Resource<cuda::mr::device_accessible>;
 * DeviceResource resource(allocator.get(), device);
 * cub::DeviceReduce::Sum(in, out, count, cuda::std::execution::env{stream, resource});
 * @endcode
 *
 * No header of CUDA is needed or included. Each of them borrows a cachalot_allocator, which has to
 * live longer. Sizes and alignments are in bytes; 0 bytes give NULL. A request that fails throws
 * Error, for want of memory BadAlloc; a free never throws, and passes over what Block passes over.
 * Any thread.
 */
#ifndef CACHALOT_MEMORY_RESOURCE_HPP_
#define CACHALOT_MEMORY_RESOURCE_HPP_

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <memory_resource>
#include <mutex>
#include <new>
#include <unordered_map>

#include "cachalot/cachalot.hpp"
#if __has_include("cachalot/cuda.h")
#include "cachalot/cuda.h"
#else  // The amalgamation has it in its one header.
#ifndef CACHALOT_INCLUDE_CUDA
#define CACHALOT_INCLUDE_CUDA
#endif
#include "cachalot/cachalot.h"
#endif

namespace cachalot {
inline namespace hpp {

/** Out of memory, of a device or of the host, as a std::bad_alloc: what programs expect of an
 * allocator of the standard library. The cachalot_allocator stays usable. */
class BadAlloc : public std::bad_alloc {
 public:
  /** @param error  Copied. */
  explicit BadAlloc(const Error& error) noexcept : error_(error) {}

  /** The message. Lives as long as this object. */
  const char* what() const noexcept override { return error_.what(); }
  /** CACHALOT_ERROR_OUT_OF_MEMORY or CACHALOT_ERROR_OUT_OF_HOST_MEMORY; of pinned memory also
   * CACHALOT_ERROR_DRIVER with the driver's code of it. */
  cachalot_status status() const noexcept { return error_.status(); }
  /** All numbers, as Error::record. Lives as long as this object. */
  const cachalot_error& record() const noexcept { return error_.record(); }

 private:
  Error error_;
};

namespace detail {

// Blocks begin at its multiples.
constexpr size_t kAlignment = 512;

// For pinned memory, whose driver has no other error for it, the driver's code says so.
inline bool is_out_of_memory(const cachalot_error& error) noexcept {
  return error.status == CACHALOT_ERROR_OUT_OF_MEMORY ||
         error.status == CACHALOT_ERROR_OUT_OF_HOST_MEMORY ||
         (error.status == CACHALOT_ERROR_DRIVER &&
          error.driver_code == CACHALOT_DRIVER_OUT_OF_MEMORY);
}

// get() for requests of memory.
template <class Result, auto Function, class... Arguments>
inline Result request(Arguments... arguments) {
  try {
    return get<Result, Function>(arguments...);
  } catch (const Error& error) {
    if (is_out_of_memory(error.record())) throw BadAlloc(error);
    throw;
  }
}

inline void* allocate(cachalot_allocator* allocator, size_t bytes, int32_t device,
                      cachalot_stream stream) {
  const auto address =
      request<cachalot_address, cachalot_allocate>(allocator, bytes, device, stream);
  return reinterpret_cast<void*>(static_cast<uintptr_t>(address));
}

// Memory with a larger alignment than blocks have, as pools of the standard library ask for: it lies
// inside of a larger block.
class OverAligned {
 public:
  // `obtain` gives a block of so many bytes, `give_back` takes it back if it cannot be noted.
  template <class Obtain, class GiveBack>
  void* allocate(size_t bytes, size_t alignment, Obtain obtain, GiveBack give_back) {
    if (alignment <= kAlignment) return obtain(bytes);
    // A sum that does not fit asks for more than any device has, and fails as that does.
    size_t room = bytes > SIZE_MAX - alignment ? SIZE_MAX : bytes + alignment;
    void* const block = obtain(room);
    void* memory = block;
    std::align(alignment, bytes, memory, room);
    try {
      const std::lock_guard lock(mutex_);
      blocks_.emplace(memory, block);
    } catch (...) {
      give_back(block);
      throw;
    }
    return memory;
  }

  // The block of memory that is about to be freed; NULL for memory that is not known.
  void* take_block(void* memory, size_t alignment) noexcept {
    if (alignment <= kAlignment) return memory;
    const std::lock_guard lock(mutex_);
    const auto found = blocks_.extract(memory);
    return found ? found.mapped() : nullptr;
  }

 private:
  std::mutex mutex_;
  std::unordered_map<void*, void*> blocks_;
};

}  // namespace detail

/**
 * Blocks of one device as a std::pmr resource, with streams.
 *
 * The functions without a stream use that of the resource. Containers of std::pmr make their elements
 * in the memory, so for them its driver has to be `host`. Two resources are equal if they are one.
 */
class StreamResource final : public std::pmr::memory_resource {
 public:
  /** @param allocator  Borrowed. @param stream  Of the device. */
  explicit StreamResource(cachalot_allocator* allocator, int32_t device = 0,
                          cachalot_stream stream = 0) noexcept
      : allocator_(allocator), device_(device), stream_(stream) {}

  /** cachalot_allocate: for work on this stream. */
  void* allocate_on(cachalot_stream stream, size_t bytes,
                    size_t alignment = alignof(std::max_align_t)) {
    return over_aligned_.allocate(
        bytes, alignment,
        [&](size_t size) { return detail::allocate(allocator_, size, device_, stream); },
        [&](void* block) { free(stream, block); });
  }

  /** Frees in the order of a stream: the memory is not used again before the work that this stream has
   * been given by now is done. On the stream of the request that takes no driver call. */
  void deallocate_on(cachalot_stream stream, void* memory, size_t,
                     size_t alignment = alignof(std::max_align_t)) noexcept {
    free(stream, over_aligned_.take_block(memory, alignment));
  }

 private:
  void free(cachalot_stream stream, void* block) noexcept {
    const auto address = reinterpret_cast<uintptr_t>(block);
    if (cachalot_record_stream_on_stream(allocator_, address, stream, stream, nullptr) ==
        CACHALOT_OK) {
      cachalot_free_on_stream(allocator_, address, stream, nullptr);
    }
  }

  void* do_allocate(size_t bytes, size_t alignment) override {
    return allocate_on(stream_, bytes, alignment);
  }
  void do_deallocate(void* memory, size_t bytes, size_t alignment) override {
    deallocate_on(stream_, memory, bytes, alignment);
  }
  bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override {
    return this == &other;
  }

  cachalot_allocator* allocator_;
  int32_t device_;
  cachalot_stream stream_;
  detail::OverAligned over_aligned_;
};

/** Pinned host memory as a std::pmr resource: what a container has in it can be copied to and from
 * devices without a stop. Copies that the host does not wait for have to be recorded before
 * (cachalot_pinned_record_stream). Two resources are equal if they are one. */
class PinnedResource final : public std::pmr::memory_resource {
 public:
  /** @param allocator  Borrowed. */
  explicit PinnedResource(cachalot_allocator* allocator) noexcept : allocator_(allocator) {}

 private:
  void free(void* block) noexcept { cachalot_pinned_free(allocator_, block, nullptr); }

  void* do_allocate(size_t bytes, size_t alignment) override {
    return over_aligned_.allocate(
        bytes, alignment,
        [&](size_t size) {
          return detail::request<void*, cachalot_pinned_allocate>(allocator_, size);
        },
        [&](void* block) { free(block); });
  }
  void do_deallocate(void* memory, size_t, size_t alignment) override {
    free(over_aligned_.take_block(memory, alignment));
  }
  bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override {
    return this == &other;
  }

  cachalot_allocator* allocator_;
  detail::OverAligned over_aligned_;
};

}  // namespace hpp

namespace cuda {

// Everything here is of another type where 0 means the thread's own stream, so that parts of a program
// that are compiled one way and the other get along, as with cuda.h.
#if defined(CUDA_API_PER_THREAD_DEFAULT_STREAM) || defined(__CUDA_API_PER_THREAD_DEFAULT_STREAM)
inline namespace hpp_per_thread {
#else
inline namespace hpp {
#endif

// CUDA asks for no more than 256.
inline void check_alignment(size_t alignment) {
  if (alignment <= detail::kAlignment) [[likely]] {
    return;
  }
  cachalot_error error = CACHALOT_ERROR_INIT;
  error.status = CACHALOT_ERROR_INVALID_ARGUMENT;
  std::snprintf(error.message, sizeof error.message,
                "an alignment of %zu bytes was asked for, and blocks begin at multiples of %zu",
                alignment, detail::kAlignment);
  detail::raise(error);
}

/** A stream of CUDA's: a cudaStream_t or CUstream, or an object that has one, such as
 * cuda::stream_ref. */
class StreamHandle {
 public:
  StreamHandle(CUstream_st* stream) noexcept : stream_(stream) {}
  template <class Stream>
  requires requires(const Stream& stream) {
    { stream.get() } -> std::convertible_to<CUstream_st*>;
  }
  StreamHandle(const Stream& stream) noexcept : stream_(stream.get()) {}

  /** The handle. */
  CUstream_st* get() const noexcept { return stream_; }

 private:
  CUstream_st* stream_;
};

/** Gives a resource a property, by the function that CUDA's concepts look for. */
template <class Property>
struct WithProperty {
  friend constexpr void get_property(const WithProperty&, Property) noexcept {}
};

/**
 * A resource with CUDA's stream-ordered contract, for CUB's algorithms, cuda::buffer, RMM and all that
 * takes a cuda::mr resource. A copy is the same resource. An alignment above 512 is
 * CACHALOT_ERROR_INVALID_ARGUMENT.
 *
 * @tparam Properties  What the memory is: `cuda::mr::device_accessible`; over the driver `host` also
 *                     `cuda::mr::host_accessible`.
 */
template <class... Properties>
class Resource : public WithProperty<Properties>... {
 public:
  /** @param allocator  Borrowed. */
  explicit Resource(cachalot_allocator* allocator, int device = 0) noexcept
      : allocator_(allocator), device_(device) {}

  /** cachalot_allocate: for work on this stream. */
  void* allocate(StreamHandle stream, size_t bytes, size_t alignment = kDefaultAlignment) {
    return allocate(stream.get(), bytes, alignment);
  }
  /** The same. With it `allocate(0, bytes)` is ambiguous: it could mean 0 bytes, by the names before
   * CCCL 3.1. */
  void* allocate(CUstream_st* stream, size_t bytes, size_t alignment = kDefaultAlignment) {
    check_alignment(alignment);
    return detail::allocate(allocator_, bytes, device_, cachalot_cuda_stream(stream));
  }
  /** cachalot_cuda_free_async: frees in the order of this stream. */
  void deallocate(StreamHandle stream, void* memory, size_t, size_t = kDefaultAlignment) noexcept {
    cachalot_cuda_free_async(allocator_, memory, stream.get(), nullptr);
  }

  /** Memory that any stream may use at once: a block of CACHALOT_STREAM_ALL, whose text has the rules
   * for captures. CACHALOT_ERROR_INVALID_ARGUMENT under backend:cudaMallocAsync. */
  void* allocate_sync(size_t bytes, size_t alignment = kDefaultAlignment) {
    check_alignment(alignment);
    return detail::allocate(allocator_, bytes, device_, CACHALOT_STREAM_ALL);
  }
  /** cachalot_free: no stream uses the memory any more, which the caller has waited for. */
  void deallocate_sync(void* memory, size_t, size_t = kDefaultAlignment) noexcept {
    cachalot_cuda_free(allocator_, memory, nullptr);
  }

  /** @name The same by the names before CCCL 3.1 */
  /** @{ */
  void* allocate(size_t bytes, size_t alignment = kDefaultAlignment) {
    return allocate_sync(bytes, alignment);
  }
  void deallocate(void* memory, size_t bytes, size_t = kDefaultAlignment) noexcept {
    deallocate_sync(memory, bytes);
  }
  void* allocate_async(size_t bytes, size_t alignment, StreamHandle stream) {
    return allocate(stream, bytes, alignment);
  }
  void deallocate_async(void* memory, size_t bytes, size_t, StreamHandle stream) noexcept {
    deallocate(stream, memory, bytes);
  }
  /** @} */

  /** Whether each may free the memory of the other. */
  friend bool operator==(const Resource& a, const Resource& b) noexcept {
    return a.allocator_ == b.allocator_ && a.device_ == b.device_;
  }

 private:
  static constexpr size_t kDefaultAlignment = 256;  // CUDA's

  cachalot_allocator* allocator_;
  int device_;
};

/**
 * A standard allocator whose memory is for work on one stream, and freed in its order. A copy is the
 * same allocator.
 *
 * `thrust::cuda::par(alloc).on(stream)` takes the temporary memory of Thrust's algorithms from it;
 * `thrust::device_vector<T, StreamAllocator<T, thrust::device_ptr<T>>>` its elements; containers of
 * cuCollections take it as their allocator.
 *
 * @tparam Pointer  A pointer to T, plain or thrust::device_ptr<T>.
 */
template <class T, class Pointer = T*>
class StreamAllocator {
 public:
  using value_type = T;
  using pointer = Pointer;
  template <class U>
  struct rebind {
    using other = StreamAllocator<U, typename std::pointer_traits<Pointer>::template rebind<U>>;
  };

  /** @param allocator  Borrowed. @param stream  Of the device. */
  explicit StreamAllocator(cachalot_allocator* allocator, int device = 0,
                           StreamHandle stream = nullptr) noexcept
      : allocator_(allocator), device_(device), stream_(stream) {}

  /** The same allocator for another type. */
  template <class U, class OtherPointer>
  StreamAllocator(const StreamAllocator<U, OtherPointer>& other) noexcept
      : allocator_(other.allocator()), device_(other.device()), stream_(other.stream()) {}

  /** @return Room for so many elements, which are not constructed. */
  Pointer allocate(size_t count) { return allocate(count, stream_); }
  /** The same, for work on another stream. */
  Pointer allocate(size_t count, StreamHandle stream) {
    // Not of the class: a class may have a container of itself.
    static_assert(alignof(T) <= detail::kAlignment, "blocks begin at multiples of 512 bytes");
    // A product that does not fit asks for more than any device has, and fails as that does.
    const size_t bytes = count > SIZE_MAX / sizeof(T) ? SIZE_MAX : count * sizeof(T);
    void* memory = detail::allocate(allocator_, bytes, device_, cachalot_cuda_stream(stream.get()));
    return Pointer(static_cast<T*>(memory));
  }

  /** Frees in the order of its stream. */
  void deallocate(Pointer memory, size_t count) noexcept { deallocate(memory, count, stream_); }
  /** Frees in the order of this stream. */
  void deallocate(Pointer memory, size_t, StreamHandle stream) noexcept {
    cachalot_cuda_free_async(allocator_, std::to_address(memory), stream.get(), nullptr);
  }

  /** The allocator, borrowed. */
  cachalot_allocator* allocator() const noexcept { return allocator_; }
  /** The device of its memory. */
  int device() const noexcept { return device_; }
  /** The stream of its memory. */
  StreamHandle stream() const noexcept { return stream_; }

  /** Whether each may free the memory of the other. */
  template <class U, class OtherPointer>
  bool operator==(const StreamAllocator<U, OtherPointer>& other) const noexcept {
    return allocator_ == other.allocator() && device_ == other.device() &&
           stream_.get() == other.stream().get();
  }

 private:
  cachalot_allocator* allocator_;
  int device_;
  StreamHandle stream_;
};

}  // namespace hpp
}  // namespace cuda
}  // namespace cachalot

#endif  // CACHALOT_MEMORY_RESOURCE_HPP_
