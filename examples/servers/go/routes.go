// SPDX-License-Identifier: MIT OR Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"time"
)

// The most bytes of an image, and of an object.
const maxImage, maxObject = 32 << 20, 64 << 10

// routes are the HTTP interface of examples/servers/README.md: functions by path and method.
type routes struct {
	server *server
	table  map[string]map[string]http.HandlerFunc
}

func newRoutes(server *server) *routes {
	r := &routes{server: server}
	r.table = map[string]map[string]http.HandlerFunc{
		"/infer":   {"POST": r.infer},
		"/stats":   {"GET": r.stats},
		"/memory":  {"GET": r.memory},
		"/metrics": {"GET": r.metrics},
		"/config":  {"GET": r.config, "POST": r.configure},
		"/trim":    {"POST": r.trim},
	}
	return r
}

func (r *routes) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	methods, found := r.table[request.URL.Path]
	if !found {
		respondError(w, http.StatusNotFound, fmt.Errorf("there is no %s", request.URL.Path))
		return
	}
	handle, found := methods[request.Method]
	if !found {
		w.Header().Set("Allow", strings.Join(slices.Sorted(maps.Keys(methods)), ", "))
		respondError(w, http.StatusMethodNotAllowed, fmt.Errorf("%s has no %s", request.URL.Path, request.Method))
		return
	}
	if request.Method == http.MethodPost {
		defer r.server.activity.touch() // a body is garbage now, also one that was refused
	}
	handle(w, request)
}

// begin begins an answer, which is not written longer than the client is waited for.
func begin(w http.ResponseWriter, status int, contentType string) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(patience)) // a test's has none
	w.Header().Set("Content-Type", contentType)
	w.WriteHeader(status)
}

func respond(w http.ResponseWriter, status int, value any) {
	begin(w, status, "application/json")
	_ = json.NewEncoder(w).Encode(value) // who asked may have gone
}

func respondError(w http.ResponseWriter, status int, err error) {
	respond(w, status, map[string]string{"error": err.Error()})
}

// respondWith answers with the value if there is no error.
func respondWith(w http.ResponseWriter, value any, err error) {
	if err != nil {
		respondError(w, http.StatusInternalServerError, err)
		return
	}
	respond(w, http.StatusOK, value)
}

// readBody takes no more than the most.
func readBody(w http.ResponseWriter, request *http.Request, most int64) ([]byte, error) {
	body, err := io.ReadAll(http.MaxBytesReader(w, request.Body, most))
	var large *http.MaxBytesError
	if errors.As(err, &large) {
		return nil, &badRequest{fmt.Sprintf("the body has more than %d bytes", most), true}
	}
	if err != nil {
		return nil, &badRequest{text: fmt.Sprintf("the body cannot be read: %v", err)}
	}
	return body, nil
}

func (r *routes) infer(w http.ResponseWriter, request *http.Request) {
	answer, err := r.inferBody(w, request)
	r.server.count(err)
	var bad *badRequest
	var none *exhausted
	switch {
	case errors.As(err, &bad):
		respondBad(w, bad)
	case errors.As(err, &none):
		respond(w, http.StatusServiceUnavailable, map[string]string{"error": none.message, "report": none.report})
	default:
		respondWith(w, answer, err)
	}
}

func (r *routes) inferBody(w http.ResponseWriter, request *http.Request) (found *answer, err error) {
	defer takePanic(&err)
	body, err := readBody(w, request, maxImage)
	if err != nil {
		return nil, err
	}
	return r.server.infer(request.Context(), body)
}

// takePanic makes an error of a panic: net/http would end the connection without an answer.
func takePanic(err *error) {
	if value := recover(); value != nil {
		fmt.Fprintf(os.Stderr, "panic: %v\n%s", value, debug.Stack())
		*err = fmt.Errorf("panic: %v", value)
	}
}

// respondBad answers an error of who asks.
func respondBad(w http.ResponseWriter, err error) {
	var bad *badRequest
	if errors.As(err, &bad) && bad.isTooLarge {
		respondError(w, http.StatusRequestEntityTooLarge, err)
		return
	}
	respondError(w, http.StatusBadRequest, err)
}

func (r *routes) stats(w http.ResponseWriter, _ *http.Request) {
	stats, err := r.server.stats()
	respondWith(w, stats, err)
}

func respondText(w http.ResponseWriter, contentType, text string, err error) {
	if err != nil {
		respondError(w, http.StatusInternalServerError, err)
		return
	}
	begin(w, http.StatusOK, contentType)
	_, _ = io.WriteString(w, text) // who asked may have gone
}

func (r *routes) memory(w http.ResponseWriter, _ *http.Request) {
	text, err := r.server.memory.allocator.MemorySummary(device, false)
	respondText(w, "text/plain; charset=utf-8", text, err)
}

func (r *routes) metrics(w http.ResponseWriter, _ *http.Request) {
	text, err := r.server.memory.allocator.Metrics()
	respondText(w, "text/plain; version=0.0.4; charset=utf-8", text, err)
}

func (r *routes) config(w http.ResponseWriter, _ *http.Request) {
	config, err := r.server.memory.config()
	respondWith(w, config, err)
}

func (r *routes) configure(w http.ResponseWriter, request *http.Request) {
	if err := r.configureBody(w, request); err != nil {
		respondBad(w, err)
		return
	}
	r.config(w, request)
}

func (r *routes) configureBody(w http.ResponseWriter, request *http.Request) error {
	body, err := readBody(w, request, maxObject)
	if err != nil {
		return err
	}
	wanted, err := parseChange(body)
	if err != nil {
		return err
	}
	return r.server.configure(wanted)
}

func (r *routes) trim(w http.ResponseWriter, request *http.Request) {
	keep, minIdleMS, err := readTrim(w, request)
	if err != nil {
		respondBad(w, err)
		return
	}
	released, err := r.server.memory.trim(keep, minIdleMS)
	respondWith(w, map[string]uint64{"released_bytes": released}, err)
}

func readTrim(w http.ResponseWriter, request *http.Request) (keep, minIdleMS uint64, err error) {
	body, err := readBody(w, request, maxObject)
	if err != nil {
		return 0, 0, err
	}
	return parseTrim(body)
}
