// SPDX-License-Identifier: MIT OR Apache-2.0
#include "alloc/config/wording.h"

namespace cachalot {
namespace {

// Programs search these texts, so they are the reference's, double spaces included.
constexpr Wording kPyTorch{
    .config_variable = "PYTORCH_CUDA_ALLOC_CONF",
    .process_with_others = "Including non-PyTorch memory, this process",
    .owner = "PyTorch",
    .expandable_advice =
        " If reserved but unallocated memory is large try setting "
        "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.  See "
        "documentation for Memory Management  (https://docs.pytorch.org/docs/stable/notes/cuda.html"
        "#optimizing-memory-usage-with-pytorch-cuda-alloc-conf)",
    .source_gave_null =
        " The custom allocator backing this MemPool returned nullptr. Check preceding allocator "
        "warnings or logs for the underlying cause. This can indicate an allocator-specific error "
        "or memory constraint, even when device-wide free memory is available.",
    .async_limit = "PyTorch limit (set by user-supplied memory fraction)",
    .summary_title = "PyTorch CUDA memory summary",
    .handles_are_disabled =
        "Cannot share an expandable_segments allocation: IPC handles are disabled. Set "
        "TORCH_CUDA_EXPANDABLE_SEGMENTS_IPC=1 or disable expandable_segments for cross-process "
        "tensors.",
    .no_driver_allocation =
        "Tensors allocated with expandable_segments:True cannot be shared between processes. "
        "Consider using expandable_segments:False in data loading workers via "
        "torch.cuda.memory._set_allocator_settings('expandable_segments:False')",
    .future_version =
        "received sharable handle from a future version of torch that this version does not know "
        "how to handle",
    .no_system_call =
        " syscall needed to use IPC for CUDA tensors when expandable_segments:True is set. "
        "Consider using expandable_segments:False via "
        "torch.cuda.memory._set_allocator_settings('expandable_segments:False') for this "
        "allocation.",
    .split_limit_issue = " (PyTorch issue 123548)",
    .pinned_pool_without_capture =
        "Private pools have been tested only during graph capture. See "
        "https://github.com/pytorch/pytorch/pull/167507#discussion_r2561698011",
    .free_during_capture =
        "This may be benign, for example, a Python tensor in the capture might happen to "
        "shadow (use the same name as) an unrelated temporary tensor from somewhere before "
        "capture, pushing the earlier tensor out of scope. However, if the tensor we're freeing "
        "here IS used by the capture, freeing it is an error, and may cause illegal memory "
        "accesses or memory corruption during graph replay.",
    .use_on_own_stream =
        "Called record_stream on tensor whose original creation stream matches the "
        "recorded stream. This is unnecessary and has no effect.",
    .no_annotations =
        "cudaMallocAsync does not support memory annotations; the value passed to "
        "torch.cuda.memory._annotate_memory is ignored and will not appear in memory "
        "snapshots. Query torch._C._cuda_memoryMetadataSupported() to check support.",
};

constexpr Wording kOwn{
    .config_variable = "CACHALOT_ALLOC_CONF",
    .process_with_others = "Including memory of other libraries, this process",
    .owner = "this process",
    .expandable_advice =
        " If reserved but unallocated memory is large, set "
        "CACHALOT_ALLOC_CONF=expandable_segments:True to avoid fragmentation.",
    .source_gave_null = " The source of this pool's memory returned no address.",
    .async_limit = "Limit of this process (set by a memory fraction)",
    .summary_title = "CUDA memory summary",
    .handles_are_disabled =
        "Cannot share a block of expandable segments: their pages have no handles for other "
        "processes. Set shareable_pages, or expandable_segments:False.",
    .no_driver_allocation =
        "A block of expandable segments has no allocation of the driver that another process "
        "could open. Share the block itself (cachalot_shared_block_create), or set "
        "CACHALOT_ALLOC_CONF=expandable_segments:False.",
    .future_version = "the shared handle is of a newer version, which this one does not know",
    .no_system_call =
        " system call, which sharing needs with expandable_segments:True. Set "
        "CACHALOT_ALLOC_CONF=expandable_segments:False.",
    .split_limit_issue = "",
    .pinned_pool_without_capture = "Pools of pinned memory are made for captures.",
    .free_during_capture =
        "If no work of the capture uses the block, nothing is wrong. If some does, the free is "
        "an error, and replays of the graph access memory that is not theirs.",
    .use_on_own_stream =
        "The use of a block was recorded on the stream that it was allocated on, which has no "
        "effect.",
    .no_annotations = "cudaMallocAsync has no annotations: the text is ignored.",
};

}  // namespace

const Wording& wording_of(Texts texts) { return texts == Texts::kOwn ? kOwn : kPyTorch; }

}  // namespace cachalot
