// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot.golden;

import io.cachalot.Block;
import io.cachalot.Checkpoint;
import io.cachalot.CheckpointBlock;
import io.cachalot.CheckpointChanges;
import io.cachalot.PoolKey;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/**
 * The words of checkpoints.
 *
 * <p>PyTorch frees blocks and puts segments back in the order of a table of pointers, which differs from run to run. So
 * the expected lines say the order, and the library is given it.
 */
final class Checkpoints {
  private final Script script;
  private final Map<String, Checkpoint> taken = new HashMap<>();

  Checkpoints(Script script) {
    this.script = script;
  }

  void take(Words words) {
    String name = words.word();
    PoolKey key = script.allocator.pool(Operations.DEVICE, words.pool());
    Checkpoint checkpoint = script.worked(key::checkpoint);
    if (checkpoint != null) {
      taken.put(name, checkpoint);
    }
  }

  void restore(Words words) {
    Checkpoint checkpoint = taken.get(words.word());
    if (checkpoint == null) {
      script.isOperationExempt = true;  // It could not be taken. The oracle has an error of its own.
      return;
    }
    List<Long> freed = freeAsExpected();
    PoolKey key = script.allocator.pool(Operations.DEVICE, checkpoint.pool());
    CheckpointChanges changes = script.worked(() -> key.apply(inExpectedOrder(checkpoint)));
    if (changes == null) {
      return;
    }
    freed.addAll(changes.freed());
    for (long address : freed) {
      script.add("X freed " + Long.toHexString(address));
      giveUp(address);
    }
    long id = words.signed();
    for (long address : changes.created()) {
      script.add("X created " + Long.toHexString(address));
      script.live.put(id, script.allocator.adopt(address));
      script.last.put(id, address);
      id++;
    }
  }

  /** PyTorch's restore begins with the frees of all blocks of the pool. */
  private List<Long> freeAsExpected() {
    List<Long> freed = new ArrayList<>();
    for (long address : script.expectedAddresses("T free_requested ", "T alloc ")) {
      for (Map.Entry<Long, Block> each : script.live.entrySet()) {
        if (each.getValue().address() == address) {
          script.freeLive(each.getKey());
          freed.add(address);
          break;
        }
      }
    }
    return freed;
  }

  /** A restore frees blocks whoever has them. */
  private void giveUp(long address) {
    script.live.values().removeIf(block -> block.address() == address && block.leak() == address);
  }

  /**
   * Segments by the hand-outs of their first blocks, and behind them the one that was not found. Those of which nothing
   * is expected come last.
   */
  private Checkpoint inExpectedOrder(Checkpoint checkpoint) {
    List<Long> order = script.expectedAddresses("T alloc ", null);
    order.addAll(script.expectedAddresses("E error  could not find ", null));
    Comparator<List<CheckpointBlock>> byPlace = Comparator.comparingInt(segment -> {
      int found = order.indexOf(segment.get(0).address());
      return found < 0 ? order.size() : found;
    });
    return new Checkpoint(checkpoint.pool(), checkpoint.segments().stream().sorted(byPlace).toList());
  }
}
