// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot.golden;

import io.cachalot.Block;
import io.cachalot.OpenedMemory;
import io.cachalot.SharedHandle;
import io.cachalot.SimCall;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.EnumSet;
import java.util.HashMap;
import java.util.HashSet;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Set;

/**
 * The words of memory between processes; both ends are this process.
 *
 * <p>The descriptors of {@code sim} are the system's, so their numbers are not those of the file: each of the file
 * stands for one of the library's.
 */
final class Sharing {
  static final String LINE = "# share ";
  private static final Set<SimCall> OPENING = EnumSet.of(SimCall.IMPORT);
  private static final int NOT_SUPPORTED = 801;

  private final Script script;
  private final Map<Long, OpenedMemory> opened = new HashMap<>();
  /** Shared memory can be opened. */
  private boolean works;

  Sharing(Script script) {
    this.script = script;
  }

  void run(String word, Words words) {
    if (word.equals("sharing")) {
      works = words.number() != 0;
      return;
    }
    long id = words.signed();
    switch (word) {
      case "share" -> {
        SharedHandle shared = share(id);
        if (shared != null) {
          script.answer("share " + shared.offset() + " " + HexFormat.of().formatHex(shared.handle()));
        }
      }
      case "import" -> {
        SharedHandle shared = share(id);
        if (shared != null) {
          open(id, shared.handle());
        }
      }
      case "open" -> open(id, HexFormat.of().parseHex(words.rest()));
      default -> close(id);
    }
  }

  private SharedHandle share(long id) {
    Block block = script.live.get(id);
    return block == null ? null : script.worked(() -> script.allocator.share(block.address()));
  }

  /** Of an id that has one open already the new one comes first, as in the oracle. */
  private void open(long id, byte[] bytes) {
    if (!works) {
      refuse(bytes);
    }
    OpenedMemory memory =
        script.worked(() -> script.allocator.openShared(Operations.DEVICE, new SharedHandle(bytes, 0)));
    script.failures.order(OPENING, 0, 0, 0);
    if (memory == null) {
      return;
    }
    close(id);
    opened.put(id, memory);
    script.answer("imported " + Long.toHexString(memory.address()));
  }

  private void close(long id) {
    OpenedMemory memory = opened.remove(id);
    if (memory != null) {
      script.did(memory::close);
    }
  }

  void closeAll() {
    opened.values().forEach(OpenedMemory::close);
  }

  /** The script's device knows no segments and has no descriptors: here they cannot be opened either. */
  private void refuse(byte[] bytes) {
    Handles handles = Handles.of(bytes);
    if (handles == null) {
      script.failures.order(OPENING, NOT_SUPPORTED, 0, 1);
    } else if (handles.areDescriptors) {
      ByteBuffer descriptors = pytorchs(bytes);
      for (int at = handles.begin; at < bytes.length; at += Integer.BYTES) {
        descriptors.putInt(at, Integer.MAX_VALUE);
      }
    }
  }

  // ---- PyTorch's bytes --------------------------------------------------------------------------

  private static ByteBuffer pytorchs(byte[] bytes) {
    return ByteBuffer.wrap(bytes).order(ByteOrder.nativeOrder());
  }

  /** Where those of pages begin. */
  private record Handles(int begin, boolean areDescriptors) {
    private static final int HEADER = 26;
    private static final int WITH_KIND = 34;

    /**
     * Of a version, a kind, the process, padding, the bytes of a page, the number of pages, and from version 3 on the
     * kind of their handles and padding; null for a segment's handle.
     */
    static Handles of(byte[] bytes) {
      if (bytes.length < HEADER || bytes.length == 64 || bytes[1] != 'e') {
        return null;
      }
      if (bytes[0] >= 3 && bytes.length >= WITH_KIND) {
        return new Handles(WITH_KIND, pytorchs(bytes).getInt(HEADER) == 1);
      }
      long pages = pytorchs(bytes).getLong(HEADER - Long.BYTES);
      return new Handles(HEADER, bytes.length - HEADER == Integer.BYTES * pages);
    }
  }

  /**
   * A line cut at what differs from run to run: the process, padding that PyTorch leaves as it finds it, and
   * descriptors.
   */
  private record Cut(String constant, List<Integer> descriptors) {
    static Cut of(String line) {
      String[] parts = line.substring(LINE.length()).split(" ");
      byte[] bytes = HexFormat.of().parseHex(parts[1]);
      Handles handles = Handles.of(bytes);
      List<Integer> descriptors = new ArrayList<>();
      if (handles != null) {
        Arrays.fill(bytes, 2, 10, (byte) 0);
        Arrays.fill(bytes, Math.min(30, handles.begin), handles.begin, (byte) 0);
      }
      int end = handles != null && handles.areDescriptors ? handles.begin : bytes.length;
      for (int at = end; at < bytes.length; at += Integer.BYTES) {
        descriptors.add(pytorchs(bytes).getInt(at));
      }
      return new Cut(parts[0] + " " + Arrays.toString(Arrays.copyOf(bytes, end)), descriptors);
    }
  }

  /** Whether two lines are the same, and their descriptors those that stood for each other before. */
  static boolean equal(String expected, String actual, Map<Integer, Integer> known) {
    if (!actual.startsWith(LINE)) {
      return false;
    }
    Cut wanted = Cut.of(expected);
    Cut found = Cut.of(actual);
    if (!wanted.constant.equals(found.constant) || wanted.descriptors.size() != found.descriptors.size()) {
      return false;
    }
    for (int i = 0; i < wanted.descriptors.size(); i++) {
      Integer ours = found.descriptors.get(i);
      Integer before = known.putIfAbsent(wanted.descriptors.get(i), ours);
      if (before != null && !before.equals(ours)) {
        return false;
      }
    }
    return new HashSet<>(found.descriptors).size() == found.descriptors.size();
  }
}
