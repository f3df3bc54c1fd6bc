// SPDX-License-Identifier: MIT OR Apache-2.0
/** The statistics of cachalot's allocators as Micrometer's meters: {@link io.cachalot.micrometer.CachalotMetrics}. */
package io.cachalot.micrometer;
