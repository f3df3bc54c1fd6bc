// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot.bench;

import io.cachalot.Allocator;
import io.cachalot.Block;
import io.cachalot.Sim;
import io.cachalot.raw.Constants;
import io.cachalot.raw.Memory;
import io.cachalot.raw.Native;
import java.nio.ByteBuffer;
import java.util.concurrent.TimeUnit;
import org.openjdk.jmh.annotations.Benchmark;
import org.openjdk.jmh.annotations.BenchmarkMode;
import org.openjdk.jmh.annotations.Fork;
import org.openjdk.jmh.annotations.Measurement;
import org.openjdk.jmh.annotations.Mode;
import org.openjdk.jmh.annotations.OperationsPerInvocation;
import org.openjdk.jmh.annotations.OutputTimeUnit;
import org.openjdk.jmh.annotations.Param;
import org.openjdk.jmh.annotations.Scope;
import org.openjdk.jmh.annotations.Setup;
import org.openjdk.jmh.annotations.State;
import org.openjdk.jmh.annotations.TearDown;
import org.openjdk.jmh.annotations.Warmup;

/** What an allocation and its free cost on a hit, beside the same in C and a native call that does nothing. */
@State(Scope.Thread)
@BenchmarkMode(Mode.AverageTime)
@OutputTimeUnit(TimeUnit.NANOSECONDS)
@Warmup(iterations = 3, time = 1)
@Measurement(iterations = 5, time = 1)
@Fork(2)
public class PairBenchmark {
  private static final int PAIRS = 1000;

  /** Bytes. */
  @Param({"4096", "4194304"})
  public long size;

  private Sim sim;
  private Allocator allocator;
  private long handle;
  private Memory memory;
  private ByteBuffer out;
  private long outAddress;

  /** For the JMH. */
  public PairBenchmark() {}

  /** A function that does nothing. */
  public static native void empty();

  /** Pairs in C. */
  public static native int pairs(long allocator, long size, int count);

  /** An allocator that has a block of this size in its cache. */
  @Setup
  public void open() {
    sim = Sim.create(0);
    allocator = Allocator.builder().driver(sim).options("").build();
    System.load(System.getProperty("bench.library"));
    handle = allocator.handle();
    memory = new Memory();
    out = memory.allocate(Long.BYTES);
    outAddress = Memory.addressOf(out);
    allocator.allocate(size).close();
  }

  /** Ends it; blocks that wait for the collector go, too. */
  @TearDown
  public void close() {
    allocator.closeAll();
    sim.close();
    memory.close();
  }

  /** A native call. */
  @Benchmark
  public void emptyCall() {
    empty();
  }

  /** The pair in C. */
  @Benchmark
  @OperationsPerInvocation(PAIRS)
  public void pairInC() {
    must(pairs(handle, size, PAIRS));
  }

  /** The pair by the low layer. */
  @Benchmark
  public void pairOfNativeCalls() {
    must(Native.allocate(handle, size, 0, 0, outAddress, 0));
    must(Native.free(handle, out.getLong(0), 0));
  }

  /** The pair without an owner. */
  @Benchmark
  public void pairUnowned() {
    allocator.free(allocator.allocateUnowned(size, 0, 0));
  }

  /** The pair as a block that is closed. */
  @Benchmark
  public void pairAsBlock() {
    try (Block block = allocator.allocate(size, 0, 0)) {
      assert block.address() != 0;
    }
  }

  private static void must(int status) {
    if (status != Constants.OK) {
      throw new IllegalStateException(Integer.toString(status));
    }
  }
}
