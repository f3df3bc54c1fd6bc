// SPDX-License-Identifier: MIT OR Apache-2.0
// The seam between the allocator and devices: all that an allocator may ask of a driver.
//
// Contract of every function unless it says otherwise: `device` is a valid index, sizes are above
// 0, pointers are not null; the result is the driver's own code, kSuccess when it worked; results
// are written on success only. Calls are made with the allocator's device lock held (allocate:
// without it under release_lock_on_cudamalloc), from any thread, and must not call back into the
// allocator.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace cachalot {

using Address = uint64_t;
using Stream = uint64_t;
using DriverCode = int32_t;

// The codes that the allocator itself looks at; all others are passed on to the caller.
inline constexpr DriverCode kSuccess = 0;
inline constexpr DriverCode kInvalidValue = 1;
inline constexpr DriverCode kDriverOutOfMemory = 2;
inline constexpr DriverCode kInvalidHandle = 400;
inline constexpr DriverCode kNotReady = 600;
inline constexpr DriverCode kDriverNotSupported = 801;

// The per-thread default stream: one handle, and on each thread another stream (Driver::resolve).
inline constexpr Stream kPerThreadStream = 2;

// Every stream of the device's context, for callers that do not know which ones use a block. It is no
// queue: its work is not ordered with itself, no capture has it, and nothing can be queued behind an event
// on it. event_record, stream_synchronize, fill, read and user_handle take it; other functions do not,
// unless they say so.
inline constexpr Stream kAllStreams = UINT64_MAX;

enum class HandleType : int32_t { kNone = 0, kPosixFd = 1, kFabric = 8 };

// cudaStreamCaptureModeRelaxed: driver allocations are allowed although a stream is captured.
inline constexpr int32_t kRelaxedCaptureMode = 2;

struct CaptureInfo {
  bool capturing = false;
  uint64_t capture_id = 0;
  uint64_t graph = 0;
  std::vector<uint64_t> nodes;  // what the stream's next node will depend on
};

// How pinned host memory is made, and so given back.
enum class HostMemoryOrigin : uint8_t {
  kAllocated,   // by the driver
  kRegistered,  // ordinary memory, which the driver is told of
};

struct DeviceProcess {
  uint64_t pid = 0;
  uint64_t used = 0;  // bytes; UINT64_MAX: not known
};

// What tools outside of the process call a device. A field that the driver does not tell is empty.
struct DeviceIdentity {
  std::string uuid;        // "GPU-…"; of an instance of a divided GPU (MIG) "MIG-…"
  std::string gpu_uuid;    // of the GPU as a whole
  std::string pci_bus_id;  // "0000:1a:00.0"
};

struct ShareableHandle {
  uint8_t bytes[64] = {};

  // Of one that is a descriptor.
  int descriptor() const;
  static ShareableHandle of_descriptor(int descriptor);
};

// Whole allocations (Driver::allocate) between processes. The contract is that of Driver's functions. A handle holds as
// long as its allocation does; the same memory may be opened once a process and device.
class SegmentHandles {
 public:
  virtual DriverCode get(int device, Address address, ShareableHandle* handle) = 0;
  virtual DriverCode open(int device, const ShareableHandle& handle, Address* address) = 0;
  virtual DriverCode close(int device, Address address) = 0;

 protected:
  ~SegmentHandles() = default;
};

// Copies on a stream of the first device, which the host does not wait for. Called without the device lock, from
// any thread.
class MemoryCopies {
 public:
  // From and to memory that the device reaches, pinned host memory included.
  virtual DriverCode copy(int device, Address to, Address from, uint64_t size, Stream stream) = 0;
  // Where neither device need have access to the other.
  virtual DriverCode copy_peer(int to_device, Address to, int from_device, Address from,
                               uint64_t size, Stream stream) = 0;

 protected:
  ~MemoryCopies() = default;
};

class Driver {
 public:
  Driver() = default;
  Driver(const Driver&) = delete;
  Driver& operator=(const Driver&) = delete;
  virtual ~Driver() = default;

  virtual const char* name() const = 0;
  virtual int device_count() const = 0;
  virtual bool supports_virtual_memory() const = 0;
  virtual bool supports_memory_pools() const = 0;

  virtual DriverCode memory_info(int device, uint64_t* free_bytes, uint64_t* total_bytes) = 0;
  // Whether a limit outside of this process, which others live under too, is nearly used up: then a trim does not wait
  // until memory has been idle. Without the device lock too.
  virtual bool is_nearly_full(int) { return false; }
  // The total alone, which a real device tells 5 microseconds faster than what is free.
  virtual DriverCode total_memory(int device, uint64_t* total_bytes);
  virtual DriverCode allocate(int device, uint64_t size, Address* address) = 0;
  virtual DriverCode free(int device, Address address) = 0;

