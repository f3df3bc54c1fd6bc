// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot.golden;

import io.cachalot.Action;
import io.cachalot.Allocator;
import io.cachalot.Block;
import io.cachalot.Cachalot;
import io.cachalot.HistoryOptions;
import io.cachalot.LogLevel;
import io.cachalot.Release;
import io.cachalot.Sim;
import io.cachalot.SimLog;
import io.cachalot.TraceEntry;
import io.cachalot.golden.Comparison.Line;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.EnumMap;
import java.util.EnumSet;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.Supplier;

/** A script under way: the allocator and the device that it runs on. */
final class Script implements AutoCloseable {
  static final Set<String> UNBUILT = Set.of("env");
  private static final Set<String> BEFORE_ALLOCATOR =
      Set.of("config", "device", "log", "fabric", "fabric_device", "sharing");

  private static final Map<Action, String> NAMES = new EnumMap<>(Action.class);

  static {
    for (Action each : Action.values()) {
      NAMES.put(each, each.text());
    }
  }

  Sim sim;
  int devices = 1;
  final Release release;
  private String config = "";
  Allocator allocator;
  private boolean isStarted;
  private List<Line> lines = new ArrayList<>();
  private final List<Line> rejections = new ArrayList<>();
  /** What the words of "log" switched on. */
  final Set<String> log = new HashSet<>();
  final EnumSet<SimLog> simLog = EnumSet.of(SimLog.CALLS, SimLog.QUERIES);
  private long operationNumber;
  long current;
  final Map<Long, Block> live = new HashMap<>();
  final Map<Long, Block> raw = new HashMap<>();
  /** The address that an id had last. */
  final Map<Long, Long> last = new HashMap<>();
  /** What the free-memory callback is to free. */
  final List<Long> armed = new ArrayList<>();
  final Pinned pinned = new Pinned(this);
  final Checkpoints checkpoints = new Checkpoints(this);
  final Sharing sharing = new Sharing(this);
  final Failures failures = new Failures(this);
  /** What PyTorch's allocator printed in the operation. */
  List<String> expected = List.of();
  boolean caching = true;
  /** What a pool's own source hands out, and how often it fails. */
  final Deque<Long> ownAddresses = new ArrayDeque<>();
  long ownFailures;
  long ownMadeUp;
  int fabricState;
  int fabricCode;
  /** The lines of the operation, or from it on all, cannot be compared on purpose. */
  boolean isOperationExempt;
  boolean isTextExempt;
  boolean isRestExempt;
  /** A defect of PyTorch that the library mends has just changed a decision. */
  private boolean isMended;

  private Script(Release release) {
    this.release = release;
  }

  /** How many lines were compared; a difference is an AssertionError. */
  static int replay(List<Operation> file, Release release) {
    for (Operation operation : file) {
      if (UNBUILT.contains(operation.word())) {
        throw new AssertionError("operation '" + operation.word() + "' is not built");
      }
    }
    try (Script script = new Script(release)) {
      script.setUp(file);
      return script.run(file);
    }
  }

  private void setUp(List<Operation> file) {
    long capacity = 80L << 30;
    for (Operation operation : file) {
      if (operation.word().equals("config")) {
        config = operation.line().length() > "config ".length() ? operation.line().substring("config ".length()) : "";
      } else if (operation.word().equals("device")) {
        String[] words = operation.line().split(" ");
        capacity = Long.parseLong(words[1]);
        devices = words.length > 3 ? Integer.parseInt(words[3]) : 1;
      }
    }
    sim = Sim.create(capacity, devices);
    sim.logCalls(simLog);
  }

  private int run(List<Operation> file) {
    Comparison comparison = new Comparison();
    int compared = 0;
    for (Operation operation : file) {
      operationNumber++;
      isOperationExempt = false;
      isTextExempt = false;
      expected = operation.expected();
      pinned.readRanges();
      sim.giveAddresses(0,
          recorded(operation.expected(), "D malloc ", "D reserve ", "D malloc_async ", "D ipc_open "));
      ownAddresses.clear();
      for (long address : recorded(operation.expected(), "D own_malloc ")) {
        ownAddresses.add(address);
      }
      if (BEFORE_ALLOCATOR.contains(operation.word()) || start()) {
        new Operations(this).run(operation);
      }
      List<Line> actual = end();
      if (isRestExempt || isMended) {
        break;
      }
      if (isOperationExempt) {
        continue;
      }
      Comparison.Rules rules = new Comparison.Rules(log.contains("whole_text"), isTextExempt);
      int first = comparison.firstDifference(operation.expected(), actual, rules);
      if (first >= 0) {
        throw new AssertionError(String.format("line %d: %s%n  expected %s%n  actual   %s", operation.number(),
            operation.line(), first < operation.expected().size() ? operation.expected().get(first) : "nothing",
            first < actual.size() ? actual.get(first) : "nothing"));
      }
      compared += actual.size();
    }
    return compared;
  }

