// SPDX-License-Identifier: MIT OR Apache-2.0

package main

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// collector is one of OpenTelemetry's, as far as a sender sees it. It gives the bodies that it gets.
func collector(t *testing.T) (address string, bodies <-chan []byte) {
	received := make(chan []byte, 10)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || r.URL.Path != "/v1/metrics" {
			t.Errorf("%s: %v", r.URL, err)
		}
		received <- body
		w.Header().Set("Content-Type", "application/x-protobuf")
	}))
	t.Cleanup(server.Close)
	return server.URL, received
}

// fetch asks until the server is there.
func fetch(t *testing.T, url string) string {
	for range 500 {
		if answer, err := http.Get(url); err == nil {
			defer answer.Body.Close()
			page, err := io.ReadAll(answer.Body)
			if err != nil {
				t.Error(err)
			}
			return string(page)
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Error("there is no server")
	return ""
}

func TestMetricsAreFetchedAndSent(t *testing.T) {
	address, bodies := collector(t)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", address)
	t.Setenv("CACHALOT_DRIVER", "sim:1GiB")
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- run(ctx, "127.0.0.1:9400") }()
	page := fetch(t, "http://127.0.0.1:9400/metrics")
	if wanted := `cachalot_allocated_bytes{device="0",pool="large",uuid=""} 6.7108864e+07`; !strings.Contains(page, wanted) {
		t.Errorf("no %s in\n%s", wanted, page)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if body := <-bodies; !bytes.Contains(body, []byte("cachalot_allocated_bytes")) || !bytes.Contains(body, []byte("large")) {
		t.Errorf("%q", body)
	}
}
