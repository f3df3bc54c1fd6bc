// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot.server;

import ai.onnxruntime.OnnxTensor;
import ai.onnxruntime.OrtEnvironment;
import ai.onnxruntime.OrtException;
import ai.onnxruntime.OrtSession;
import io.cachalot.Tenant;
import io.cachalot.TenantOptions;
import io.cachalot.TenantScope;
import java.io.IOException;
import java.nio.FloatBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import java.util.concurrent.locks.Lock;
import java.util.concurrent.locks.ReadWriteLock;

/**
 * The sessions of one model. They are made when they are needed, and idle ones are closed when a request for memory
 * finds none. A run that finds none even so is repeated alone.
 */
final class Pool {
  private final OrtEnvironment environment;
  /** Held by each run of any model; for writing by one that needs all the memory there is. */
  private final ReadWriteLock turn;
  private final Path path;
  private final Shelf shelf;
  private final Tenant tenant;

  /** Looks at a model's only output. */
  @FunctionalInterface
  interface Look<R> {
    R at(long[] shape, FloatBuffer values);
  }

  Pool(OrtEnvironment environment, String name, Settings settings, Memory memory, ReadWriteLock turn)
      throws IOException {
    this.environment = environment;
    this.turn = turn;
    path = settings.models().resolve(name + ".onnx");
    shelf = new Shelf(settings.sessions(), Files.size(path));
    tenant = memory.createTenant(new TenantOptions(name).onPressure(pressure -> shelf.evict()));
  }

  /**
   * Runs the model and looks at its only output. Without memory it waits for all other runs to end, and tries once
   * more.
   */
  <R> R run(FloatBuffer planes, int width, int height, Look<R> look) throws ExhaustedException, OrtException {
    long[] shape = {1, 3, height, width};
    try {
      return runUnder(turn.readLock(), shape, planes, look);
    } catch (ExhaustedException once) {
      return runUnder(turn.writeLock(), shape, planes, look);
    }
  }

  private <R> R runUnder(Lock lock, long[] shape, FloatBuffer planes, Look<R> look)
      throws ExhaustedException, OrtException {
    lock.lock();
    try (TenantScope scope = tenant.enter()) {
      // All that ONNX Runtime asks for on this thread is this tenant's, until the end of the output.
      Registration.forgetFailure();
      return runOnce(shape, planes, look);
    } finally {
      lock.unlock();
    }
  }

  private <R> R runOnce(long[] shape, FloatBuffer planes, Look<R> look) throws ExhaustedException, OrtException {
    try (Shelf.Lent lent = shelf.lend(this::make);
        OnnxTensor input = OnnxTensor.createTensor(environment, planes, shape);
        OrtSession.Result outputs = lent.session().run(Map.of("x", input))) {
      OnnxTensor output = (OnnxTensor) outputs.get(0);
      return look.at(output.getInfo().getShape(), output.getFloatBuffer());
    } catch (OrtException failed) {
      ExhaustedException exhausted = Registration.lastFailure();
      if (exhausted == null) {
        throw failed;
      }
      throw exhausted;
    }
  }

  /** A text of the model's metadata, of which a session is made: so what cannot be used is found at the start. */
  String metadata(String key) throws IOException, OrtException {
    try (TenantScope scope = tenant.enter(); Shelf.Lent lent = shelf.lend(this::make)) {
      String text = Metadata.of(path).get(key);
      if (text == null) {
        throw new IllegalArgumentException(path + ": no metadata '" + key + "'");
      }
      return text;
    }
  }

  Shelf.Counts counts() {
    return shelf.counts();
  }

  /** Closes all sessions and ends the tenant. None may be in use. */
  void close() {
    shelf.evict();
    tenant.close();
  }

  private OrtSession make() throws OrtException {
    try (OrtSession.SessionOptions options = new OrtSession.SessionOptions()) {
      options.setOptimizationLevel(OrtSession.SessionOptions.OptLevel.ALL_OPT);
      options.setIntraOpNumThreads(1);
      options.setExecutionMode(OrtSession.SessionOptions.ExecutionMode.SEQUENTIAL);
      options.setMemoryPatternOptimization(false);
      options.addConfigEntry("session.use_env_allocators", "1");
      options.addConfigEntry("session.use_device_allocator_for_initializers", "1");
      return environment.createSession(path.toString(), options);
    }
  }
}
