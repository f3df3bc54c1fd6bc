/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/**
 * @file metrics.h
 * The statistics of all devices as a page for Prometheus.
 */
#ifndef CACHALOT_METRICS_H_
#define CACHALOT_METRICS_H_

#include "cachalot/allocator.h"

#ifdef __cplusplus
extern "C" {
#endif

/**
 * What a server answers to a scrape of Prometheus, with the content type
 * `text/plain; version=0.0.4; charset=utf-8`. docs/serving.md lists the metrics.
 *
 * The numbers are those of stats.h: each device's at one moment, and the same under every locale.
 * From the first tenant on those of tenant.h follow, each tenant's on a device at one moment.
 * What has ended has no series: pools, tenants, and labels that lost their rows (CACHALOT_MAX_LABELS).
 * Costs what cachalot_get_stats costs for each device, no walk, and two questions to the driver: the
 * device's memory, and, without a lock, the processes on it. What the driver does not tell is left
 * out.
 *
 * @param buffer      Gets the text, like snprintf; may be NULL with capacity 0.
 * @param out_length  The full length without the NUL; may be NULL. A text that does not fit is cut,
 *                    and the next one may be longer: call again with more room while
 *                    *out_length >= capacity.
 * @return CACHALOT_OK; CACHALOT_ERROR_DRIVER under backend:cudaMallocAsync, where the driver has the
 * numbers. Any thread.
 */
CACHALOT_API cachalot_status cachalot_metrics_text(cachalot_allocator* allocator, char* buffer,
                                                   size_t capacity, size_t* out_length,
                                                   cachalot_error* error);

#ifdef __cplusplus
}
#endif

#endif /* CACHALOT_METRICS_H_ */
