/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/**
 * @file share.h
 * Memory between processes of one machine and one user, without a copy. There are two ways.
 *
 * **Shared blocks** have lifetimes. The process that has the block makes a cachalot_shared_block of it and gives the
 * ticket, a short text, to others in whatever way it likes; they open the block by it. The block is freed once: when
 * its owner has ended it and no process has it open any more. A process that dies counts as done as soon as the
 * system has taken it apart; one that opens a block sees when the sharer has died.
 *
 * @code
 * // One process                                        // Another one, which got the text of the ticket
 * cachalot_shared_block* shared = NULL;                 cachalot_opened_block* opened = NULL;
 * cachalot_shared_block_create(allocator, block,        cachalot_opened_block_create(allocator, 0, ticket,
 *                              &shared, &error);                                     &opened, &error);
 * cachalot_shared_block_ticket(shared, ticket,          cachalot_opened_block_address(opened, &address, &size,
 *                              sizeof ticket, NULL,                                   &error);
 *                              &error);                 ... work on `address` ...
 * ... instead of cachalot_free(allocator, block): ...   cachalot_opened_block_destroy(opened);
 * cachalot_shared_block_destroy(shared);
 * @endcode
 *
 * **PyTorch's bytes** (cachalot_share) are those of its own allocator of the same release: a process of PyTorch's can
 * open memory of this library and the other way round. They say nothing of lifetimes: the process that shares a
 * block keeps it until all others are done.
 *
 * Plain segments go by CUDA's handles (cuIpcGetMemHandle), which the process that made them cannot open itself. Pages
 * of expandable segments go as descriptors, or as fabric handles where the device has a fabric. Under the `host` driver
 * memory is private; `host-shared` (cachalot_driver_open) has memory that can be shared, with a descriptor of the
 * process for each segment and page. Nothing is shared under `backend:cudaMallocAsync`, of pinned memory, and by
 * drivers without these calls: CACHALOT_ERROR_NOT_SUPPORTED.
 *
 * Other processes have all of the memory under a block (its segment, or its pages), with the blocks beside it. In a
 * pool with CACHALOT_POOL_WHOLE_BLOCKS that is the block alone.
 *
 * Opened memory is part of no pool and of no statistics but the bytes of cachalot_expandable_totals.
 */
#ifndef CACHALOT_SHARE_H_
#define CACHALOT_SHARE_H_

#include "cachalot/allocator.h"

