// SPDX-License-Identifier: MIT OR Apache-2.0

package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestMain(m *testing.M) {
	if os.Getenv("TEST_SERVE") == "" {
		os.Exit(m.Run())
	}
	begun := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		fmt.Println("begun")
		select {}
	})
	fmt.Println(serve("127.0.0.1:0", newWeb(begun, time.Minute)))
}

// A second signal ends a server whose request never ends.
func TestASecondSignalEndsTheServerAtOnce(t *testing.T) {
	command := exec.Command(os.Args[0])
	command.Env = append(os.Environ(), "TEST_SERVE=1")
	output, err := command.StdoutPipe()
	if err == nil {
		err = command.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	defer command.Process.Kill()
	lines := bufio.NewScanner(output)
	lines.Scan()
	address := strings.TrimPrefix(lines.Text(), "listening on ")
	connection, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	fmt.Fprint(connection, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	lines.Scan()
	command.Process.Signal(syscall.SIGTERM)
	for { // until the first one has counted
		another, err := net.Dial("tcp", address)
		if err != nil {
			break
		}
		another.Close()
	}
	command.Process.Signal(syscall.SIGTERM)
	err = command.Wait()
	if status := command.ProcessState.Sys().(syscall.WaitStatus); status.Signal() != syscall.SIGTERM {
		t.Errorf("it ended by %v", err)
	}
}

func TestAClientThatStallsIsNotWaitedForWithoutEnd(t *testing.T) {
	for _, stalled := range []string{
		"",
		"POST /inf",
		"POST /infer HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nshort",
		"GET /nothing HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nshort",
		"GET /nothing HTTP/1.1\r\nHost: x\r\n\r\n",
	} {
		web := httptest.NewUnstartedServer(nil)
		web.Config = &newWeb(newRoutes(withoutModels(1)), 10*time.Millisecond).Server
		web.Start()
		connection, err := net.Dial("tcp", web.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprint(connection, stalled)
		_, _ = io.Copy(io.Discard, connection) // until the server ends the connection
		connection.Close()
		web.Close()
	}
}
