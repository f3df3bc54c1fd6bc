// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot.micrometer;

import io.cachalot.Allocator;
import io.cachalot.DriverException;
import io.micrometer.core.instrument.MeterRegistry;
import io.micrometer.core.instrument.Tag;
import io.micrometer.core.instrument.Tags;
import io.micrometer.core.instrument.binder.MeterBinder;
import java.lang.ref.WeakReference;
import java.util.Objects;

/**
 * The statistics of an allocator as meters: all that {@link Allocator#metrics} has, and {@code docs/serving.md} lists,
 * with the same tags. A meter has Micrometer's form of the name, {@code cachalot.allocated} in {@code bytes} for {@code
 * cachalot_allocated_bytes}, so that Micrometer's registry for Prometheus shows the library's own page.
 *
 * <pre>{@code
 * new CachalotMetrics(allocator).bindTo(registry);
 * }</pre>
 *
 * <p>The library is asked once for all meters that are read within a second. Meters of pools, labels and tenants come
 * and go with these, and all of them go with the allocator, which this does not keep from the collector.
 *
 * <p>Beside the page's, a meter of a device has the tag {@code uuid} where the library knows that of the GPU or of its
 * MIG instance. In a pod of Kubernetes whose description sets {@code POD_NAME}, {@code POD_NAMESPACE} and {@code
 * NODE_NAME} by the downward API, each meter has the tags {@code pod}, {@code namespace} and {@code node}.
 */
public final class CachalotMetrics implements MeterBinder {
  private final WeakReference<Allocator> allocator;
  private final Tags tags;

  /**
   * Of one allocator.
   *
   * @param allocator the allocator
   */
  public CachalotMetrics(Allocator allocator) {
    this(allocator, Tags.empty());
  }

  /**
   * Of one of several.
   *
   * @param allocator the allocator
   * @param tags what tells it from the other allocators of the registry
   */
  public CachalotMetrics(Allocator allocator, Iterable<Tag> tags) {
    this.allocator = new WeakReference<>(Objects.requireNonNull(allocator, "allocator"));
    this.tags = ofPod().and(Objects.requireNonNull(tags, "tags"));
  }

  private static Tags ofPod() {
    return ofVariable("pod", "POD_NAME").and(ofVariable("namespace", "POD_NAMESPACE"))
        .and(ofVariable("node", "NODE_NAME"));
  }

  private static Tags ofVariable(String key, String variable) {
    String value = System.getenv(variable);
    return value == null || value.isEmpty() ? Tags.empty() : Tags.of(key, value);
  }

  @Override
  public void bindTo(MeterRegistry registry) {
    new BoundMeters(this::read, tags, Objects.requireNonNull(registry, "registry")).refresh();
  }

  /** What has ended has no series. Where the driver cannot be asked, the last numbers stay. */
  private MetricsPage read(MetricsPage last) {
    Allocator found = allocator.get();
    try {
      return found == null ? MetricsPage.EMPTY : MetricsPage.parse(found.metrics());
    } catch (IllegalStateException closed) {
      return MetricsPage.EMPTY;
    } catch (DriverException refused) {
      return last;
    }
  }
}
