// SPDX-License-Identifier: MIT OR Apache-2.0

// A program that has both modules: it prints what a scrape would get.
package main

import (
	"net/http/httptest"
	"os"

	"cachalot.io/go"
	"cachalot.io/go/metrics"
)

func main() {
	allocator, err := cachalot.Open()
	if err != nil {
		panic(err)
	}
	handler, err := metrics.NewHandler(allocator)
	if err != nil {
		panic(err)
	}
	answer := httptest.NewRecorder()
	handler.ServeHTTP(answer, httptest.NewRequest("GET", "/metrics", nil))
	_, _ = answer.Body.WriteTo(os.Stdout)
}
