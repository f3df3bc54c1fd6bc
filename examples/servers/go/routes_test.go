// SPDX-License-Identifier: MIT OR Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"image"
	"image/png"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// withoutModels is a server on which each image that can be decoded is a panic.
func withoutModels(workers int) *server {
	return &server{workers: make(chan struct{}, workers)}
}

// ask gives the answer of a server; its body is an error, or the test fails.
func ask(t *testing.T, s *server, request *http.Request) *http.Response {
	t.Helper()
	recorder := httptest.NewRecorder()
	newRoutes(s).ServeHTTP(recorder, request)
	var body map[string]string
	if err := json.Unmarshal(recorder.Body.Bytes(), &body); err != nil || body["error"] == "" {
		t.Errorf("%s %s: no error in %q (%v)", request.Method, request.URL, recorder.Body, err)
	}
	return recorder.Result()
}

func anImage(t *testing.T) io.Reader {
	t.Helper()
	var encoded bytes.Buffer
	if err := png.Encode(&encoded, image.NewGray(image.Rect(0, 0, 8, 8))); err != nil {
		t.Fatal(err)
	}
	return &encoded
}

func TestAnotherMethodIsToldWhichThereAre(t *testing.T) {
	for _, c := range []struct{ method, path, allowed string }{
		{"HEAD", "/stats", "GET"}, {"GET", "/infer", "POST"}, {"PUT", "/config", "GET, POST"}, {"OPTIONS", "/trim", "POST"},
	} {
		answer := ask(t, withoutModels(1), httptest.NewRequest(c.method, c.path, nil))
		if answer.StatusCode != 405 || answer.Header.Get("Allow") != c.allowed {
			t.Errorf("%s %s: %s, %v", c.method, c.path, answer.Status, answer.Header)
		}
	}
}

func TestAnotherPathIsNotFound(t *testing.T) {
	for _, path := range []string{"/", "//infer", "/infer/", "/Infer"} {
		if answer := ask(t, withoutModels(1), httptest.NewRequest("POST", path, nil)); answer.StatusCode != 404 {
			t.Errorf("%s: %s", path, answer.Status)
		}
	}
}

func TestABodyThatIsTooLargeIsRefusedAndCounted(t *testing.T) {
	s := withoutModels(1)
	request := httptest.NewRequest("POST", "/infer", bytes.NewReader(make([]byte, maxImage+1)))
	if answer := ask(t, s, request); answer.StatusCode != 413 {
		t.Error(answer.Status)
	}
	if s.failed.Load() != 1 {
		t.Error("it is not counted")
	}
}

func TestAPanicIsAnAnswerAndFreesTheWorker(t *testing.T) {
	s := withoutModels(1)
	for range 2 {
		if answer := ask(t, s, httptest.NewRequest("POST", "/infer", anImage(t))); answer.StatusCode != 500 {
			t.Error(answer.Status)
		}
	}
	if s.failed.Load() != 2 || len(s.workers) != 0 || s.activity.working != 0 {
		t.Errorf("%d are counted, %d have a worker, %d work", s.failed.Load(), len(s.workers), s.activity.working)
	}
}

func TestWhoHasGoneWaitsForNoWorker(t *testing.T) {
	gone, leave := context.WithCancel(context.Background())
	leave()
	request := httptest.NewRequest("POST", "/infer", anImage(t)).WithContext(gone)
	answer := ask(t, withoutModels(0), request) // it would wait for ever
	if answer.StatusCode != 500 {
		t.Error(answer.Status)
	}
}

func TestNoImageIsABadRequest(t *testing.T) {
	for _, body := range []string{"", "no image", "\x89PNG\r\n\x1a\n"} {
		answer := ask(t, withoutModels(1), httptest.NewRequest("POST", "/infer", strings.NewReader(body)))
		if answer.StatusCode != 400 {
			t.Errorf("%q: %s", body, answer.Status)
		}
	}
}
