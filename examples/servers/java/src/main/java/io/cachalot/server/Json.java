// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot.server;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.json.JsonMapper;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.util.Map;

/** Reads and writes JSON. What is not as expected is an {@code IllegalArgumentException}. */
final class Json {
  private static final ObjectMapper MAPPER =
      JsonMapper.builder().enable(DeserializationFeature.FAIL_ON_TRAILING_TOKENS).build();

  private Json() {}

  static ObjectNode object() {
    return JsonNodeFactory.instance.objectNode();
  }

  static byte[] write(JsonNode value) {
    try {
      return MAPPER.writeValueAsBytes(value);
    } catch (JsonProcessingException impossible) {
      throw new IllegalStateException(impossible);
    }
  }

  static JsonNode read(byte[] bytes) {
    try {
      // Jackson would guess the encoding, and takes more spellings of characters than UTF-8 has.
      String text = StandardCharsets.UTF_8.newDecoder().decode(ByteBuffer.wrap(bytes)).toString();
      return MAPPER.readTree(text);
    } catch (CharacterCodingException malformed) {
      throw new IllegalArgumentException("the body is no UTF-8");
    } catch (JsonProcessingException malformed) {
      throw new IllegalArgumentException(malformed.getOriginalMessage());
    }
  }

  static ObjectNode object(JsonNode value) {
    if (value instanceof ObjectNode object) {
      return object;
    }
    throw new IllegalArgumentException("a JSON object is expected");
  }

  static long number(Map.Entry<String, JsonNode> row) {
    JsonNode value = row.getValue();
    if (!value.isIntegralNumber() || !value.canConvertToLong() || value.longValue() < 0) {
      throw new IllegalArgumentException("'" + row.getKey() + "' is no whole number from 0 to 2^63 - 1");
    }
    return value.longValue();
  }

  static String text(Map.Entry<String, JsonNode> row) {
    if (!row.getValue().isTextual()) {
      throw new IllegalArgumentException("'" + row.getKey() + "' is no text");
    }
    return row.getValue().textValue();
  }
}
