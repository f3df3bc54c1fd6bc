// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot.server;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** The server on a port of its own, with bytes of HTTP as they are. */
class HttpTest {
  /** Nothing takes so long that does not hang. */
  private static final int HANGS_MS = 60_000;
  private static final Path FETCHED = Path.of(System.getProperty("onnxruntime.folder"));
  private static final Map<String, String> ENVIRONMENT = Map.of(
      "SERVER_ADDRESS", "127.0.0.1:0",
      "SERVER_MODELS", FETCHED.resolve("models").toString(),
      "SERVER_ORT", FETCHED.resolve("lib/libonnxruntime.so").toString(),
      "CACHALOT_DRIVER", "host:1GiB");

  private static Server server;
  private static Http http;
  private static int port;

  @BeforeAll
  static void start() throws Exception {
    assumeTrue(Files.exists(FETCHED.resolve("models")), "ONNX Runtime is missing (bindings/onnxruntime/fetch.sh)");
    Settings settings = Settings.from(ENVIRONMENT);
    server = new Server(OnnxRuntime.load(settings.library()), settings);
    http = new Http(server, settings);
    port = port(http.start());
  }

  @AfterAll
  @Timeout(HANGS_MS / 1000)
  static void end() throws Exception {
    if (http != null) {
      http.stop();
      server.close();
    }
  }

  private static int port(String address) {
    return Integer.parseInt(address.substring(address.lastIndexOf(':') + 1));
  }

  private static byte[] bytes(String text) {
    return text.getBytes(StandardCharsets.ISO_8859_1);
  }

  private static void send(OutputStream to, String text) throws IOException {
    to.write(bytes(text));
  }

  /** Begins a request; its connection. */
  private static Socket begin(int port, String method, String path, String headers) throws IOException {
    Socket socket = new Socket("127.0.0.1", port);
    socket.setSoTimeout(HANGS_MS);
    send(socket.getOutputStream(), method + " " + path + " HTTP/1.1\r\nHost: x\r\n" + headers + "\r\n");
    return socket;
  }

  /** Up to the end of the next line. */
  private static String line(InputStream from) throws IOException {
    ByteArrayOutputStream line = new ByteArrayOutputStream();
    for (int next = from.read(); next >= 0 && next != '\n'; next = from.read()) {
      line.write(next);
    }
    return line.toString(StandardCharsets.ISO_8859_1).strip();
  }

  private static int status(Socket socket) throws IOException {
    return Integer.parseInt(line(socket.getInputStream()).split(" ")[1]);
  }

  private static int post(String path, String body) throws IOException {
    try (Socket socket = begin(port, "POST", path, "Content-Length: " + body.length() + "\r\n")) {
      send(socket.getOutputStream(), body);
      return status(socket);
    }
  }

  /** In chunks of a mebibyte. */
  private static int postInChunks(int mebibytes, String rest) throws IOException {
    try (Socket socket = begin(port, "POST", "/infer", "Transfer-Encoding: chunked\r\n")) {
      OutputStream to = socket.getOutputStream();
      for (int i = 0; i < mebibytes; i++) {
        send(to, "100000\r\n");
        to.write(new byte[1 << 20]);
        send(to, "\r\n");
      }
      send(to, rest);
      return status(socket);
    }
  }

  private static JsonNode stats() throws IOException {
    return server.stats().get("server");
  }

  @Test
  void theLargestBodyIsTakenInChunksToo() throws Exception {
    assertEquals(400, postInChunks(32, "0\r\n\r\n")); // it is no image
    assertEquals(413, postInChunks(32, "1\r\nx\r\n")); // the rest does not matter
  }

  @Test
  void aBodyThatIsAnnouncedToBeTooLargeIsRefusedUnseen() throws Exception {
    for (String length : new String[] {"33554433", "2147483647", "99999999999999999999999"}) {
      try (Socket socket = begin(port, "POST", "/infer", "Content-Length: " + length + "\r\n")) {
        assertEquals(413, status(socket));
      }
    }
  }

  @Test
  void aBodyIsAskedForWhoeverWaitsForThat() throws Exception {
    try (Socket socket = begin(port, "POST", "/config", "Expect: 100-continue\r\nContent-Length: 2\r\n")) {
      assertEquals(100, status(socket));
      assertEquals("", line(socket.getInputStream()));
      send(socket.getOutputStream(), "{}");
      assertEquals(200, status(socket));
    }
  }

  @Test
  void eachAnswerIsCounted() throws Exception {
    long before = stats().get("failed").longValue();
    assertEquals(400, post("/infer", "no image"));
    try (Socket socket = begin(port, "POST", "/infer", "Content-Length: 33554433\r\n")) {
      assertEquals(413, status(socket));
    }
    assertEquals(before + 2, stats().get("failed").longValue());
    assertEquals(0, stats().get("served").longValue());
  }

  @Test
  void optionsThatTheStateRefusesAreAMistakeOfWhoAsks() throws Exception {
    assertEquals(400, post("/config", "{\"config\": \"backend:cudaMallocAsync\", \"idle_ms\": 77}"));
    assertFalse(server.memory().config().toString().contains("77"));
  }

  @Test
  void anAddressThatCannotBeUsedIsNamed() throws Exception {
    String address = "127.0.0.1:" + port;
    Settings settings = Settings.from(Map.of("SERVER_ADDRESS", address));
    Http second = new Http(server, settings);
    String message = assertThrows(IllegalArgumentException.class, second::start).getMessage();
    assertTrue(message.startsWith("SERVER_ADDRESS=" + address + ": "), message);
  }

  @Test
  @Timeout(HANGS_MS / 1000)
  void aRequestWhoseRestDoesNotComeDoesNotHinderTheEnd() throws Exception {
    Http other = new Http(server, Settings.from(ENVIRONMENT), 1000);
    int otherPort = port(other.start());
    try (Socket half = begin(otherPort, "POST", "/infer", "Expect: 100-continue\r\nContent-Length: 100\r\n")) {
      assertEquals(100, status(half)); // so it has been seen
      assertEquals("", line(half.getInputStream()));
      other.stop();
      assertEquals(-1, half.getInputStream().read());
    }
  }

  /** It sends something all the time, so none of its bytes is late. */
  @Test
  @Timeout(HANGS_MS / 1000)
  void aRequestThatDripsLosesItsConnection() throws Exception {
    Http other = new Http(server, Settings.from(ENVIRONMENT), 1000);
    int otherPort = port(other.start());
    try (Socket dripping = begin(otherPort, "POST", "/infer", "Content-Length: 1000000\r\n")) {
      assertThrows(IOException.class, () -> {
        while (true) {
          send(dripping.getOutputStream(), "x");
          Thread.sleep(20);
        }
      });
    } finally {
      other.stop();
    }
  }
}
