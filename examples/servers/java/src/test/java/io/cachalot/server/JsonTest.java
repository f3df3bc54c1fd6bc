// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot.server;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.nio.charset.Charset;
import java.nio.charset.StandardCharsets;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class JsonTest {
  private static final String OBJECT = "{\"config\": \"ü\"}";

  @Test
  void utf8IsRead() {
    assertEquals("ü", Json.read(OBJECT.getBytes(StandardCharsets.UTF_8)).get("config").textValue());
  }

  @ParameterizedTest
  @ValueSource(strings = {"UTF-16", "UTF-16LE", "UTF-32BE", "ISO-8859-1"})
  void otherEncodingsAreRefused(String encoding) {
    byte[] bytes = OBJECT.getBytes(Charset.forName(encoding));
    assertThrows(IllegalArgumentException.class, () -> Json.read(bytes));
  }

  @Test
  void charactersOfMoreBytesThanTheyNeedAreRefused() {
    byte[] bytes = {'"', (byte) 0xC0, (byte) 0x80, '"'};
    assertThrows(IllegalArgumentException.class, () -> Json.read(bytes));
  }

  @ParameterizedTest
  @ValueSource(strings = {"-1", "1.0", "1e2", "1e400", "9223372036854775808", "18446744073709551616", "\"1\"", "null"})
  void whatIsNoWholeNumberIsRefused(String number) {
    byte[] bytes = ("{\"idle_ms\": " + number + "}").getBytes(StandardCharsets.UTF_8);
    assertThrows(IllegalArgumentException.class, () -> new Change(Json.read(bytes)));
  }
}
