// SPDX-License-Identifier: MIT OR Apache-2.0

package metrics

import (
	"net/http"

	"cachalot.io/go"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// NewHandler answers a scrape with the metrics of an allocator and nothing else. A program with metrics of its own
// registers a Collector instead. The error says which of the labels that are added cannot be.
func NewHandler(allocator *cachalot.Allocator, options ...Option) (http.Handler, error) {
	registry := prometheus.NewRegistry()
	if err := registry.Register(NewCollector(allocator, options...)); err != nil {
		return nil, err
	}
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{}), nil
}
