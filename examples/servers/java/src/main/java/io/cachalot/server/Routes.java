// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot.server;

import com.fasterxml.jackson.databind.JsonNode;
import io.undertow.Handlers;
import io.undertow.io.Receiver;
import io.undertow.server.HttpHandler;
import io.undertow.server.HttpServerExchange;
import io.undertow.server.RequestTooBigException;
import io.undertow.server.RoutingHandler;
import io.undertow.util.Headers;
import io.undertow.util.Methods;
import io.undertow.util.StatusCodes;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.Map;
import java.util.concurrent.Executor;
import java.util.concurrent.TimeUnit;
import org.xnio.IoUtils;
import org.xnio.XnioExecutor;

/** The HTTP interface of examples/servers/README.md. */
final class Routes {
  /** The most bytes of an image, and of an object. */
  static final int MAX_BODY = 32 << 20;
  private static final int MAX_OBJECT = 64 << 10;

  private final Server server;
  /** Has as many threads as requests are worked on at a time; the others wait for one. */
  private final Executor workers;
  private final int patienceMs;

  /** Answers a request whose body has been read. */
  @FunctionalInterface
  private interface Answer {
    void to(HttpServerExchange exchange, byte[] body) throws Exception;
  }

  Routes(Server server, Executor workers, int patienceMs) {
    this.server = server;
    this.workers = workers;
    this.patienceMs = patienceMs;
  }

  HttpHandler handler() {
    return new RoutingHandler()
        .post("/infer", counted(withBody(MAX_BODY, workers, this::infer)))
        .get("/stats", withBody(MAX_OBJECT, null, (exchange, body) -> json(exchange, StatusCodes.OK, server.stats())))
        .get("/memory", withBody(MAX_OBJECT, null, (exchange, body) ->
            text(exchange, "text/plain; charset=utf-8", server.memory().summary())))
        .get("/metrics", withBody(MAX_OBJECT, null, (exchange, body) ->
            text(exchange, "text/plain; version=0.0.4; charset=utf-8", server.memory().metrics())))
        .get("/config", withBody(MAX_OBJECT, null, (exchange, body) -> config(exchange)))
        .post("/config", withBody(MAX_OBJECT, null, this::configure))
        .post("/trim", withBody(MAX_OBJECT, null, this::trim))
        .setFallbackHandler(exchange -> error(exchange, StatusCodes.NOT_FOUND, "there is no such path"))
        .setInvalidMethodHandler(exchange ->
            error(exchange, StatusCodes.METHOD_NOT_ALLOWED, "this path has another method"));
  }

  /** What Undertow answers by itself, at the end of the server for example, gets the body of an error too. */
  static HttpHandler withErrors(HttpHandler next) {
    return exchange -> {
      exchange.addDefaultResponseListener(silent -> {
        if (silent.getStatusCode() < StatusCodes.BAD_REQUEST) {
          return false;
        }
        silent.setPersistent(false);
        error(silent, silent.getStatusCode(), StatusCodes.getReason(silent.getStatusCode()));
        return true;
      });
      next.handleRequest(exchange);
    };
  }

  /** Counts each answer before it is sent, whoever gives it. */
  private HttpHandler counted(HttpHandler next) {
    return exchange -> {
      exchange.addResponseCommitListener(answered -> server.count(answered.getStatusCode()));
      next.handleRequest(exchange);
    };
  }

  /**
   * Reads the body on the thread of the connection, and answers on another one. A client that takes too long loses
   * its connection.
   *
   * @param most bytes of the body
   * @param executor null: the server's own, which never waits for a model
   */
  private HttpHandler withBody(int most, Executor executor, Answer answer) {
    return Handlers.httpContinueRead(exchange -> {
      if (exchange.getRequestMethod().equals(Methods.POST)) {
        exchange.addExchangeCompleteListener((done, next) -> {
          server.touch(); // a body is garbage now, also one that was refused
          next.proceed();
        });
      }
      if (isTooLong(exchange.getRequestHeaders().getFirst(Headers.CONTENT_LENGTH), most)) {
        refuse(exchange, new Receiver.RequestToLargeException(), most);
        return;
      }
      Receiver receiver = exchange.getRequestReceiver();
      receiver.setMaxBufferSize(most);
      XnioExecutor.Key deadline = exchange.getIoThread().executeAfter(
          () -> IoUtils.safeClose(exchange.getConnection()), patienceMs, TimeUnit.MILLISECONDS);
      receiver.receiveFullBytes(
          (each, body) -> {
            deadline.remove();
            each.dispatch(executor, (HttpHandler) later -> answer(later, body, answer));
          },
          (each, failure) -> {
            deadline.remove();
            refuse(each, failure, most);
          });
    });
  }

