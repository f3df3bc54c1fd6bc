/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/**
 * @file cuda.h
 * Typed wrappers for programs that use CUDA's headers: `void*` and CUdeviceptr for addresses,
 * cudaStream_t and CUstream for streams. Not part of cachalot.h; include it where it is wanted.
 *
 * @code
 * float* values = NULL;
 * cachalot_cuda_allocate(allocator, (void**)&values, n * sizeof(float), device, stream, &error);
 * kernel<<<blocks, threads, 0, stream>>>(values, n);
 * cachalot_cuda_free_async(allocator, values, stream, &error);
 * @endcode
 *
 * Names of the runtime's kind begin with `cachalot_cuda_`, those of the driver's kind (CUdeviceptr)
 * with `cachalot_cu_`. C++ has templates and an owning pointer besides, in namespace
 * cachalot::cuda.
 *
 * No header of the CUDA Toolkit is needed or included: cudaStream_t and CUstream are both pointers
 * to CUstream_st, and CUdeviceptr is unsigned long long. So `cuda.h`, `cuda_runtime.h`, both or
 * none may be included, before this header or after it.
 *
 * Per-thread default streams: where CUDA_API_PER_THREAD_DEFAULT_STREAM is defined before this
 * header is included (nvcc --default-stream per-thread does that), the stream 0 means the calling
 * thread's default stream, as it does to CUDA's own functions. Everything here is static, so parts
 * of a program that are compiled one way and the other get along.
 *
 * All functions: any thread; results are written on success only; error may be NULL; statuses are
 * those of the function that is named. What is not here takes cachalot_cuda_stream(stream) and
 * `(cachalot_address)(uintptr_t)pointer`.
 */
#ifndef CACHALOT_CUDA_H_
#define CACHALOT_CUDA_H_

#include "cachalot/allocator.h"
#include "cachalot/pool.h"

#ifdef __cplusplus
#include <memory>

extern "C" {
#endif

struct CUstream_st;

/**
 * A stream as the library knows it. The legacy default stream is 0, also where the caller calls it
 * cudaStreamLegacy; the calling thread's default stream is 2 (cudaStreamPerThread).
 */
static inline cachalot_stream cachalot_cuda_stream(struct CUstream_st* stream) {
  const cachalot_stream legacy = 1;
#if defined(CUDA_API_PER_THREAD_DEFAULT_STREAM) || defined(__CUDA_API_PER_THREAD_DEFAULT_STREAM)
  const cachalot_stream of_zero = 2;
#else
  const cachalot_stream of_zero = 0;
#endif
  if (stream == NULL) return of_zero;
  return (uintptr_t)stream == legacy ? 0 : (uintptr_t)stream;
}

/* ---- CUdeviceptr --------------------------------------------------------------------------------
 */

/**
 * cachalot_allocate, in the shape of cuMemAllocAsync.
 *
 * @param out_pointer  Gets a CUdeviceptr, the block's first byte. Give it back with a cachalot_cu_
 * function or cachalot_free.
 * @param size         Bytes. 0 gives the pointer 0.
 */
static inline cachalot_status cachalot_cu_allocate(cachalot_allocator* allocator,
                                                   unsigned long long* out_pointer, size_t size,
                                                   int device, struct CUstream_st* stream,
                                                   cachalot_error* error) {
  cachalot_address address = 0;
  const cachalot_status status = cachalot_allocate(
      allocator, size, device, cachalot_cuda_stream(stream), out_pointer ? &address : NULL, error);
  if (status == CACHALOT_OK) *out_pointer = address;
  return status;
}

/** cachalot_free: for a block that only its own stream has used, or others after
 * cachalot_cu_record_stream. */
static inline cachalot_status cachalot_cu_free(cachalot_allocator* allocator,
                                               unsigned long long pointer, cachalot_error* error) {
  return cachalot_free(allocator, pointer, error);
}

/** cachalot_free_on_stream: stream is the thread's current one, which matters during captures only;
 * it is not waited for. */
static inline cachalot_status cachalot_cu_free_on_stream(cachalot_allocator* allocator,
                                                         unsigned long long pointer,
                                                         struct CUstream_st* stream,
                                                         cachalot_error* error) {
  return cachalot_free_on_stream(allocator, pointer, cachalot_cuda_stream(stream), error);
}

/** cachalot_record_stream: work on this stream uses the block, which is not reused before that work
 * is done. */
static inline cachalot_status cachalot_cu_record_stream(cachalot_allocator* allocator,
                                                        unsigned long long pointer,
                                                        struct CUstream_st* stream,
                                                        cachalot_error* error) {
  return cachalot_record_stream(allocator, pointer, cachalot_cuda_stream(stream), error);
}

/**
 * Frees in the order of a stream, in the shape of cuMemFreeAsync: the block is not reused before
 * the work that is queued on this stream by now is done. On the block's own stream that is
 * cachalot_free, without a driver call; on another one cachalot_record_stream and then the free.
 *
 * @return As cachalot_free_on_stream. After an error of the driver the block may still be live and
 * count as used on the stream.
 */
static inline cachalot_status cachalot_cu_free_async(cachalot_allocator* allocator,
                                                     unsigned long long pointer,
                                                     struct CUstream_st* stream,
                                                     cachalot_error* error) {
  const cachalot_stream current = cachalot_cuda_stream(stream);
  const cachalot_status status =
      cachalot_record_stream_on_stream(allocator, pointer, current, current, error);
  return status == CACHALOT_OK ? cachalot_free_on_stream(allocator, pointer, current, error)
                               : status;
}

/* ---- void* --------------------------------------------------------------------------------------
 */

/** cachalot_cu_allocate, in the shape of cudaMallocAsync; size 0 gives NULL. */
static inline cachalot_status cachalot_cuda_allocate(cachalot_allocator* allocator,
                                                     void** out_pointer, size_t size, int device,
                                                     struct CUstream_st* stream,
                                                     cachalot_error* error) {
  unsigned long long address = 0;
  const cachalot_status status =
      cachalot_cu_allocate(allocator, out_pointer ? &address : NULL, size, device, stream, error);
  if (status == CACHALOT_OK) *out_pointer = (void*)(uintptr_t)address;
  return status;
}

/** cachalot_cu_free. NULL does nothing. */
static inline cachalot_status cachalot_cuda_free(cachalot_allocator* allocator, void* pointer,
                                                 cachalot_error* error) {
  return cachalot_cu_free(allocator, (uintptr_t)pointer, error);
}

/** cachalot_cu_free_on_stream. NULL does nothing. */
static inline cachalot_status cachalot_cuda_free_on_stream(cachalot_allocator* allocator,
                                                           void* pointer,
                                                           struct CUstream_st* stream,
                                                           cachalot_error* error) {
  return cachalot_cu_free_on_stream(allocator, (uintptr_t)pointer, stream, error);
}

/** cachalot_cu_record_stream. NULL does nothing. */
static inline cachalot_status cachalot_cuda_record_stream(cachalot_allocator* allocator,
                                                          void* pointer, struct CUstream_st* stream,
                                                          cachalot_error* error) {
  return cachalot_cu_record_stream(allocator, (uintptr_t)pointer, stream, error);
}

/** cachalot_cu_free_async, in the shape of cudaFreeAsync. NULL does nothing. */
static inline cachalot_status cachalot_cuda_free_async(cachalot_allocator* allocator, void* pointer,
                                                       struct CUstream_st* stream,
                                                       cachalot_error* error) {
  return cachalot_cu_free_async(allocator, (uintptr_t)pointer, stream, error);
}

/* ---- Pools --------------------------------------------------------------------------------------
 */

/** cachalot_pool_begin for the requests of one stream, whichever thread makes them. End it with
 * cachalot_pool_end and cachalot_pool_release. */
static inline cachalot_status cachalot_cuda_pool_begin(cachalot_allocator* allocator, int device,
                                                       cachalot_pool_id id,
                                                       struct CUstream_st* stream,
                                                       cachalot_error* error) {
  cachalot_pool_route route = {sizeof(cachalot_pool_route), 0, 0, 0, 0, NULL, NULL, NULL};
  route.kind = CACHALOT_ROUTE_STREAM;
  route.stream = cachalot_cuda_stream(stream);
  return cachalot_pool_begin(allocator, device, id, &route, error);
}

#ifdef __cplusplus
}  // extern "C"

