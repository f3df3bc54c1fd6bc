// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot.micrometer;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.cachalot.Allocator;
import io.cachalot.Block;
import io.cachalot.Label;
import io.cachalot.Pool;
import io.cachalot.PoolOptions;
import io.cachalot.Sim;
import io.cachalot.TenantOptions;
import io.micrometer.core.instrument.Clock;
import io.micrometer.core.instrument.Gauge;
import io.micrometer.core.instrument.MeterRegistry;
import io.micrometer.core.instrument.Tag;
import io.micrometer.core.instrument.Tags;
import io.micrometer.core.instrument.simple.SimpleConfig;
import io.micrometer.core.instrument.simple.SimpleMeterRegistry;
import io.micrometer.prometheusmetrics.PrometheusConfig;
import io.micrometer.prometheusmetrics.PrometheusMeterRegistry;
import java.util.List;
import java.util.OptionalLong;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;

/** The meters against the library's own page. */
final class CachalotMetricsTest {
  private static final long MIB = 1 << 20;

  /** Goes on when it is told to. */
  private static final class ManualClock implements Clock {
    private long now = 1;

    void pass(long seconds) {
      now += TimeUnit.SECONDS.toNanos(seconds);
    }

    @Override
    public long wallTime() {
      return TimeUnit.NANOSECONDS.toMillis(now);
    }

    @Override
    public long monotonicTime() {
      return now;
    }
  }

  private final ManualClock clock = new ManualClock();
  private final MeterRegistry registry = new SimpleMeterRegistry(SimpleConfig.DEFAULT, clock);

  private static Allocator over(Sim sim) {
    return Allocator.builder().driver(sim).options("").trackLabels(true).build();
  }

  private double gauge(String name, String... tags) {
    return registry.get(name).tags(tags).gauge().value();
  }

  @Test
  void prometheusGetsTheLibrarysOwnPage() {
    PrometheusMeterRegistry prometheus = new PrometheusMeterRegistry(PrometheusConfig.DEFAULT);
    try (Sim sim = Sim.create(1 << 30, 2); Allocator allocator = over(sim);
        Pool pool = allocator.createPool(0, new PoolOptions()); Block kept = allocator.allocate(3 * MIB, 1, 0);
        Label label = Label.push("with \"quotes\", \\ and\nlines"); Block labelled = allocator.allocate(5 * MIB)) {
      allocator.createTenant(new TenantOptions("one")).allocate(MIB, 0, 0).leak();
      allocator.setMemoryLimit(1, OptionalLong.of(512 * MIB));
      allocator.allocatePinned(100).close();
      new CachalotMetrics(allocator).bindTo(prometheus);
      MetricsPage page = MetricsPage.parse(allocator.metrics());
      assertTrue(page.series().size() > 100, () -> page.series().size() + " series");
      assertEquals(page.values(), MetricsPage.parse(prometheus.scrape()).values());
      assertTrue(prometheus.scrape().contains("quotes"), prometheus.scrape());
      allocator.closeAll();
    }
  }

  @Test
  void aMeterHasMicrometersFormOfTheName() {
    try (Sim sim = Sim.create(1 << 30); Allocator allocator = over(sim); Block block = allocator.allocate(3 * MIB)) {
      new CachalotMetrics(allocator, Tags.of("model", "a")).bindTo(registry);
      assertEquals(3 * MIB, gauge("cachalot.allocated", "device", "0", "pool", "large", "model", "a"));
      assertEquals("bytes", registry.get("cachalot.allocated").gauges().iterator().next().getId().getBaseUnit());
      assertEquals(1, registry.get("cachalot.allocations").tag("pool", "large").functionCounter().count());
      assertNull(registry.get("cachalot.ooms").functionCounter().getId().getBaseUnit());
    }
  }

  @Test
  void meterReadsWithinASecondAreOfOnePage() {
    try (Sim sim = Sim.create(1 << 30); Allocator allocator = over(sim)) {
      new CachalotMetrics(allocator).bindTo(registry);
      allocator.allocateUnowned(3 * MIB, 0, 0);
      assertEquals(0, gauge("cachalot.allocated", "pool", "large"));
      clock.pass(1);
      assertEquals(3 * MIB, gauge("cachalot.allocated", "pool", "large"));
      allocator.closeAll();
    }
  }

  @Test
  void metersComeAndGoWithWhatTheyAreOf() {
    try (Sim sim = Sim.create(1 << 30); Allocator allocator = over(sim)) {
      new CachalotMetrics(allocator).bindTo(registry);
      assertNull(registry.find("cachalot.limit").gauge());
      allocator.setMemoryLimit(0, OptionalLong.of(512 * MIB));
      clock.pass(1);
      gauge("cachalot.segments", "pool", "small");
      assertEquals(512 * MIB, gauge("cachalot.limit"));
      allocator.setMemoryLimit(0, OptionalLong.empty());
      clock.pass(1);
      gauge("cachalot.segments", "pool", "small");
      assertNull(registry.find("cachalot.limit").gauge());
    }
    Gauge segments = registry.get("cachalot.segments").gauges().iterator().next();
    assertNotNull(segments);
    clock.pass(1);
    segments.value();
    assertEquals(0, registry.getMeters().size());
  }

  @Test
  void aMeterOfAKnownGpuHasItsUuid() {
    MetricsPage page = MetricsPage.parse("""
        # TYPE cachalot_device_info gauge
        cachalot_device_info{device="1",uuid="MIG-1",gpu_uuid="GPU-1",pci_bus_id="0000:01:00.0"} 1
        # TYPE cachalot_limit_bytes gauge
        cachalot_limit_bytes{device="0"} 5
        cachalot_limit_bytes{device="1"} 7
        # TYPE cachalot_host_active_bytes gauge
        cachalot_host_active_bytes 9
        """);
    new BoundMeters(last -> page, Tags.empty(), registry).refresh();
    assertEquals(7, gauge("cachalot.limit", "device", "1", "uuid", "MIG-1"));
    List<Tag> unknown = registry.get("cachalot.limit").tag("device", "0").gauge().getId().getTags();
    assertEquals(List.of(Tag.of("device", "0")), unknown);
    assertEquals(1, gauge("cachalot.device.info", "uuid", "MIG-1", "gpu_uuid", "GPU-1"));
    assertEquals(9, gauge("cachalot.host.active"));
  }

  @Test
  void twoAllocatorsAreToldApartByTags() {
    try (Sim sim = Sim.create(1 << 30); Allocator first = over(sim); Allocator second = over(sim);
        Block block = second.allocate(3 * MIB)) {
      new CachalotMetrics(first, Tags.of("model", "a")).bindTo(registry);
      new CachalotMetrics(second, Tags.of("model", "b")).bindTo(registry);
      assertEquals(0, gauge("cachalot.allocated", "pool", "large", "model", "a"));
      assertEquals(3 * MIB, gauge("cachalot.allocated", "pool", "large", "model", "b"));
    }
  }
}
