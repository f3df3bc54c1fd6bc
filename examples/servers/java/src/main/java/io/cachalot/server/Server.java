// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot.server;

import ai.onnxruntime.OrtEnvironment;
import ai.onnxruntime.OrtException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.undertow.util.StatusCodes;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.ReadWriteLock;
import java.util.concurrent.locks.ReentrantReadWriteLock;

/** The server without its HTTP: images in, text out, and memory that goes back when nobody asks. */
final class Server {
  private static final long PAGE = 4096;

  private final Memory memory;
  private final Pool detectionPool;
  private final Pool recognitionPool;
  private final Detection detection;
  private final Recognition recognition;
  private final Activity activity = new Activity();
  /** Answers of each kind. */
  private final AtomicLong served = new AtomicLong();
  private final AtomicLong exhausted = new AtomicLong();
  private final AtomicLong failed = new AtomicLong();

  Server(OrtEnvironment environment, Settings settings) throws IOException, OrtException {
    memory = new Memory(settings);
    ReadWriteLock turn = new ReentrantReadWriteLock(true); // fair, so that who wants to be alone gets there
    detectionPool = new Pool(environment, "detection", settings, memory, turn);
    recognitionPool = new Pool(environment, "recognition", settings, memory, turn);
    detection = new Detection(detectionPool);
    recognition = new Recognition(recognitionPool);
  }

  Memory memory() {
    return memory;
  }

  /** The text in a PNG image. */
  ObjectNode infer(byte[] png) throws MalformedException, TooLargeException, ExhaustedException, OrtException {
    try (Activity.Working working = activity.begin()) {
      return answer(Png.decode(png));
    }
  }

  /** Counts an answer, those to what never came to be worked on too. */
  void count(int status) {
    AtomicLong count = switch (status) {
      case StatusCodes.OK -> served;
      case StatusCodes.SERVICE_UNAVAILABLE -> exhausted;
      default -> failed;
    };
    count.incrementAndGet();
  }

  private ObjectNode answer(Image image) throws ExhaustedException, OrtException {
    ObjectNode answer = Json.object().put("width", image.width()).put("height", image.height());
    ArrayNode boxes = answer.putArray("boxes");
    for (Rect rect : detection.find(image)) {
      Text text = recognition.read(image, rect);
      if (text.isText()) {
        ObjectNode box = boxes.addObject();
        box.putArray("box").add(rect.left()).add(rect.top()).add(rect.right()).add(rect.bottom());
        box.put("score", text.score()).put("text", text.text());
      }
    }
    return answer;
  }

  /** Somebody has asked for something, who may have left memory behind. */
  void touch() {
    activity.touch();
  }

  /** To be called again and again: gives memory back once nobody has asked for the idle time. */
  void trimWhenIdle() {
    if (!activity.isToBeTrimmed(memory.idle())) {
      return;
    }
    try {
      memory.trim(memory.watermark(), Duration.ZERO);
      System.gc(); // Java's own, where images and outputs were
    } catch (RuntimeException | Error failed) { // what it threw would end its repetition without a word
      System.err.println("memory is not given back: " + failed);
    }
  }

  /** Changes what a JSON object names. */
  void configure(JsonNode wanted) {
    memory.configure(wanted);
    activity.changed();
  }

  ObjectNode stats() throws IOException {
    ObjectNode stats = memory.stats();
    Shelf.Counts ofDetection = detectionPool.counts();
    Shelf.Counts ofRecognition = recognitionPool.counts();
    ObjectNode own = stats.putObject("server")
        .put("mode", Settings.MODE)
        .put("served", served.get())
        .put("exhausted", exhausted.get())
        .put("failed", failed.get())
        .put("rss_bytes", residentBytes());
    own.putObject("sessions")
        .put("detection", ofDetection.sessions()).put("recognition", ofRecognition.sessions());
    own.putObject("evicted")
        .put("detection", ofDetection.evicted()).put("recognition", ofRecognition.evicted());
    return stats;
  }

  /** What the process has of the machine's memory. */
  private static long residentBytes() throws IOException {
    return Long.parseLong(Files.readString(Path.of("/proc/self/statm")).split(" ")[1]) * PAGE;
  }

  /** Closes everything; an exception if memory is in use that nobody should have. */
  void close() {
    detectionPool.close();
    recognitionPool.close();
    memory.close();
  }
}
