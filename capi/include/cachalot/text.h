/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/**
 * @file text.h
 * Texts in one call, for C: each function of the library that writes a text into a buffer has one
 * here that allocates the buffer. Not part of cachalot.h; include it where it is wanted.
 *
 * @code
 * char* page = NULL;
 * if (cachalot_metrics_text_dup(allocator, &page, &error) == CACHALOT_OK) answer(page);
 * free(page);
 * @endcode
 *
 * All functions: `out_text` gets the whole text with its final NUL, from malloc; the caller gives it
 * to free(). It is written on success only. Statuses, threads and costs are those of the function
 * without `_dup`, which runs twice, or more often while the text grows between two calls. Besides,
 * CACHALOT_ERROR_OUT_OF_HOST_MEMORY where malloc fails, and CACHALOT_ERROR_INVALID_ARGUMENT where
 * out_text is NULL. error may be NULL.
 *
 * The functions are inline, so the library neither allocates nor frees what the caller owns.
 * cachalot_sim_read_calls has none: its text is gone once it is read.
 */
#ifndef CACHALOT_TEXT_H_
#define CACHALOT_TEXT_H_

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "cachalot/allocator.h"
#include "cachalot/history.h"
#include "cachalot/metrics.h"
#include "cachalot/pool.h"
#include "cachalot/recorder.h"
#include "cachalot/report.h"
#include "cachalot/share.h"
#include "cachalot/stats.h"
#include "cachalot/trace.h"

#ifdef __cplusplus
extern "C" {
#endif

/** @cond */

/* Fills error as the library does: no more of it than its struct_size says. */
static inline cachalot_status cachalot_text_fail(cachalot_error* error, cachalot_status status,
                                                 const char* message) {
  const size_t head = offsetof(cachalot_error, message);
  cachalot_error record = CACHALOT_ERROR_INIT;
  size_t known;
  if (error == NULL) return status;
  known = error->struct_size < sizeof record ? error->struct_size : sizeof record;
  record.struct_size = error->struct_size;
  record.status = (int32_t)status;
  strncpy(record.message, message, sizeof record.message - 1);
  memcpy(error, &record, known);
  if (known > head) error->message[known - head - 1] = '\0';
  return status;
}

/* The body of each function. CALL writes into `buffer` of `capacity` bytes and sets `length`. */
#define CACHALOT_TEXT_DUP(CALL, ERROR)                                                           \
  char* buffer = NULL;                                                                           \
  size_t capacity = 0, length = 0;                                                               \
  if (out_text == NULL) {                                                                        \
    return cachalot_text_fail(ERROR, CACHALOT_ERROR_INVALID_ARGUMENT, "out_text is NULL");       \
  }                                                                                              \
  for (;;) {                                                                                     \
    const cachalot_status status = CALL;                                                         \
    if (status != CACHALOT_OK) {                                                                 \
      free(buffer);                                                                              \
      return status;                                                                             \
    }                                                                                            \
    if (length < capacity) break;                                                                \
    free(buffer);                                                                                \
    capacity = length + 1;                                                                       \
    buffer = (char*)malloc(capacity);                                                            \
    if (buffer == NULL) {                                                                        \
      return cachalot_text_fail(ERROR, CACHALOT_ERROR_OUT_OF_HOST_MEMORY, "out of host memory"); \
    }                                                                                            \
  }                                                                                              \
  *out_text = buffer;                                                                            \
  return CACHALOT_OK

/** @endcond */

/** cachalot_memory_summary: the table of torch.cuda.memory_summary. */
static inline cachalot_status cachalot_memory_summary_dup(cachalot_allocator* allocator,
                                                          int32_t device, int32_t abbreviated,
                                                          char** out_text, cachalot_error* error) {
  CACHALOT_TEXT_DUP(
      cachalot_memory_summary(allocator, device, abbreviated, buffer, capacity, &length, error),
      error);
}

/** cachalot_metrics_text: what a server answers to a scrape of Prometheus. */
static inline cachalot_status cachalot_metrics_text_dup(cachalot_allocator* allocator,
                                                        char** out_text, cachalot_error* error) {
  CACHALOT_TEXT_DUP(cachalot_metrics_text(allocator, buffer, capacity, &length, error), error);
}

/** cachalot_report_text: the report as a table of one screen. */
static inline cachalot_status cachalot_report_text_dup(const cachalot_report* report,
                                                       char** out_text, cachalot_error* error) {
  CACHALOT_TEXT_DUP(cachalot_report_text(report, buffer, capacity, &length, error), error);
}

/** cachalot_report_json: the report as one JSON object. */
static inline cachalot_status cachalot_report_json_dup(const cachalot_report* report,
                                                       char** out_text, cachalot_error* error) {
  CACHALOT_TEXT_DUP(cachalot_report_json(report, buffer, capacity, &length, error), error);
}

/** cachalot_context_text: what a context of the history means, one frame a line. */
static inline cachalot_status cachalot_context_text_dup(cachalot_allocator* allocator,
                                                        uint64_t context, char** out_text,
                                                        cachalot_error* error) {
  CACHALOT_TEXT_DUP(cachalot_context_text(allocator, context, buffer, capacity, &length, error),
                    error);
}

/** cachalot_trace_context_text: what a recorded run tells of a context. */
static inline cachalot_status cachalot_trace_context_text_dup(const cachalot_trace* trace,
                                                              uint64_t context, char** out_text) {
  CACHALOT_TEXT_DUP(cachalot_trace_context_text(trace, context, buffer, capacity, &length), NULL);
}

/** cachalot_get_config: the last option string. */
static inline cachalot_status cachalot_get_config_dup(cachalot_allocator* allocator,
                                                      char** out_text, cachalot_error* error) {
  CACHALOT_TEXT_DUP(cachalot_get_config(allocator, buffer, capacity, &length, error), error);
}

/** cachalot_get_reserve_class: a stream's reserve class. */
static inline cachalot_status cachalot_get_reserve_class_dup(cachalot_allocator* allocator,
                                                             cachalot_stream stream,
                                                             char** out_text,
                                                             cachalot_error* error) {
  CACHALOT_TEXT_DUP(cachalot_get_reserve_class(allocator, stream, buffer, capacity, &length, error),
                    error);
}

/** cachalot_recorder_path: the file that a recorder writes. */
static inline cachalot_status cachalot_recorder_path_dup(cachalot_allocator* allocator, uint64_t id,
                                                         char** out_text, cachalot_error* error) {
  CACHALOT_TEXT_DUP(cachalot_recorder_path(allocator, id, buffer, capacity, &length, error), error);
}

/** cachalot_shared_block_ticket: the text by which others open the block. It is a secret. */
static inline cachalot_status cachalot_shared_block_ticket_dup(const cachalot_shared_block* shared,
                                                               char** out_text,
                                                               cachalot_error* error) {
  CACHALOT_TEXT_DUP(cachalot_shared_block_ticket(shared, buffer, capacity, &length, error), error);
}

#undef CACHALOT_TEXT_DUP

#ifdef __cplusplus
}
#endif

#endif /* CACHALOT_TEXT_H_ */
