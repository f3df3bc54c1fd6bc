// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot.server;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.Map;
import java.util.OptionalLong;

/** What a request wants to be changed; null: nothing of it. */
final class Change {
  final String config;
  /** Empty: no limit. */
  final OptionalLong limit;
  final Long watermark;
  final Long idleMs;

  Change(JsonNode wanted) {
    String newConfig = null;
    OptionalLong newLimit = null;
    Long newWatermark = null;
    Long newIdle = null;
    for (Map.Entry<String, JsonNode> row : Json.object(wanted).properties()) {
      JsonNode value = row.getValue();
      switch (row.getKey()) {
        case "config" -> newConfig = Json.text(row);
        case "memory_limit_bytes" ->
            newLimit = value.isNull() ? OptionalLong.empty() : OptionalLong.of(Json.number(row));
        case "watermark_bytes" -> newWatermark = Json.number(row);
        case "idle_ms" -> newIdle = Json.number(row);
        default -> throw new IllegalArgumentException("there is no '" + row.getKey() + "'");
      }
    }
    config = newConfig;
    limit = newLimit;
    watermark = newWatermark;
    idleMs = newIdle;
  }
}
