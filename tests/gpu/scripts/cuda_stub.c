/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What the linker needs to know of libcuda.so.1: the names that this folder calls. */
void cuCtxSetCurrent(void);
void cuCtxSynchronize(void);
void cuDeviceGet(void);
void cuDevicePrimaryCtxRetain(void);
void cuEventCreate(void);
void cuEventDestroy_v2(void);
void cuEventRecord(void);
void cuEventSynchronize(void);
void cuGetErrorString(void);
void cuGraphDestroy(void);
void cuInit(void);
void cuMemAlloc_v2(void);
void cuMemFreeHost(void);
void cuMemFree_v2(void);
void cuMemHostAlloc(void);
void cuMemHostGetDevicePointer_v2(void);
void cuMemsetD8Async(void);
void cuStreamBeginCapture_v2(void);
void cuStreamCreate(void);
void cuStreamDestroy_v2(void);
void cuStreamEndCapture(void);
void cuStreamSynchronize(void);
void cuStreamWaitEvent(void);
void cuStreamWaitValue32_v2(void);

void cuCtxSetCurrent(void) {}
void cuCtxSynchronize(void) {}
void cuDeviceGet(void) {}
void cuDevicePrimaryCtxRetain(void) {}
void cuEventCreate(void) {}
void cuEventDestroy_v2(void) {}
void cuEventRecord(void) {}
void cuEventSynchronize(void) {}
void cuGetErrorString(void) {}
void cuGraphDestroy(void) {}
void cuInit(void) {}
void cuMemAlloc_v2(void) {}
void cuMemFreeHost(void) {}
void cuMemFree_v2(void) {}
void cuMemHostAlloc(void) {}
void cuMemHostGetDevicePointer_v2(void) {}
void cuMemsetD8Async(void) {}
void cuStreamBeginCapture_v2(void) {}
void cuStreamCreate(void) {}
void cuStreamDestroy_v2(void) {}
void cuStreamEndCapture(void) {}
void cuStreamSynchronize(void) {}
void cuStreamWaitEvent(void) {}
void cuStreamWaitValue32_v2(void) {}
