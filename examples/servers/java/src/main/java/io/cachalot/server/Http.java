// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot.server;

import io.undertow.Handlers;
import io.undertow.Undertow;
import io.undertow.UndertowOptions;
import io.undertow.server.handlers.GracefulShutdownHandler;
import java.net.InetSocketAddress;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

/** The server's port: it listens until {@code stop}. */
final class Http {
  private static final int CONNECTION_THREADS = 2;
  /** Of what answers at once: statistics and settings. */
  private static final int OTHER_THREADS = 2;

  private final ExecutorService workers;
  private final GracefulShutdownHandler handler;
  private final Undertow undertow;

  Http(Server server, Settings settings) {
    workers = Executors.newFixedThreadPool(settings.workers());
    handler = Handlers.gracefulShutdown(new Routes(server, workers).handler());
    InetSocketAddress address = address(settings.address());
    undertow = Undertow.builder()
        .addHttpListener(address.getPort(), address.getHostString(), handler)
        .setIoThreads(CONNECTION_THREADS)
        .setWorkerThreads(OTHER_THREADS)
        .setServerOption(UndertowOptions.MAX_ENTITY_SIZE, (long) Routes.MAX_BODY)
        .build();
  }

  private static InetSocketAddress address(String text) {
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
    undertow.start();
    InetSocketAddress address = (InetSocketAddress) undertow.getListenerInfo().get(0).getAddress();
    String host = address.getAddress().getHostAddress();
    return (host.contains(":") ? "[" + host + "]" : host) + ":" + address.getPort();
  }

  /** Takes no new request, and waits until those that were begun are answered. */
  void stop() throws InterruptedException {
    handler.shutdown(); // later ones are refused; a suspended listener would end those that are under way too
    handler.awaitShutdown();
    undertow.stop();
    workers.shutdown();
  }
}
