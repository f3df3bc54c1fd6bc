// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot.golden;

import io.cachalot.DriverException;
import io.cachalot.OutOfDeviceMemoryException;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * Whether the library's lines are those of PyTorch.
 *
 * <p>Contexts are numbers of script lines: the files count the lines of the script, the library those of the file's
 * operations. What is left out stands at the top, so the two differ by a constant, which the first pair tells.
 */
final class Comparison {
  /** A line of the library; a failure keeps its kind apart from its text. */
  record Line(String text, RuntimeException failure, boolean atInit) {
    static Line of(String text) {
      return new Line(text, null, false);
    }
  }

  /** How texts of errors are compared: all lines of them, or only their kind, where PyTorch's text cannot be had. */
  record Rules(boolean wholeText, boolean kindOnly) {}

  private static final Pattern CONTEXT = Pattern.compile("(# (?:trace|seg|blk|context) .*?)? line (\\d+)(.*)");
  private static final String OWN_LINE = "\ncachalot: ";
  private Long leftOut;
  /** The library's descriptors of those of the file. */
  private final Map<Integer, Integer> descriptors = new HashMap<>();

  /** The first line that differs, is missing or is one too many; -1: none. */
  int firstDifference(List<String> expected, List<Line> actual, Rules rules) {
    int both = Math.min(expected.size(), actual.size());
    for (int i = 0; i < both; i++) {
      if (!equal(Pinned.asSimPrints(expected.get(i)), actual.get(i), rules)) {
        return i;
      }
    }
    return expected.size() == actual.size() ? -1 : both;
  }

  private boolean equal(String expected, Line actual, Rules rules) {
    if (actual.failure != null) {
      return expected.startsWith("E ") && equalErrors(expected.substring(2), actual, rules);
    }
    if (expected.startsWith(Sharing.LINE)) {
      return Sharing.equal(expected, actual.text, descriptors);
    }
    if (expected.equals(actual.text)) {
      return !expected.startsWith("#") || !CONTEXT.matcher(expected).matches() || sameContext(expected, actual.text);
    }
    return expected.startsWith("#") && sameContext(expected, actual.text);
  }

  private boolean sameContext(String expected, String actual) {
    Matcher wanted = CONTEXT.matcher(cut(expected));
    Matcher found = CONTEXT.matcher(cut(actual));
    if (!wanted.matches() || !found.matches() || !Objects.equals(wanted.group(1), found.group(1))
        || !wanted.group(3).equals(found.group(3))) {
      return false;
    }
    long difference = Long.parseLong(wanted.group(2)) - Long.parseLong(found.group(2));
    if (leftOut == null) {
      leftOut = difference;
    }
    return difference >= 0 && leftOut == difference;
  }

  /** "# context line 7" has nothing between its word and " line". */
  private static String cut(String line) {
    return line.replaceFirst("^# context line", "# context  line");
  }

  private static boolean accepts(String kind, String text, RuntimeException failure) {
    boolean isArgument = failure instanceof IllegalArgumentException;
    switch (kind) {
      case "oom":
        return failure instanceof OutOfDeviceMemoryException;
      case "accelerator":
        return failure instanceof DriverException;
      case "not_implemented":
        return failure instanceof UnsupportedOperationException;
      case "value":
      case "index":
      case "type":
      case "invalid_argument":
      case "out_of_range":
        return isArgument;
      case "error":
        if (text.startsWith("CUDA driver error")) {
          return failure instanceof DriverException;
        }
        if (text.contains("does not yet support") || text.startsWith("Calling snapshot")) {
          return failure instanceof UnsupportedOperationException;
        }
        return isArgument || failure instanceof IllegalStateException;
      default:
        return false;
    }
  }

  private static boolean equalErrors(String line, Line actual, Rules rules) {
    boolean atInit = line.startsWith("init ");
    String[] parts = (atInit ? line.substring("init ".length()) : line).split(" ", 2);
    String kind = parts[0];
    String text = parts.length > 1 ? parts[1] : "";
    if (actual.atInit != atInit || !accepts(kind, text, actual.failure)) {
      return false;
    }
    if (rules.kindOnly || text.contains("INTERNAL ASSERT FAILED")) {
      return true;
    }
    String message = actual.failure.getMessage();
    // Behind PyTorch's text the library puts a line of its own.
    if (text.startsWith("CUDA out of memory. ")
        && !text.equals("CUDA out of memory. Tried to allocate more than 1EB memory.")) {
      int own = message.lastIndexOf(OWN_LINE);
      if (own < 0 || own + OWN_LINE.length() == message.length()
          || message.indexOf('\n', own + OWN_LINE.length()) >= 0) {
        return false;
      }
      message = message.substring(0, own);
    }
    message = rules.wholeText ? message.replace("\n", "\\n") : message.split("\n", 2)[0];
    if (kind.equals("accelerator")) {
      // "sim" knows the driver's texts of three codes that the runtime of the files has none for.
      message = message.replace("operation not permitted", "error").replace("operation not supported", "error")
          .replace("invalid resource handle", "error");
    }
    if (kind.equals("accelerator") || text.startsWith("CUDA driver error")) {
      return message.split("\\\\n", 2)[0].equals(text.split("\\\\n", 2)[0]);
    }
    return message.equals(text);
  }
}
