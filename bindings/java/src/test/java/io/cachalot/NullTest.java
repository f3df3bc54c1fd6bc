// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.InputStream;
import java.io.OutputStream;
import java.lang.reflect.Constructor;
import java.lang.reflect.Executable;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.lang.reflect.Parameter;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.EnumSet;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.OptionalLong;
import java.util.Set;
import java.util.function.LongFunction;
import java.util.function.LongPredicate;
import java.util.function.LongSupplier;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** Null for each reference parameter of each public method: its name is said, and nothing has changed. */
final class NullTest {
  /** Null means something there. */
  private static final Set<String> MAY_BE_NULL =
      Set.of("Driver.open name", "Cachalot.setMetadata text", "Trace.write stats");

  private final Map<Class<?>, Object> values = new HashMap<>();
  private final List<Throwable> uncaught = new ArrayList<>();
  private Sim sim;
  private Allocator allocator;
  private Snapshot snapshot;
  private Trace trace;
  private Pool pool;

  @BeforeEach
  void open() throws Exception {
    sim = Sim.create(1 << 30);
    allocator = Allocator.builder().driver(sim).options("").build();
    allocator.recordHistory(HistoryOptions.recording(10));
    allocator.allocate(1).close();
    pool = allocator.createPool(0, new PoolOptions());
    snapshot = allocator.snapshot();
    ByteArrayOutputStream file = new ByteArrayOutputStream();
    Trace.write(snapshot, null, "", file);
    trace = Trace.read(new ByteArrayInputStream(file.toByteArray()));
    Thread.currentThread().setUncaughtExceptionHandler((thread, thrown) -> uncaught.add(thrown));
    for (Object each : List.of(sim, allocator, snapshot, trace, pool, pool.key(),
        allocator.pinnedPool(PoolId.DEFAULT), allocator.settings(),
        allocator.settings().toBuilder(), allocator.stats(0), Allocator.builder(), Options.builder(),
        Options.parse(""), new PoolOptions(), new ReplayOptions(), new ReportOptions(0), new Request(1),
        new SnapshotOptions(), new TenantOptions(""), HistoryOptions.off(), Route.none(), PoolId.DEFAULT,
        new SharedHandle(new byte[0], 0), Policy.PYTORCH, Policy.serving(), Path.of("/dev/null"), "", "more", OptionalLong.empty(), Duration.ZERO,
        new long[0], Release.V2_15)) {
      values.put(each.getClass(), each);
    }
    values.put(Driver.class, sim);
    values.put(Object.class, "");
    values.put(Set.class, EnumSet.noneOf(SimCall.class));
    values.put(Map.class, Map.of());
    values.put(List.class, List.of());
    values.put(DebugOption[].class, new DebugOption[0]);
    values.put(PoolFlag[].class, new PoolFlag[0]);
    values.put(InputStream.class, InputStream.nullInputStream());
    values.put(OutputStream.class, OutputStream.nullOutputStream());
    values.put(LongSupplier.class, (LongSupplier) () -> 0);
    values.put(LongFunction.class, (LongFunction<String>) context -> "");
    values.put(LongPredicate.class, (LongPredicate) stream -> true);
  }

  @AfterEach
  void close() {
    Thread.currentThread().setUncaughtExceptionHandler(null);
    trace.close();
    snapshot.close();
    allocator.closeAll();
    sim.close();
  }

  /** What calls with null must not change. */
  private String state() {
    return allocator.stats(0) + " " + allocator.options() + " " + allocator.memoryLimit(0) + " "
        + allocator.poolStats(0) + " " + allocator.tenantStats(0) + " " + pool.key().useCount() + " "
        + allocator.history(0).stream().filter(entry -> entry.action() != Action.SNAPSHOT).toList();
  }

  private Object valueFor(Class<?> type) {
    if (type == boolean.class) {
      return false;
    } else if (type == int.class) {
      return 0;
    } else if (type == long.class) {
      return 0L;
    } else if (type == double.class) {
      return 0.5;
    } else if (type.isEnum()) {
      return type.getEnumConstants()[0];
    }
    return values.get(type);
  }

  /** Calls it with null for one parameter and something sound for the others; what is wrong then. */
  private String callWithNull(Executable called, Object target, int which) throws Exception {
    Parameter[] parameters = called.getParameters();
    Object[] arguments = new Object[parameters.length];
    for (int i = 0; i < arguments.length; i++) {
      arguments[i] = i == which ? null : valueFor(parameters[i].getType());
    }
    String name = called.getDeclaringClass().getSimpleName() + "." + called.getName() + " "
        + parameters[which].getName();
    if (MAY_BE_NULL.contains(name)) {
      return null;
    }
    try {
      if (called instanceof Method) {
        ((Method) called).invoke(target, arguments);
      } else {
        ((Constructor<?>) called).newInstance(arguments);
      }
    } catch (InvocationTargetException thrown) {
      Throwable cause = thrown.getCause();
      boolean isRight = cause instanceof NullPointerException && parameters[which].getName().equals(cause.getMessage());
      return isRight ? null : name + ": " + cause;
    }
    return name + ": accepted";
  }

  private List<String> callAllWithNull(Class<?> type) throws Exception {
    List<Executable> all = new ArrayList<>(List.of(type.getMethods()));
    // The statistics are what the library says; those of the program's own making fail where they are read.
    all.addAll(type == Stats.class ? List.of() : List.of(type.getConstructors()));
    List<String> wrong = new ArrayList<>();
    for (Executable each : all) {
      boolean isOurs = each.getDeclaringClass().getPackage() == Allocator.class.getPackage();
      for (int i = 0; i < each.getParameterCount(); i++) {
        if (isOurs && !each.getName().equals("equals") && !each.getParameterTypes()[i].isPrimitive()) {
          Object target = Modifier.isStatic(each.getModifiers()) ? null : values.get(type);
          String found = callWithNull(each, target, i);
          if (found != null) {
            wrong.add(found);
          }
        }
      }
    }
    return wrong;
  }

  @Test
  void nullIsRefusedByName() throws Exception {
    String before = state();
    List<String> wrong = new ArrayList<>();
    for (Class<?> type : List.of(Allocator.class, AllocatorBuilder.class, Cachalot.class, Driver.class,
        HistoryOptions.class, Options.class, Options.Builder.class, Policy.class, Policy.Builder.class, Pool.class,
        PinnedPoolKey.class, PoolKey.class, PoolOptions.class,
        ReplayOptions.class, ReportOptions.class, Request.class, Route.class, Settings.Builder.class,
        SharedHandle.class, Sim.class, SnapshotOptions.class, Stats.class, TenantOptions.class, Trace.class)) {
      assertTrue(Modifier.isStatic(type.getModifiers()) || values.containsKey(type) || type == Cachalot.class,
          () -> "no object of " + type);
      wrong.addAll(callAllWithNull(type));
    }
    assertEquals(List.of(), wrong);
    assertEquals(before, state());
    assertNotNull(allocator.allocate(1));
    assertEquals(List.of(), uncaught);
  }
}
