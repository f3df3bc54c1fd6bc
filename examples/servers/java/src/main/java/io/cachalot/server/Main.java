// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot.server;

import ai.onnxruntime.OrtEnvironment;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import java.util.logging.Level;
import java.util.logging.Logger;

/** An OCR server on ONNX Runtime, whose memory is cachalot's. {@code examples/servers/README.md} has its interface. */
final class Main {
  /** How often the server looks whether it is idle. */
  private static final long LOOK_EVERY_MS = 100;

  private Main() {}

  public static void main(String[] arguments) {
    try {
      start();
    } catch (Exception | Error failed) {
      System.err.println(reason(failed));
      System.exit(1);
    }
  }

  private static void start() throws Exception {
    Logger.getLogger("").setLevel(Level.WARNING);
    Settings settings = Settings.from(System.getenv());
    OrtEnvironment environment = OnnxRuntime.load(settings.library());
    Server server = new Server(environment, settings);
    ScheduledExecutorService trimmer = Executors.newSingleThreadScheduledExecutor();
    trimmer.scheduleWithFixedDelay(server::trimWhenIdle, LOOK_EVERY_MS, LOOK_EVERY_MS, TimeUnit.MILLISECONDS);
    Http http = new Http(server, settings);
    String address = http.start();
    Runtime.getRuntime().addShutdownHook(new Thread(() -> end(http, trimmer, server), "end"));
    System.out.println("listening on " + address);
    System.out.flush();
  }

  /**
   * At a signal. Of itself the process would have the signal's number as its exit status. ONNX Runtime's package gives
   * its environment back at the same time; the registration keeps it until it is closed.
   */
  private static void end(Http http, ScheduledExecutorService trimmer, Server server) {
    int status = 1;
    try {
      http.stop();
      trimmer.shutdown();
      trimmer.awaitTermination(1, TimeUnit.MINUTES);
      server.close();
      System.out.println("closed, and nothing is left");
      status = 0;
    } catch (Exception | Error failed) {
      System.err.println(reason(failed));
    } finally {
      System.out.flush();
      Runtime.getRuntime().halt(status);
    }
  }

  /** One that says more than that something failed. */
  private static String reason(Throwable failed) {
    Throwable last = failed;
    while (last.getCause() != null) {
      last = last.getCause();
    }
    boolean isPlain = last.getMessage() != null && last instanceof RuntimeException;
    return isPlain ? last.getMessage() : last.toString();
  }
}