#ifdef __cplusplus
extern "C" {
#endif

/** A block that other processes can open. It may outlive its allocator, and means nothing then. */
typedef struct cachalot_shared_block cachalot_shared_block;

/** A block of another process. It may outlive its allocator, and its memory is gone then. */
typedef struct cachalot_opened_block cachalot_opened_block;

/** A buffer of so many bytes has room for every ticket. */
#define CACHALOT_TICKET_CAPACITY 128

/**
 * Shares a block. It is the shared block's from now on: cachalot_free refuses it, and it counts as live until it is
 * freed. The first one of an allocator starts a thread, which ends with the allocator; no signal is handled on it.
 *
 * @param address     Of a live block of the cache; its first byte.
 * @param out_shared  The caller owns it; end it with cachalot_shared_block_destroy.
 * @return CACHALOT_OK; CACHALOT_ERROR_INVALID_ARGUMENT where no live block begins there;
 * CACHALOT_ERROR_INVALID_STATE for one that is shared already, or whose pages were made while
 * TORCH_CUDA_EXPANDABLE_SEGMENTS_IPC was 0; CACHALOT_ERROR_NOT_SUPPORTED (above); CACHALOT_ERROR_DRIVER;
 * CACHALOT_ERROR_IO where the system gives no socket or no thread. After an error the block is the caller's as before.
 * Any thread.
 */
CACHALOT_API cachalot_status cachalot_shared_block_create(cachalot_allocator* allocator,
                                                          cachalot_address address,
                                                          cachalot_shared_block** out_shared,
                                                          cachalot_error* error);

/**
 * The text by which others open the block, of printable ASCII. Any process of the same user that has the text can open
 * the block: the text is a secret.
 *
 * @param out_length  Without the NUL. May be NULL.
 * @return CACHALOT_OK or CACHALOT_ERROR_INVALID_ARGUMENT. Any thread.
 */
CACHALOT_API cachalot_status cachalot_shared_block_ticket(const cachalot_shared_block* shared,
                                                          char* buffer, size_t capacity,
                                                          size_t* out_length,
                                                          cachalot_error* error);

/** How often the block is open in other processes, and in this one by its ticket. 0 for NULL. Any thread, but not from
 * within a callback under a lock of the allocator. */
CACHALOT_API size_t cachalot_shared_block_users(const cachalot_shared_block* shared);

/**
 * The owner is done: nobody can open the block from now on, and it is freed when it is open nowhere, which is at once or
 * on the allocator's thread. NULL: nothing. No other call with it may be under way, and it is not called from within a
 * callback under a lock of the allocator.
 */
CACHALOT_API void cachalot_shared_block_destroy(cachalot_shared_block* shared);

/**
 * Opens a block that another process shares. It stays there for this process until it is destroyed, or this process is
 * gone.
 *
 * @param device      The device of this allocator on which the block lies. Its peers reach the pages of an expandable
 *                    segment, too.
 * @param ticket      What cachalot_shared_block_ticket gave there.
 * @param out_opened  The caller owns it; end it with cachalot_opened_block_destroy.
 * @return CACHALOT_OK; CACHALOT_ERROR_INVALID_ARGUMENT for a text that is no ticket and for a device that the driver
 * does not have; CACHALOT_ERROR_INVALID_STATE where the block is not shared any more or never was, its process is gone,
 * of another user, in another network namespace, or gives no answer; CACHALOT_ERROR_DRIVER where the driver refuses the
 * memory; CACHALOT_ERROR_NOT_SUPPORTED (above); CACHALOT_ERROR_IO. Waits for the answer of that process, at most 10
 * seconds for each 64 pages. Any thread.
 */
CACHALOT_API cachalot_status cachalot_opened_block_create(cachalot_allocator* allocator,
                                                          int32_t device, const char* ticket,
                                                          cachalot_opened_block** out_opened,
                                                          cachalot_error* error);

/**
 * Where the block lies in this process.
 *
 * @param out_size  Bytes, as they were asked for there. May be NULL.
 * @return CACHALOT_OK; CACHALOT_ERROR_INVALID_STATE where the allocator is gone, and the memory with it. Any thread.
 */
CACHALOT_API cachalot_status cachalot_opened_block_address(const cachalot_opened_block* opened,
                                                           cachalot_address* out_address,
                                                           uint64_t* out_size,
                                                           cachalot_error* error);

/**
 * Whether the sharer is still there: 1, or 0 once its process or its allocator has ended, and for NULL. Where it is gone
 * nobody writes the block any more but those who have it open. What is left of its memory is the driver's affair: pages
 * stay until the last process has closed them. Any thread.
 */
CACHALOT_API int32_t cachalot_opened_block_has_sharer(const cachalot_opened_block* opened);

/** Waits for the work of the device, and closes the block. NULL: nothing. No other call with it may be under way. */
CACHALOT_API void cachalot_opened_block_destroy(cachalot_opened_block* opened);

/**
 * PyTorch's shareIpcHandle: what another process needs to open the memory under a block, in the bytes of PyTorch's
 * release [core 23.2, exp 7.3, R61]. It changes nothing of the block.
 *
 * @param address     Of a live block of the cache; its first byte.
 * @param buffer      Gets the bytes if they fit. May be NULL with capacity 0.
 * @param out_size    How many bytes they are.
 * @param out_offset  Bytes from the beginning of that memory to the block.
 * @return CACHALOT_OK, also where they do not fit; CACHALOT_ERROR_INVALID_ARGUMENT where no live block begins there;
 * CACHALOT_ERROR_INVALID_STATE where pages were made while TORCH_CUDA_EXPANDABLE_SEGMENTS_IPC was 0 (2.11: the driver
 * refuses them); CACHALOT_ERROR_NOT_SUPPORTED (above); CACHALOT_ERROR_DRIVER. Any thread.
 */
CACHALOT_API cachalot_status cachalot_share(cachalot_allocator* allocator, cachalot_address address,
                                            void* buffer, size_t capacity, size_t* out_size,
                                            uint64_t* out_offset, cachalot_error* error);

/**
 * PyTorch's getIpcDevPtr: opens memory by such bytes, or by 64 bytes of a CUDA handle alone. The same memory is opened
 * once a device; each call needs its cachalot_close_shared.
 *
 * @param out_address  Where the memory begins. The block lies *out_offset bytes behind it.
 * @return CACHALOT_OK; CACHALOT_ERROR_INVALID_ARGUMENT for bytes that are none of these, or of a later release;
 * CACHALOT_ERROR_INVALID_STATE where the process is gone, has no such descriptor or may not be asked for it (pidfd_open,
 * pidfd_getfd), or for fabric handles on a device without a fabric; CACHALOT_ERROR_DRIVER where the driver refuses the
 * handle; CACHALOT_ERROR_NOT_SUPPORTED (above). Any thread.
 */
CACHALOT_API cachalot_status cachalot_open_shared(cachalot_allocator* allocator, int32_t device,
                                                  const void* shared, size_t size,
                                                  cachalot_address* out_address,
                                                  cachalot_error* error);

/**
 * Ends one use of opened memory. With the last one it is closed; pages after all work of the device. A plain segment's
 * work has to be done before, as in PyTorch.
 *
 * @param address  What cachalot_open_shared gave.
 * @return CACHALOT_OK or CACHALOT_ERROR_INVALID_ARGUMENT where no opened memory begins there. Any thread.
 */
CACHALOT_API cachalot_status cachalot_close_shared(cachalot_allocator* allocator,
                                                   cachalot_address address, cachalot_error* error);

#ifdef __cplusplus
}
#endif

#endif /* CACHALOT_SHARE_H_ */
