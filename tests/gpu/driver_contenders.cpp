// SPDX-License-Identifier: MIT OR Apache-2.0
// What a miss costs without an allocator: the driver calls that it cannot do without.
#include <unordered_map>
#include <utility>
#include <vector>

#include "contender.h"
#include "driver_functions.h"

namespace gpu {
namespace {

class Memory final : public Contender {
 public:
  Memory() : Contender("cuMemAlloc") {}

  void* allocate(size_t size, cudaStream_t) override {
    CUdeviceptr address = 0;
    driver_.check(driver_.cuMemAlloc_p(&address, size), "cuMemAlloc");
    return reinterpret_cast<void*>(address);
  }
  void free(void* address, cudaStream_t) override {
    driver_.check(driver_.cuMemFree_p(reinterpret_cast<CUdeviceptr>(address)), "cuMemFree");
  }
  void empty() override {}
  bool has_cache() const override { return false; }

 private:
  const Driver driver_;
};

// As much address space as an expandable segment of PyTorch's reserves, and its pages: 20 MiB, which
// other processes can be given and network cards reach.
class Pages final : public Contender {
 public:
  Pages() : Contender("cuMemAddressReserve, pages") {
    size_t total = 0;
    driver_.check(driver_.cuDeviceTotalMem_p(&total, 0), "cuDeviceTotalMem");
    reserved_ = (total + total / 8) / kPage * kPage;
    int has_rdma = 0;
    driver_.check(driver_.cuDeviceGetAttribute_p(
                      &has_rdma, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED, 0),
                  "cuDeviceGetAttribute");
    property_.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    property_.allocFlags.gpuDirectRDMACapable = has_rdma != 0;
  }

  void* allocate(size_t size, cudaStream_t) override {
    CUdeviceptr address = 0;
    driver_.check(driver_.cuMemAddressReserve_p(&address, reserved_, 0, 0, 0),
                  "cuMemAddressReserve");
    std::vector<CUmemGenericAllocationHandle> handles((size + kPage - 1) / kPage);
    for (CUmemGenericAllocationHandle& handle : handles)
      driver_.check(driver_.cuMemCreate_p(&handle, kPage, &property_, 0), "cuMemCreate");
    for (size_t i = 0; i < handles.size(); i++) {
      driver_.check(driver_.cuMemMap_p(address + i * kPage, kPage, 0, handles[i], 0), "cuMemMap");
    }
    driver_.check(driver_.cuMemSetAccess_p(address, handles.size() * kPage, &access_, 1),
                  "cuMemSetAccess");
    handles_.emplace(address, std::move(handles));
    return reinterpret_cast<void*>(address);
  }
  void free(void* block, cudaStream_t) override {
    const auto address = reinterpret_cast<CUdeviceptr>(block);
    const auto found = handles_.find(address);
    for (size_t i = 0; i < found->second.size(); i++) {
      driver_.check(driver_.cuMemUnmap_p(address + i * kPage, kPage), "cuMemUnmap");
      driver_.check(driver_.cuMemRelease_p(found->second[i]), "cuMemRelease");
    }
    driver_.check(driver_.cuMemAddressFree_p(address, reserved_), "cuMemAddressFree");
    handles_.erase(found);
  }
  void empty() override {}
  bool has_cache() const override { return false; }

 private:
  static constexpr size_t kPage = size_t{20} << 20;

  const Driver driver_;
  CUmemAllocationProp property_ = page_property();
  const CUmemAccessDesc access_ = {property_.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  size_t reserved_ = 0;
  std::unordered_map<CUdeviceptr, std::vector<CUmemGenericAllocationHandle>> handles_;
};

}  // namespace

std::unique_ptr<Contender> make_driver_memory() { return std::make_unique<Memory>(); }
std::unique_ptr<Contender> make_driver_pages() { return std::make_unique<Pages>(); }

}  // namespace gpu