/** cachalot_cuda_allocate for a pointer of any type, like CUDA's own template; size in bytes. */
template <class T>
static inline cachalot_status cachalot_cuda_allocate(cachalot_allocator* allocator, T** out_pointer,
                                                     size_t size, int device, CUstream_st* stream,
                                                     cachalot_error* error) {
  void* pointer = nullptr;
  const cachalot_status status = cachalot_cuda_allocate(allocator, out_pointer ? &pointer : nullptr,
                                                        size, device, stream, error);
  if (status == CACHALOT_OK) *out_pointer = static_cast<T*>(pointer);
  return status;
}

namespace cachalot {
namespace cuda {

/** Gives blocks back with cachalot_free; for std::unique_ptr and std::shared_ptr. The allocator is
 * borrowed and must outlive the block. Other streams that use the block have to be recorded. */
class Deleter {
 public:
  explicit Deleter(cachalot_allocator* allocator = nullptr) noexcept : allocator_(allocator) {}
  void operator()(void* pointer) const noexcept {
    cachalot_cuda_free(allocator_, pointer, nullptr);
  }
  cachalot_allocator* allocator() const noexcept { return allocator_; }

 private:
  cachalot_allocator* allocator_;
};

/** Owns an array in device memory; get() is for kernels, operator[] for the host driver only.
 * Elements are neither constructed nor destroyed. */
template <class T>
using Array = std::unique_ptr<T[], Deleter>;

/**
 * Allocates an array for a stream.
 *
 * @param count      Elements. 0 gives an empty array.
 * @param out_array  What it owned before is freed.
 * @return As cachalot_allocate.
 */
template <class T>
static inline cachalot_status allocate(cachalot_allocator* allocator, Array<T>* out_array,
                                       size_t count, int device, CUstream_st* stream,
                                       cachalot_error* error) {
  // A product that does not fit asks for more than any device has, and fails as that does.
  const size_t size = count > SIZE_MAX / sizeof(T) ? SIZE_MAX : count * sizeof(T);
  T* pointer = nullptr;
  const cachalot_status status = cachalot_cuda_allocate(allocator, out_array ? &pointer : nullptr,
                                                        size, device, stream, error);
  if (status == CACHALOT_OK) *out_array = Array<T>(pointer, Deleter(allocator));
  return status;
}

}  // namespace cuda
}  // namespace cachalot
#endif

#endif /* CACHALOT_CUDA_H_ */
