// SPDX-License-Identifier: MIT OR Apache-2.0

// Command servers is an OCR server on ONNX Runtime, whose memory is cachalot's. examples/servers/README.md has its
// interface.
package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	ort "github.com/yalue/onnxruntime_go"
)

const (
	// How often the server looks whether it is idle.
	lookEvery = 100 * time.Millisecond
	// How long a client may take for a request, for its next one, and for an answer; at the end for all that is left.
	patience = 20 * time.Second
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println("closed, and nothing is left")
}

func run() error {
	settings, err := settingsFromEnv()
	if err != nil {
		return err
	}
	ort.SetSharedLibraryPath(settings.ortLibrary)
	if err := ort.InitializeEnvironment(); err != nil {
		return err
	}
	server, err := newServer(settings)
	if err != nil {
		return err
	}
	stopTrimmer := startTrimmer(server)
	err = serve(settings.address, newWeb(newRoutes(server), patience))
	stopTrimmer()
	if err != nil {
		return err
	}
	// ONNX Runtime itself stays loaded until the process ends: threads that have run it still know it.
	return server.close()
}

// startTrimmer lets the server look again and again whether it is idle, until the function that it gives returns.
func startTrimmer(server *server) (stop func()) {
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		ticker := time.NewTicker(lookEvery)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				server.trimWhenIdle()
			case <-end:
				return
			}
		}
	}()
	return func() {
		close(end)
		<-ended
	}
}

// web is the port, and what is worked on for it.
type web struct {
	http.Server
	patience time.Duration
	// working are requests that a handler has.
	working sync.WaitGroup
}

// newWeb waits so long for clients, and no longer: else one that stalls would keep the process from ending.
func newWeb(handler http.Handler, patience time.Duration) *web {
	w := &web{patience: patience}
	w.ReadTimeout = patience
	w.DisableGeneralOptionsHandler = true
	w.Handler = http.HandlerFunc(func(answer http.ResponseWriter, request *http.Request) {
		w.working.Add(1)
		defer w.working.Done()
		handler.ServeHTTP(answer, request)
	})
	return w
}

// stop takes no more requests, answers those that were begun, and ends the connections that are left after a while.
// No handler is at work then.
func (w *web) stop() error {
	limit, cancel := context.WithTimeout(context.Background(), w.patience)
	defer cancel()
	err := w.Shutdown(limit)
	if errors.Is(err, context.DeadlineExceeded) {
		err = w.Close()
		w.working.Wait() // what waits for its client or its turn has ended with the connection
	}
	return err
}

// serve works until the process is told to end; what was begun is ended first, unless it is told again.
func serve(address string, w *web) error {
	told, forget := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer forget()
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	fmt.Printf("listening on %s\n", listener.Addr())
	failed := make(chan error, 1)
	go func() { failed <- w.Serve(listener) }()
	select {
	case err := <-failed:
		return err
	case <-told.Done():
	}
	forget() // the next signal ends the process
	if err := w.stop(); err != nil {
		return err
	}
	if err := <-failed; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