  /** Undertow would make room for as much as is announced. */
  private static boolean isTooLong(String announced, int most) {
    try {
      return announced != null && Long.parseLong(announced) > most;
    } catch (NumberFormatException beyondAll) { // else Undertow has refused it
      return true;
    }
  }

  private static void refuse(HttpServerExchange exchange, IOException failure, int most) {
    exchange.setPersistent(false); // what is still to come of the body is not read
    boolean isTooLarge =
        failure instanceof Receiver.RequestToLargeException || failure instanceof RequestTooBigException;
    error(exchange, isTooLarge ? StatusCodes.REQUEST_ENTITY_TOO_LARGE : StatusCodes.BAD_REQUEST,
        isTooLarge ? "at most " + most + " bytes are taken" : String.valueOf(failure.getMessage()));
  }

  private static void answer(HttpServerExchange exchange, byte[] body, Answer answer) {
    try {
      answer.to(exchange, body);
    } catch (IllegalArgumentException | MalformedException malformed) {
      error(exchange, StatusCodes.BAD_REQUEST, malformed.getMessage());
    } catch (TooLargeException tooLarge) {
      error(exchange, StatusCodes.REQUEST_ENTITY_TOO_LARGE, tooLarge.getMessage());
    } catch (ExhaustedException none) {
      json(exchange, StatusCodes.SERVICE_UNAVAILABLE,
          Json.object().put("error", none.getMessage()).put("report", none.report()));
    } catch (Exception | Error failed) { // Java's own memory may be exhausted, too
      error(exchange, StatusCodes.INTERNAL_SERVER_ERROR, failed.toString());
    }
  }

  private static void json(HttpServerExchange exchange, int status, JsonNode value) {
    exchange.setStatusCode(status);
    exchange.getResponseHeaders().put(Headers.CONTENT_TYPE, "application/json");
    exchange.getResponseSender().send(ByteBuffer.wrap(Json.write(value)));
  }

  private static void error(HttpServerExchange exchange, int status, String text) {
    json(exchange, status, Json.object().put("error", text));
  }

  private static void text(HttpServerExchange exchange, String type, String text) {
    exchange.getResponseHeaders().put(Headers.CONTENT_TYPE, type);
    exchange.getResponseSender().send(text);
  }

  private void infer(HttpServerExchange exchange, byte[] body) throws Exception {
    json(exchange, StatusCodes.OK, server.infer(body));
  }

  private void config(HttpServerExchange exchange) {
    json(exchange, StatusCodes.OK, server.memory().config());
  }

  private void configure(HttpServerExchange exchange, byte[] body) {
    server.configure(Json.read(body));
    config(exchange);
  }

  /** Without a body everything that is free goes. */
  private void trim(HttpServerExchange exchange, byte[] body) {
    long keep = 0;
    long idle = 0;
    JsonNode wanted = body.length == 0 ? Json.object() : Json.read(body);
    for (Map.Entry<String, JsonNode> row : Json.object(wanted).properties()) {
      switch (row.getKey()) {
        case "keep_bytes" -> keep = Json.number(row);
        case "min_idle_ms" -> idle = Json.number(row);
        default -> throw new IllegalArgumentException("there is no '" + row.getKey() + "'");
      }
    }
    long released = server.memory().trim(keep, Duration.ofMillis(idle));
    json(exchange, StatusCodes.OK, Json.object().put("released_bytes", released));
  }
}