  // Virtual memory. pre: supports_virtual_memory().
  virtual DriverCode reserve(int device, uint64_t size, Address* address) = 0;
  virtual DriverCode unreserve(int device, Address address, uint64_t size) = 0;
  virtual DriverCode granularity(int device, uint64_t* bytes) = 0;
  virtual DriverCode create(int device, uint64_t size, HandleType type, bool rdma,
                            uint64_t* handle) = 0;
  virtual DriverCode export_handle(int device, uint64_t handle, HandleType type,
                                   ShareableHandle* out) = 0;
  virtual DriverCode import_handle(int device, const ShareableHandle& shareable, HandleType type,
                                   uint64_t* handle) = 0;
  virtual DriverCode release(int device, uint64_t handle) = 0;
  virtual DriverCode map(int device, Address address, uint64_t size, uint64_t handle) = 0;
  virtual DriverCode unmap(int device, Address address, uint64_t size) = 0;
  virtual DriverCode set_access(int device, Address address, uint64_t size,
                                int accessing_device) = 0;
  // state: 1 if the device is part of a fabric.
  virtual DriverCode fabric_state(int device, int32_t* state) = 0;

  virtual DriverCode event_create(int device, uint64_t* event) = 0;
  virtual DriverCode event_destroy(int device, uint64_t event) = 0;
  virtual DriverCode event_record(int device, uint64_t event, Stream stream) = 0;
  virtual DriverCode event_query(int device, uint64_t event) = 0;  // kNotReady while work is left
  virtual DriverCode event_synchronize(int device, uint64_t event) = 0;
  virtual DriverCode stream_synchronize(int device, Stream stream) = 0;
  virtual DriverCode device_synchronize(int device) = 0;

  // Captures. A driver without them says "not capturing". So does each of kAllStreams, without a question
  // to the device.
  virtual DriverCode capture_info(int device, Stream stream, CaptureInfo* info) = 0;
  virtual DriverCode node_dependencies(int device, uint64_t node, std::vector<uint64_t>* nodes) = 0;
  virtual DriverCode exchange_capture_mode(int device, int32_t* mode) = 0;

  // Stream-ordered memory, for backend:cudaMallocAsync: the device's default pool. Attributes by
  // their numbers in cuda.h. pre: supports_memory_pools().
  virtual DriverCode pool_allocate(int device, uint64_t size, Stream stream, Address* address);
  virtual DriverCode pool_free(int device, Address address, Stream stream);
  virtual DriverCode pool_trim(int device, uint64_t keep_bytes);
  virtual DriverCode pool_get_attribute(int device, int32_t attribute, uint64_t* value);
  virtual DriverCode pool_set_attribute(int device, int32_t attribute, uint64_t value);
  virtual DriverCode pool_set_access(int device, int accessing_device);
  virtual DriverCode graph_get_attribute(int device, int32_t attribute, uint64_t* value);
  virtual DriverCode graph_set_attribute(int device, int32_t attribute, uint64_t value);
  virtual DriverCode stream_create(int device, Stream* stream);
  virtual void stream_destroy(int, Stream) {}  // a driver may keep them to its end instead
  virtual DriverCode stream_wait_event(int device, Stream stream, uint64_t event);
  // The event comes when all work that any stream of the device has been given is done. For callers that do
  // not know whether a stream still exists, or how far the device is.
  virtual DriverCode event_record_all(int device, uint64_t event);

  // Pinned host memory, which every device reaches; of no device, so that no call names one. Calls are made
  // without the device lock. register_threads: how many touch ordinary memory before it is registered.
  virtual bool has_host_memory() const { return false; }
  virtual DriverCode host_allocate(uint64_t size, HostMemoryOrigin origin, int register_threads,
                                   Address* address);
  virtual DriverCode host_free(Address address, HostMemoryOrigin origin);

  // Touching memory, for poison and red zones. Both come after the work that is queued on the
  // stream; read waits for it, fill does not. pre: can_touch_memory().
  virtual bool can_touch_memory() const { return false; }
  virtual DriverCode fill(int device, Address address, uint64_t size, uint8_t byte, Stream stream);
  virtual DriverCode read(int device, Address address, uint64_t size, void* out, Stream stream);

  virtual MemoryCopies* copies() { return nullptr; }  // null: there are none

  // The stream that a handle means on the calling thread: a handle that means another stream on
  // each thread gets a number of its own for each, which every function here takes from any thread.
  virtual Stream resolve(Stream stream) { return stream; }
  // Back again, for callers' functions: what the stream is called on its own thread.
  virtual Stream user_handle(Stream stream) { return stream; }

  // Memory between processes: whole allocations by these handles, pages by export_handle. Null: it cannot be shared.
  virtual SegmentHandles* segment_handles() { return nullptr; }

  virtual DriverCode enable_peer(int device, int peer) = 0;
  // The caller is about to end the device's context, of which nothing is held any more. The next call takes the one that
  // there is then.
  virtual void release_context(int) {}  // a driver may have no contexts
  // Empty where the driver does not tell. Also without the device lock.
  virtual std::vector<DeviceProcess> processes(int device) = 0;
  virtual DeviceIdentity identity(int) { return {}; }
  virtual DriverCode take_pending_error(int) { return kSuccess; }  // kSuccess: there is none
  virtual std::string error_text(DriverCode code) = 0;
};

}  // namespace cachalot
