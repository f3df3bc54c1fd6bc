// SPDX-License-Identifier: MIT OR Apache-2.0

package metrics_test

import (
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"os"

	"cachalot.io/go"
	"cachalot.io/go/metrics"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// A server that has metrics of its own registers the collector beside them. The pod is known to Kubernetes, which can
// tell it the program in a variable (the downward API).
func ExampleNewCollector() {
	allocator, err := cachalot.Open(cachalot.WithOptions(""))
	if err != nil {
		log.Fatal(err)
	}
	defer allocator.Close()
	labels := prometheus.Labels{"pod": os.Getenv("POD_NAME")}
	registry := prometheus.NewRegistry()
	registry.MustRegister(metrics.NewCollector(allocator, metrics.WithConstLabels(labels)))
	http.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
}

func ExampleNewHandler() {
	allocator, err := cachalot.Open(cachalot.WithOptions(""))
	if err != nil {
		log.Fatal(err)
	}
	defer allocator.Close()
	handler, err := metrics.NewHandler(allocator)
	if err != nil {
		log.Fatal(err)
	}
	answer := httptest.NewRecorder()
	handler.ServeHTTP(answer, httptest.NewRequest("GET", "/metrics", nil))
	fmt.Println(answer.Code, answer.Header().Get("Content-Type"))
	// Output: 200 text/plain; version=0.0.4; charset=utf-8; escaping=underscores
}
