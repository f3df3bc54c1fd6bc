// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot.server;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.cachalot.Allocator;
import io.cachalot.Driver;
import io.cachalot.Stat;
import io.cachalot.Tenant;
import io.cachalot.TenantOptions;
import io.cachalot.TenantStats;
import java.time.Duration;
import java.util.OptionalLong;

/** ONNX Runtime's memory, which is cachalot's: what is known of it, and what can be set. */
final class Memory {
  private static final int DEVICE = 0;

  private final Allocator allocator;
  private final Registration registration;
  private volatile long watermark;
  private volatile long idleMs;

  /** ONNX Runtime has to be loaded. */
  Memory(Settings settings) {
    try (Driver driver = Driver.open(settings.driver())) {
      allocator = Allocator.builder().driver(driver).build();
    }
    registration = new Registration(allocator);
    watermark = settings.watermark();
    idleMs = settings.idle().toMillis();
  }

  Tenant createTenant(TenantOptions options) {
    return allocator.createTenant(options);
  }

  Duration idle() {
    return Duration.ofMillis(idleMs);
  }

  long watermark() {
    return watermark;
  }

  /** Gives back what is free, down to so many reserved bytes; how many went. */
  long trim(long keep, Duration minIdle) {
    return allocator.trim(DEVICE, keep, minIdle);
  }

  /** The statistics by name, those of each tenant, and what ONNX Runtime has asked for. */
  ObjectNode stats() {
    ObjectNode stats = Json.object();
    ObjectNode rows = stats.putObject("allocator");
    allocator.stats(DEVICE).rows(allocator.release()).forEach(rows::put);
    ArrayNode tenants = stats.putArray("tenants");
    for (TenantStats tenant : allocator.tenantStats(DEVICE)) {
      tenants.add(row(tenant));
    }
    Registration.Info info = registration.info();
    stats.putObject("onnxruntime")
        .put("version", info.version())
        .put("live_blocks", info.liveBlocks())
        .put("requests", info.requests())
        .put("reserves", info.reserves())
        .put("failures", info.failures());
    return stats;
  }

  private static ObjectNode row(TenantStats tenant) {
    ObjectNode row = Json.object()
        .put("id", tenant.id())
        .put("name", tenant.name())
        .put("device", tenant.device())
        .put("priority", tenant.priority())
        .put("guaranteed_bytes", tenant.guaranteedBytes());
    put(row, "limit_bytes", tenant.limitBytes());
    row.set("allocation", row(tenant.allocation()));
    row.set("allocated_bytes", row(tenant.allocatedBytes()));
    row.set("requested_bytes", row(tenant.requestedBytes()));
    return row.put("num_ooms", tenant.numOoms())
        .put("num_pressure_calls", tenant.numPressureCalls())
        .put("pressure_freed_bytes", tenant.pressureFreedBytes())
        .put("asleep_bytes", tenant.asleepBytes());
  }

  private static ObjectNode row(Stat stat) {
    return Json.object()
        .put("current", stat.current())
        .put("peak", stat.peak())
        .put("allocated", stat.allocated())
        .put("freed", stat.freed());
  }

  /** Nothing is null. */
  private static void put(ObjectNode row, String name, OptionalLong value) {
    if (value.isPresent()) {
      row.put(name, value.getAsLong());
    } else {
      row.putNull(name);
    }
  }

  String summary() {
    return allocator.memorySummary(DEVICE, false);
  }

  String metrics() {
    return allocator.metrics();
  }

  ObjectNode config() {
    ObjectNode config = Json.object().put("config", allocator.options());
    put(config, "memory_limit_bytes", allocator.memoryLimit(DEVICE));
    config.put("watermark_bytes", watermark).put("idle_ms", idleMs);
    io.cachalot.Settings options = allocator.settings();
    ObjectNode settings = config.putObject("settings");
    long split = options.maxSplitSize();
    put(settings, "max_split_size", split == -1 ? OptionalLong.empty() : OptionalLong.of(split));
    settings.put("garbage_collection_threshold", options.garbageCollectionThreshold());
    settings.put("expandable_segments", options.expandableSegments());
    ArrayNode divisions = settings.putArray("roundup_power2_divisions");
    options.roundupPower2Divisions().forEach(divisions::add);
    return config;
  }

  /**
   * What a JSON object names is changed; with an {@code IllegalArgumentException} nothing is, but for the options
   * before a mistake in their text.
   */
  synchronized void configure(JsonNode wanted) {
    Change change = new Change(wanted);
    if (change.config != null) {
      setOptions(change.config);
    }
    if (change.limit != null) {
      allocator.setMemoryLimit(DEVICE, change.limit);
    }
    watermark = change.watermark == null ? watermark : change.watermark;
    idleMs = change.idleMs == null ? idleMs : change.idleMs;
  }

  /** Options that are known can be refused too, a change of the backend for example. */
  private void setOptions(String options) {
    try {
      allocator.configure(options);
    } catch (IllegalStateException | UnsupportedOperationException refused) {
      throw new IllegalArgumentException(refused.getMessage(), refused);
    }
  }

  /** Ends it; an exception if anything of it is still in use. */
  void close() {
    registration.close();
    allocator.check();
    allocator.close();
  }
}