  /** The addresses at the ends of lines such as "D malloc 512 7f0000000000". */
  private static long[] recorded(List<String> expected, String... starts) {
    return expected.stream()
        .filter(line -> List.of(starts).stream().anyMatch(line::startsWith))
        .filter(line -> !line.contains(" error ") && !line.endsWith(" oom") && !line.endsWith(" null"))
        .mapToLong(line -> Words.hex(line.substring(line.lastIndexOf(' ') + 1))).toArray();
  }

  /** Those behind lines that begin so, up to the first that begins as the other text; null: up to the end. */
  List<Long> expectedAddresses(String start, String until) {
    List<Long> addresses = new ArrayList<>();
    for (String line : expected) {
      if (until != null && line.startsWith(until)) {
        break;
      }
      if (line.startsWith(start)) {
        addresses.add(Words.hex(line.substring(start.length()).split(" ", 2)[0]));
      }
    }
    return addresses;
  }

  /** Makes the allocator, if there is none. False if that failed: then the script has ended. */
  private boolean start() {
    if (isStarted) {
      return allocator != null;
    }
    isStarted = true;
    Cachalot.setMetadata("");
    try {
      allocator = Allocator.builder().driver(sim).options(config).release(release).caching(true)
          .log((level, message) -> {
            isMended |= level == LogLevel.DIFFERENCE;
            if (level == LogLevel.WARNING) {
              add("W " + message.split("\n", 2)[0]);
            }
          })
          .contexts(() -> log.contains("context") ? operationNumber : 0, context -> "")
          .build();
    } catch (RuntimeException failure) {
      fail(failure, true);
      return false;
    }
    if (!isAsync()) {
      attach();
    }
    return true;
  }

  private void attach() {
    allocator.observeTrace(entry -> add("T " + text(entry) + metadataMarks(entry)));
    allocator.recordHistory(HistoryOptions.recording(1).clear(true));
    allocator.observeOutOfMemory(numbers -> {
      if (log.contains("observer")) {
        long limit = allocator.memoryLimit(numbers.device()).orElse(numbers.deviceTotal());
        add("O " + numbers.device() + " " + numbers.segmentSize() + " " + limit + " " + numbers.deviceFree());
      }
    });
    allocator.observeRejection(rejection -> {
      if (log.contains("rejection")) {
        rejections.add(Line.of("J " + rejection.device() + " " + rejection.segmentSize() + " "
            + rejection.reserved() + " " + rejection.deviceTotal()));
      }
    });
    allocator.onFreeMemory((device, size) -> {
      if (armed.isEmpty()) {
        return false;
      }
      List<Long> freed = List.copyOf(armed);
      armed.clear();
      add("C callback");
      freed.forEach(this::freeLive);
      return true;
    });
  }

  boolean isAsync() {
    return allocator.backend().equals("cudaMallocAsync");
  }

  // ---- Lines ------------------------------------------------------------------------------------

  private void takeCalls() {
    // The file has queries that fail, and others only where it asks for them. Of segments it has those that could be
    // opened.
    sim.readCalls().lines()
        .filter(call -> log.contains("query") || !call.startsWith("event_query ") || call.contains(" error "))
        .filter(call -> !call.startsWith("ipc_open error "))
        .forEach(call -> lines.add(Line.of("D " + call)));
  }

  /** Adds a line behind the device's calls that came before it. */
  void add(String line) {
    takeCalls();
    lines.add(Line.of(line));
  }

  void answer(String line) {
    add("# " + line);
  }

  private void fail(RuntimeException failure, boolean atInit) {
    takeCalls();
    lines.add(new Line(null, failure, atInit));
  }

  /** The value of a call; null if it failed, which is added. */
  <T> T worked(Supplier<T> call) {
    try {
      return call.get();
    } catch (RuntimeException failure) {
      fail(failure, false);
      return null;
    }
  }

  boolean did(Runnable call) {
    return worked(() -> {
      call.run();
      return true;
    }) != null;
  }

  private List<Line> end() {
    takeCalls();
    List<Line> ended = lines;
    ended.addAll(rejections);
    rejections.clear();
    lines = new ArrayList<>();
    return ended;
  }

  /** Frees a tensor's block; nothing if the id is not live. */
  void freeLive(long id) {
    Block block = live.remove(id);
    if (block != null) {
      did(() -> block.close(current));
    }
  }

  static String text(TraceEntry entry) {
    return NAMES.get(entry.action()) + " " + Long.toHexString(entry.address()) + " "
        + Long.toUnsignedString(entry.size()) + " " + Long.toHexString(entry.stream());
  }

  /** The texts behind a history entry that "log metadata" asks for. */
  String metadataMarks(TraceEntry entry) {
    if (!log.contains("metadata")) {
      return "";
    }
    return " metadata \"" + entry.metadata() + "\""
        + (release == Release.V2_15 ? " internal \"" + entry.internalMetadata() + "\"" : "")
        + " pool " + entry.pool().first() + "," + entry.pool().second();
  }

  @Override
  public void close() {
    failures.callOff();
    if (allocator != null) {
      sharing.closeAll();
      allocator.closeAll();
    }
    sim.close();
  }
}
