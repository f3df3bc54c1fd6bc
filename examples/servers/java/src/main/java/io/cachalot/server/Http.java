// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot.server;

import io.undertow.Handlers;
import io.undertow.Undertow;
import io.undertow.UndertowOptions;
import io.undertow.server.handlers.GracefulShutdownHandler;
import java.net.InetSocketAddress;
import java.util.concurrent.Executors;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import org.xnio.Options;

/** The server's port: it listens until {@code stop}. */
final class Http {
  private static final int CONNECTION_THREADS = 2;
  /** Of what answers at once: statistics and settings. */
  private static final int OTHER_THREADS = 2;

  /** How long a client may take for a request, and for its answer; at the end, for all that is left. */
  private static final int PATIENCE_MS = 20_000;

  private final int patienceMs;
  private final String address;
  private final ThreadPoolExecutor workers;
  private final GracefulShutdownHandler handler;
  private final Undertow undertow;

  Http(Server server, Settings settings) {
    this(server, settings, PATIENCE_MS);
  }

  Http(Server server, Settings settings, int patienceMs) {
    this.patienceMs = patienceMs;
    address = settings.address();
    workers = (ThreadPoolExecutor) Executors.newFixedThreadPool(settings.workers());
    handler = Handlers.gracefulShutdown(new Routes(server, workers, patienceMs).handler());
    InetSocketAddress place = place(address);
    undertow = Undertow.builder()
        .addHttpListener(place.getPort(), place.getHostString(), Routes.withErrors(handler))
        .setIoThreads(CONNECTION_THREADS)
        .setWorkerThreads(OTHER_THREADS)
        // The routes count what a body has; this also counts how it is cut into chunks, and ends the connection.
        .setServerOption(UndertowOptions.MAX_ENTITY_SIZE, 2L * Routes.MAX_BODY)
        .setServerOption(UndertowOptions.REQUEST_PARSE_TIMEOUT, patienceMs)
        .setServerOption(UndertowOptions.NO_REQUEST_TIMEOUT, patienceMs)
        .setSocketOption(Options.WRITE_TIMEOUT, patienceMs)
        .build();
  }

  private static InetSocketAddress place(String text) {
    int colon = text.lastIndexOf(':');
    try {
      String host = text.substring(0, colon).replaceAll("^\\[|]$", "");
      return InetSocketAddress.createUnresolved(host, Integer.parseInt(text.substring(colon + 1)));
    } catch (RuntimeException malformed) {
      throw new IllegalArgumentException("SERVER_ADDRESS=" + text + ": it is not HOST:PORT");
    }
  }

  /** Where it listens now. */
  String start() {
    try {
      undertow.start();
    } catch (RuntimeException failed) {
      Throwable reason = failed.getCause() == null ? failed : failed.getCause();
      throw new IllegalArgumentException("SERVER_ADDRESS=" + address + ": " + reason.getMessage());
    }
    InetSocketAddress place = (InetSocketAddress) undertow.getListenerInfo().get(0).getAddress();
    String host = place.getAddress().getHostAddress();
    return (host.contains(":") ? "[" + host + "]" : host) + ":" + place.getPort();
  }

  /**
   * Takes no new request, waits until those that were begun are answered, and ends the connections that are left
   * after a while. Nobody is at work then.
   */
  void stop() throws InterruptedException {
    handler.shutdown(); // later ones are refused; a suspended listener would end those that are under way too
    handler.awaitShutdown(patienceMs);
    undertow.stop();
    workers.getQueue().clear(); // who waits for a turn has no connection any more
    workers.shutdown();
    workers.awaitTermination(Long.MAX_VALUE, TimeUnit.NANOSECONDS);
  }
}
