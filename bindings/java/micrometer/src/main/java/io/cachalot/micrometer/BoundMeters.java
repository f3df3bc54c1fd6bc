// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot.micrometer;

import io.cachalot.micrometer.MetricsPage.Family;
import io.cachalot.micrometer.MetricsPage.Series;
import io.micrometer.core.instrument.FunctionCounter;
import io.micrometer.core.instrument.Gauge;
import io.micrometer.core.instrument.Meter;
import io.micrometer.core.instrument.MeterRegistry;
import io.micrometer.core.instrument.Tags;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.UnaryOperator;

/** The meters of an allocator in a registry. A meter that is read brings all of them up to date, once a second. */
final class BoundMeters {
  private static final long MAX_AGE_NANOS = TimeUnit.SECONDS.toNanos(1);
  private static final List<String> UNITS = List.of("bytes", "microseconds");

  /** From the page that there was to that of now. */
  private final UnaryOperator<MetricsPage> source;
  private final Tags tags;
  private final MeterRegistry registry;
  /** Guards what follows; nobody waits for it, since the registry calls back under locks of its own. */
  private final ReentrantLock refreshing = new ReentrantLock();
  private final Map<Series, Meter> meters = new HashMap<>();
  private volatile MetricsPage page = MetricsPage.EMPTY;
  private volatile long readAt;

  BoundMeters(UnaryOperator<MetricsPage> source, Tags tags, MeterRegistry registry) {
    this.source = source;
    this.tags = tags;
    this.registry = registry;
  }

  void refresh() {
    if (!refreshing.tryLock()) {
      return;
    }
    try {
      page = source.apply(page);
      readAt = registry.config().clock().monotonicTime();
      meters.entrySet().removeIf(each -> !page.has(each.getKey()) && registry.remove(each.getValue()) != null);
      page.series().forEach(series -> meters.computeIfAbsent(series, this::register));
    } finally {
      refreshing.unlock();
    }
  }

  private double value(Series series) {
    if (registry.config().clock().monotonicTime() - readAt >= MAX_AGE_NANOS) {
      refresh();
    }
    return page.value(series);
  }

  private Meter register(Series series) {
    Family family = series.family();
    String unit = UNITS.stream().filter(each -> family.stem().endsWith("_" + each)).findFirst().orElse(null);
    String stem = unit == null ? family.stem() : family.stem().substring(0, family.stem().length() - unit.length() - 1);
    String name = stem.replace('_', '.');
    Tags all = tags.and(page.identity(series)).and(series.tags());
    if (family.isCounter()) {
      return FunctionCounter.builder(name, this, bound -> bound.value(series)).tags(all).baseUnit(unit)
          .description(family.help()).register(registry);
    }
    // A gauge keeps this; there is at least one, that of the library's version.
    return Gauge.builder(name, this, bound -> bound.value(series)).tags(all).baseUnit(unit)
        .description(family.help()).strongReference(true).register(registry);
  }
}
