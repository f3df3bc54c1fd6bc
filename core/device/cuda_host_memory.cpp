// SPDX-License-Identifier: MIT OR Apache-2.0
#include "device/cuda_host_memory.h"

#include <exception>
#include <thread>
#include <vector>

namespace cachalot {
namespace {

constexpr uint64_t kSmallestPage = 4 * KiB;

void* to_pointer(Address address) { return reinterpret_cast<void*>(address); }

// Lets the system back the pages of a range.
void touch(Address begin, Address end) {
  for (Address page = begin; page < end; page += kSmallestPage)
    *static_cast<volatile char*>(to_pointer(page)) = 0;
}

// A part for each thread, since the system clears each page that it gives.
void touch(Address address, uint64_t size, int threads) {
  const uint64_t pages = (size - 1) / kSmallestPage + 1;
  const uint64_t part = ((pages - 1) / static_cast<uint64_t>(threads) + 1) * kSmallestPage;
  const Address end = address + size;
  std::vector<std::thread> others;
  Address begin = address;
  try {
    // Nothing may throw between a thread's start and its entry.
    others.reserve(static_cast<size_t>(threads));
    for (; end - begin > part; begin += part)
      others.emplace_back([begin, part] { touch(begin, begin + part); });
  } catch (const std::exception&) {
    // No more threads, or no memory for them, are to be had: this one does the rest.
  }
  touch(begin, end);
  for (std::thread& other : others) other.join();
}

}  // namespace

template <class Call>
DriverCode CudaHostMemory::call(Call call) {
  return cuda::on(library_, contexts_, contexts_.device_in_use(), call);
}

DriverCode CudaHostMemory::allocate(uint64_t size, HostMemoryOrigin origin, int register_threads,
                                    Address* address) {
  if (!library_.host_memory) return kDriverNotSupported;
  if (contexts_.is_in_forked_child()) return cuda::kNotInitialized;
  if (origin == HostMemoryOrigin::kRegistered)
    return allocate_registered(size, register_threads, address);
  void* memory = nullptr;
  const DriverCode code =
      call([&] { return library_.host_memory->cuMemHostAlloc(&memory, size, 0); });
  if (code == kSuccess) *address = reinterpret_cast<Address>(memory);
  return code;
}

DriverCode CudaHostMemory::allocate_registered(uint64_t size, int threads, Address* address) {
  Address memory = 0;
  if (const DriverCode code = registered_.allocate(size, &memory)) return code;
  touch(memory, size, threads);
  const DriverCode code =
      call([&] { return library_.host_memory->cuMemHostRegister(to_pointer(memory), size, 0); });
  if (code == kSuccess) {
    *address = memory;
  } else {
    registered_.free(memory);
  }
  return code;
}

DriverCode CudaHostMemory::free(Address address, HostMemoryOrigin origin) {
  if (!library_.host_memory) return kDriverNotSupported;
  if (origin == HostMemoryOrigin::kRegistered) return free_registered(address);
  return call([&] { return library_.host_memory->cuMemFreeHost(to_pointer(address)); });
}

DriverCode CudaHostMemory::free_registered(Address address) {
  const DriverCode code =
      call([&] { return library_.host_memory->cuMemHostUnregister(to_pointer(address)); });
  if (code == kSuccess) registered_.free(address);
  return code;
}

}  // namespace cachalot
