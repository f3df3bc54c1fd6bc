// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Recorders, and the files of out-of-memory errors. */
final class RecorderTest {
  private static final long MIB = 1 << 20;

  @TempDir
  Path folder;

  private Sim sim;
  private Allocator allocator;

  @BeforeEach
  void open() {
    sim = Sim.create(1 << 30);
    allocator = Allocator.builder().driver(sim).options("").build();
  }

  @AfterEach
  void close() {
    allocator.closeAll();
    sim.close();
  }

  /** A block with a label, beside one that is live already. */
  private void record(RecorderOptions options) {
    try (Block live = allocator.allocate(1000, 0, 0); Recorder recorder = allocator.record(options)) {
      try (Label label = Label.push("model"); Block block = allocator.allocate(3 * MIB, 0, 0)) {
        assertEquals(3 * MIB, block.info().requested());
      }
      recorder.flush();
      RecorderStats stats = recorder.stats();
      assertTrue(stats.events() >= 5 && stats.lost() == 0 && stats.bytes() > 0, stats::toString);
      recorder.close();
      assertThrows(IllegalStateException.class, recorder::stats);
    }
  }

  private static void assertRecorded(InputStream text) throws IOException {
    try (Trace trace = Trace.read(text)) {
      TraceInfo info = trace.info();
      assertEquals("test", info.workload());
      assertEquals(Action.LIVE_AT_BEGIN, trace.event(0).action());
      TraceEvent last = trace.event(info.eventCount() - 1);
      assertEquals(Action.RECORDING_END, last.action());
      assertEquals(0, last.size());
      for (long i = 0; i < info.eventCount(); i++) {
        TraceEvent event = trace.event(i);
        if (event.action() == Action.ALLOC) {
          assertEquals("model", trace.contextText(event.context()));
        }
      }
      assertEquals("", trace.contextText(77));
    }
  }

  @Test
  void aRecorderWritesToAFile() throws IOException {
    Path path = folder.resolve("run");
    record(RecorderOptions.toFile(path).workload("test"));
    assertRecorded(Files.newInputStream(path));
    try (Recorder second = allocator.record(RecorderOptions.toFile(path).contexts(RecordedContexts.NONE))) {
      assertEquals(path + ".2", second.path());
    }
    RecorderOptions nowhere = RecorderOptions.toFile(folder.resolve("no/such"));
    assertThrows(CachalotException.class, () -> allocator.record(nowhere));
    RecorderOptions tooSmall = RecorderOptions.toFile(path).maxBytes(5);
    assertThrows(IllegalArgumentException.class, () -> allocator.record(tooSmall));
  }

  @Test
  void aRecorderWritesToAStream() throws IOException {
    ByteArrayOutputStream stream = new ByteArrayOutputStream();
    record(RecorderOptions.toStream(stream).workload("test"));
    assertRecorded(new ByteArrayInputStream(stream.toByteArray()));
  }

  @Test
  void anOutOfMemoryErrorLeavesItsFiles() throws IOException {
    allocator.dumpOutOfMemory(folder, 100);
    assertThrows(OutOfDeviceMemoryException.class, () -> allocator.allocate(1L << 40, 0, 0));
    allocator.dumpNoOutOfMemory();
    assertThrows(OutOfDeviceMemoryException.class, () -> allocator.allocate(1L << 40, 0, 0));
    try (Stream<Path> files = Files.list(folder)) {
      assertEquals(4, files.count());
    }
    assertThrows(CachalotException.class, () -> allocator.dumpOutOfMemory(folder.resolve("none"), 0));
  }
}
