// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot.golden;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.cachalot.Release;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;

/**
 * What PyTorch's own allocator did, line for line: recorded scripts are replayed through the public classes over the
 * {@code sim} driver, which hands out the recorded addresses, and every T, D, R, E, = and # line must be equal.
 * tests/oracle/FORMAT.md describes the files.
 *
 * <p>{@code CACHALOT_GOLDEN_DIR} names the place of tests/golden; with {@code CACHALOT_GOLDEN_ALL=1} all files are
 * replayed but those of a process's environment, which is not the test's to change.
 */
final class GoldenTest {
  /**
   * One a profile, the five cases that reach the most of the interface, two files each of pinned memory and of
   * checkpoints, and five of memory between processes: those of the Rust binding.
   */
  private static final List<String> CHOSEN_2_11 = List.of(
      "09-everything-195",
      "11-large-223",
      "03-streams-67",
      "12-limit_record-250",
      "10-record-208",
      "08-settings-174",
      "13-limit-269",
      "16-small-322",
      "17-mixed-341",
      "05-training-105",
      "06-edge-124",
      "20-serving-406",
      "07-oom-151",
      "18-fail-372",
      "09-pools-193",
      "cases/contexts",
      "cases/callback",
      "cases/fallback-pools",
      "cases/e08-capture-reuse",
      "cases/e16-async-backend",
      "pinned-07-reserve-203",
      "pinned-15-captures-207",
      "checkpoints-06-streams-107",
      "checkpoints-17-options-116",
      "sharing-06-refused-137",
      "sharing-11-peers-141",
      "cases/sharing-pages",
      "cases/sharing-fabric",
      "cases/sharing-forged");

  /** The same of release 2.15; its cases are of what is new in it. */
  private static final List<String> CHOSEN_2_15 = List.of(
      "13-everything-20275",
      "17-large-20343",
      "09-streams-20187",
      "14-limit_record-20290",
      "16-record-20328",
      "10-settings-20214",
      "11-limit-20229",
      "26-small-20522",
      "15-mixed-20301",
      "19-training-20385",
      "20-edge-20404",
      "18-serving-20366",
      "21-oom-20431",
      "24-fail-20492",
      "23-pools-20473",
      "cases/r50-at-an-address",
      "cases/r65-reserve",
      "cases/r31-rejection",
      "cases/e08-capture-reuse",
      "cases/r70-async",
      "pinned-07-reserve-203",
      "pinned-15-captures-207",
      "checkpoints-06-streams-107",
      "checkpoints-17-options-116",
      "sharing-06-refused-137",
      "sharing-11-peers-141",
      "cases/sharing-pages",
      "cases/r60-fabric",
      "cases/r61-forged");

  private static Path folder(Release release) {
    String folder = System.getenv("CACHALOT_GOLDEN_DIR");
    return Path.of(folder == null || folder.isEmpty() ? "../../tests/golden" : folder, release.toString());
  }

  private static Stream<DynamicTest> replays(Release release, List<String> chosen) throws IOException {
    Stream<Path> files = chosen.stream().map(name -> folder(release).resolve(name + ".txt.gz"));
    if (System.getenv("CACHALOT_GOLDEN_ALL") != null) {
      try (Stream<Path> all = Files.walk(folder(release))) {
        files = all.filter(path -> path.toString().endsWith(".gz") && isBuilt(path)).sorted().toList().stream();
      }
    }
    return files.map(path -> DynamicTest.dynamicTest(path.getFileName().toString(),
        () -> assertTrue(Script.replay(Operation.parse(Operation.text(path)), release) > 0)));
  }

  private static boolean isBuilt(Path path) {
    try {
      return Operation.parse(Operation.text(path)).stream()
          .noneMatch(operation -> Script.UNBUILT.contains(operation.word()));
    } catch (IOException unreadable) {
      throw new AssertionError(unreadable);
    }
  }

  @TestFactory
  Stream<DynamicTest> release211() throws IOException {
    return replays(Release.V2_11, CHOSEN_2_11);
  }

  @TestFactory
  Stream<DynamicTest> release215() throws IOException {
    return replays(Release.V2_15, CHOSEN_2_15);
  }

  /** A comparison that finds nothing proves nothing: the last line of each kind, changed, is found. */
  @Test
  void aChangedLineIsFound() throws IOException {
    Map<String, List<String>> kinds = Map.of(
        "06-serving-126", List.of("T alloc ", "D malloc ", "R ", "= allocated_bytes.all ", "# blk "),
        "pinned-07-reserve-203", List.of("D host_alloc ", "R ", "# known", "= host_allocations "),
        "cases/checkpoint", List.of("X freed ", "X created ", "T alloc "),
        "cases/sharing-pages", List.of(Sharing.LINE, "# imported ", "D export ", "D import "),
        "cases/sharing-forged", List.of("E error ", "# imported "));
    for (String name : kinds.keySet()) {
      String text = Operation.text(folder(Release.V2_11).resolve(name + ".txt.gz"));
      for (String start : kinds.get(name)) {
        List<Operation> changed = Operation.parse(changeLast(text, start));
        assertThrows(AssertionError.class, () -> Script.replay(changed, Release.V2_11),
            name + ": " + start + " was not looked at");
      }
    }
  }

  private static String changeLast(String text, String start) {
    int place = text.lastIndexOf("\n " + start) + 1;
    assertFalse(place == 0, start + " does not occur");
    int end = text.indexOf('\n', place);
    String line = text.substring(place, end);
    String changed = line + "0";
    if (start.equals(Sharing.LINE)) {  // The last descriptor becomes the first one of the file.
      changed = line.substring(0, line.length() - 8) + "85030000";
    } else if (start.startsWith("D ")) {  // An address's last digit would also be what the device is told to give.
      changed = line.replace(line.split(" ")[3], "512");
    }
    return text.substring(0, place) + changed + text.substring(end);
  }

  @Test
  void numbersArePrintedAsCDoes() {
    assertEquals("0", Answers.allDigits(0));
    assertEquals("1", Answers.allDigits(1));
    assertEquals("0.5", Answers.allDigits(0.5));
    assertEquals("0.80000000000000004", Answers.allDigits(0.8));
    assertEquals("1.0000000000000001e-05", Answers.allDigits(0.00001));
    assertEquals("123456789", Answers.allDigits(123456789));
  }
}
