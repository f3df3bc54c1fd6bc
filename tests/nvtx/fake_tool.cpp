// SPDX-License-Identifier: MIT OR Apache-2.0
// A tool that NVTX loads in place of compute-sanitizer, and that writes down what it is told.
#include <nvtx3/nvToolsExtMem.h>

#include <cstdint>
#include <sstream>
#include <string>

namespace {

std::string& calls() {
  static std::string text;
  return text;
}

template <class... Words>
void note(Words... words) {
  std::ostringstream line;
  ((line << words << ' '), ...);
  calls() += line.str() + '\n';
}

uint64_t number(const void* pointer) { return reinterpret_cast<uint64_t>(pointer); }

template <class Description>
bool is_complete(const Description& description) {
  return description.extCompatID == NVTX_EXT_COMPATID_MEM &&
         description.structSize == sizeof description;
}

// ---- The calls

nvtxDomainHandle_t create_domain(const char* name) {
  note("domain+", name);
  return reinterpret_cast<nvtxDomainHandle_t>(&calls());
}

void destroy_domain(nvtxDomainHandle_t) { note("domain-"); }

nvtxMemHeapHandle_t add_heap(nvtxDomainHandle_t domain, const nvtxMemHeapDesc_t* heap) {
  const auto& range = *static_cast<const nvtxMemVirtualRangeDesc_t*>(heap->typeSpecificDesc);
  const bool is_right =
      domain && is_complete(*heap) && heap->usage == NVTX_MEM_HEAP_USAGE_TYPE_SUB_ALLOCATOR &&
      heap->type == NVTX_MEM_TYPE_VIRTUAL_ADDRESS && heap->typeSpecificDescSize == sizeof range;
  note(is_right ? "heap+" : "wrong", number(range.ptr), range.size);
  return static_cast<nvtxMemHeapHandle_t>(const_cast<void*>(range.ptr));
}

void remove_heap(nvtxDomainHandle_t, nvtxMemHeapHandle_t heap) { note("heap-", number(heap)); }

void add_regions(nvtxDomainHandle_t, const nvtxMemRegionsRegisterBatch_t* batch) {
  const auto* ranges = static_cast<const nvtxMemVirtualRangeDesc_t*>(batch->regionDescElements);
  const bool is_right = is_complete(*batch) && batch->regionType == NVTX_MEM_TYPE_VIRTUAL_ADDRESS &&
                        batch->regionDescElementSize == sizeof *ranges;
  for (size_t i = 0; i < batch->regionCount; i++) {
    note(is_right ? "region+" : "wrong", number(batch->heap), number(ranges[i].ptr),
         ranges[i].size);
  }
}

void resize_regions(nvtxDomainHandle_t, const nvtxMemRegionsResizeBatch_t* batch) {
  const auto* ranges = static_cast<const nvtxMemVirtualRangeDesc_t*>(batch->regionDescElements);
  for (size_t i = 0; i < batch->regionDescCount; i++)
    note(is_complete(*batch) ? "region=" : "wrong", number(ranges[i].ptr), ranges[i].size);
}

void remove_regions(nvtxDomainHandle_t, const nvtxMemRegionsUnregisterBatch_t* batch) {
  const bool is_right = is_complete(*batch) && batch->refType == NVTX_MEM_REGION_REF_TYPE_POINTER;
  for (size_t i = 0; i < batch->refCount; i++)
    note(is_right ? "region-" : "wrong", number(batch->refElements[i].pointer));
}

void name_regions(nvtxDomainHandle_t, const nvtxMemRegionsNameBatch_t* batch) {
  for (size_t i = 0; i < batch->regionCount; i++) {
    const nvtxMemRegionNameDesc_t& region = batch->regionElements[i];
    const bool is_right = is_complete(*batch) && region.nameType == NVTX_MESSAGE_TYPE_ASCII &&
                          region.regionRefType == NVTX_MEM_REGION_REF_TYPE_POINTER;
    note(is_right ? "name" : "wrong", number(region.region.pointer), region.name.ascii);
  }
}

template <class Function>
intptr_t slot(Function function) {
  return reinterpret_cast<intptr_t>(function);
}

}  // namespace

extern "C" {

NVTX_DYNAMIC_EXPORT int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t export_table);
NVTX_DYNAMIC_EXPORT int InitializeInjectionNvtxExtension(nvtxExtModuleInfo_t* module);
NVTX_DYNAMIC_EXPORT const char* fake_nvtx_calls(int forget);

NVTX_DYNAMIC_EXPORT int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t export_table) {
  const auto* table =
      static_cast<const NvtxExportTableCallbacks*>(export_table(NVTX_ETID_CALLBACKS));
  NvtxFunctionTable functions = nullptr;
  unsigned int count = 0;
  if (!table || !table->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &functions, &count)) return 0;
  *functions[NVTX_CBID_CORE2_DomainCreateA] = reinterpret_cast<NvtxFunctionPointer>(create_domain);
  *functions[NVTX_CBID_CORE2_DomainDestroy] = reinterpret_cast<NvtxFunctionPointer>(destroy_domain);
  return 1;
}

NVTX_DYNAMIC_EXPORT int InitializeInjectionNvtxExtension(nvtxExtModuleInfo_t* module) {
  if (module->moduleId != NVTX_EXT_MODULEID_MEM) return 0;
  intptr_t* const slots = module->segments[0].functionSlots;
  slots[NVTX3EXT_CBID_nvtxMemHeapRegister] = slot(add_heap);
  slots[NVTX3EXT_CBID_nvtxMemHeapUnregister] = slot(remove_heap);
  slots[NVTX3EXT_CBID_nvtxMemRegionsRegister] = slot(add_regions);
  slots[NVTX3EXT_CBID_nvtxMemRegionsResize] = slot(resize_regions);
  slots[NVTX3EXT_CBID_nvtxMemRegionsUnregister] = slot(remove_regions);
  slots[NVTX3EXT_CBID_nvtxMemRegionsName] = slot(name_regions);
  return 1;
}

// All calls so far, a line each; they are forgotten if forget is 1.
NVTX_DYNAMIC_EXPORT const char* fake_nvtx_calls(int forget) {
  static std::string taken;
  taken = calls();
  if (forget != 0) calls().clear();
  return taken.c_str();
}

}  // extern "C"
