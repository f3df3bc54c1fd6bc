// SPDX-License-Identifier: MIT OR Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"cachalot.io/go"
)

// change is what a request wants to be changed; nil: it stays.
type change struct {
	config *string
	// limit may be NoLimit.
	limit     *uint64
	watermark *uint64
	idleMS    *uint64
}

func parseChange(body []byte) (wanted change, err error) {
	fields, err := parseObject(body)
	if err != nil {
		return wanted, err
	}
	for key, value := range fields {
		switch key {
		case "config":
			wanted.config, err = parseText(value)
		case "memory_limit_bytes":
			wanted.limit, err = parseLimit(value)
		case "watermark_bytes":
			wanted.watermark, err = parseNumber(value)
		case "idle_ms":
			wanted.idleMS, err = parseNumber(value)
		default:
			err = errors.New("it is not known")
		}
		if err != nil {
			return change{}, fmt.Errorf("'%s': %w", key, err)
		}
	}
	return wanted, nil
}

// parseTrim is how much is to be kept, and how long it has to have been idle. Without a body everything that is free
// goes.
func parseTrim(body []byte) (keep, minIdleMS uint64, err error) {
	if len(body) == 0 {
		return 0, 0, nil
	}
	fields, err := parseObject(body)
	if err != nil {
		return 0, 0, err
	}
	numbers := map[string]*uint64{"keep_bytes": &keep, "min_idle_ms": &minIdleMS}
	for key, value := range fields {
		number, err := parseNumber(value)
		if numbers[key] == nil {
			err = errors.New("it is not known")
		}
		if err != nil {
			return 0, 0, fmt.Errorf("'%s': %w", key, err)
		}
		*numbers[key] = *number
	}
	return keep, minIdleMS, nil
}

func parseObject(body []byte) (map[string]json.RawMessage, error) {
	var fields map[string]json.RawMessage
	err := json.Unmarshal(body, &fields)
	if err == nil && fields == nil { // it is null
		err = errors.New("an object is expected")
	}
	return fields, err
}

func parseText(value json.RawMessage) (*string, error) {
	var text *string
	err := json.Unmarshal(value, &text)
	// null is nil; what is no UTF-8 or half a surrogate pair has become U+FFFD.
	if err != nil || text == nil || strings.ContainsRune(*text, utf8.RuneError) {
		return nil, errors.New("a text in UTF-8 is expected")
	}
	return text, nil
}

func parseLimit(value json.RawMessage) (*uint64, error) {
	if string(value) == "null" {
		none := cachalot.NoLimit
		return &none, nil
	}
	return parseNumber(value)
}

// parseNumber takes what every language has a number for.
func parseNumber(value json.RawMessage) (*uint64, error) {
	number, err := strconv.ParseUint(string(value), 10, 63)
	if err != nil {
		return nil, errors.New("a whole number from 0 to 2^63 - 1 is expected")
	}
	return &number, nil
}
