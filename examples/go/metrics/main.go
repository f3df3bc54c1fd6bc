// SPDX-License-Identifier: MIT OR Apache-2.0

// A server whose GPU memory is watched: Prometheus fetches the metrics from http://127.0.0.1:9400/metrics, and where
// OTEL_EXPORTER_OTLP_ENDPOINT names a collector of OpenTelemetry, they are sent there too, once a minute and at the end.
//
//	CACHALOT_DRIVER=sim:1GiB OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4318 go run .
package main

import (
	"context"
	"errors"
	"log"
	"net/http"
	"os"
	"os/signal"

	"cachalot.io/go"
	"cachalot.io/go/metrics"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	bridge "go.opentelemetry.io/contrib/bridges/prometheus"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	sdk "go.opentelemetry.io/otel/sdk/metric"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, "127.0.0.1:9400"); err != nil {
		log.Fatal(err)
	}
}

// run serves until the context ends.
func run(ctx context.Context, address string) (err error) {
	allocator, err := cachalot.Open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, allocator.CloseAll()) }()
	registry := prometheus.NewRegistry()
	if err := registry.Register(metrics.NewCollector(allocator)); err != nil {
		return err
	}
	if os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") != "" {
		provider, err := export(ctx, registry)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, provider.Shutdown(context.Background())) }()
	}
	if _, err := allocator.Allocate(64<<20, 0, 0); err != nil { // the server's work
		return err
	}
	return serve(ctx, address, promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
}

// export sends what a registry has: OpenTelemetry's bridge reads it as Prometheus would.
func export(ctx context.Context, registry prometheus.Gatherer) (*sdk.MeterProvider, error) {
	exporter, err := otlpmetrichttp.New(ctx)
	if err != nil {
		return nil, err
	}
	producer := bridge.NewMetricProducer(bridge.WithGatherer(registry))
	reader := sdk.NewPeriodicReader(exporter, sdk.WithProducer(producer))
	return sdk.NewMeterProvider(sdk.WithReader(reader)), nil
}

func serve(ctx context.Context, address string, handler http.Handler) error {
	server := &http.Server{Addr: address, Handler: http.NewServeMux()}
	server.Handler.(*http.ServeMux).Handle("GET /metrics", handler)
	stopped := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stopped()
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
