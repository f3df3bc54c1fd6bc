// SPDX-License-Identifier: MIT OR Apache-2.0

package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"
)

// settings are what the environment says. examples/servers/README.md lists the variables.
type settings struct {
	address    string
	models     string
	ortLibrary string
	driver     string
	// sessions are those of each model.
	sessions uint64
	// workers are the requests that are worked on at a time.
	workers   uint64
	idleMS    uint64
	watermark uint64
}

func settingsFromEnv() (settings, error) {
	s := settings{
		address:    fromEnv("SERVER_ADDRESS", "127.0.0.1:8080"),
		models:     fromEnv("SERVER_MODELS", "build/onnxruntime/models"),
		ortLibrary: fromEnv("SERVER_ORT", "build/onnxruntime/lib/libonnxruntime.so"),
		driver:     fromEnv("CACHALOT_DRIVER", "host:4GiB"),
	}
	if mode := fromEnv("SERVER_ALLOCATOR", modeName); mode != modeName {
		// onnxruntime_go has no entries of run options, which arena-shrink needs.
		return s, fmt.Errorf("SERVER_ALLOCATOR=%s: this server has %s only", mode, modeName)
	}
	err := errors.Join(
		numberFromEnv(&s.sessions, "SERVER_SESSIONS", "2", 1),
		numberFromEnv(&s.workers, "SERVER_WORKERS", "8", 1),
		numberFromEnv(&s.idleMS, "SERVER_IDLE_MS", "2000", 0),
		numberFromEnv(&s.watermark, "SERVER_WATERMARK", "67108864", 0),
	)
	return s, err
}

func fromEnv(name, otherwise string) string {
	if value := os.Getenv(name); value != "" {
		return value
	}
	return otherwise
}

func numberFromEnv(number *uint64, name, otherwise string, least uint64) error {
	value := fromEnv(name, otherwise)
	parsed, err := strconv.ParseUint(value, 10, 63)
	if err != nil || parsed < least {
		return fmt.Errorf("%s=%s: it has to be a whole number of at least %d", name, value, least)
	}
	*number = parsed
	return nil
}
