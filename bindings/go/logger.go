// SPDX-License-Identifier: MIT OR Apache-2.0

package cachalot

import (
	"context"
	"log/slog"
)

// Level is what log/slog calls the level, so that a LogLevel is a slog.Leveler: LogDamage is an error, LogDifference an
// information, the others are warnings.
func (l LogLevel) Level() slog.Level {
	switch l {
	case LogDamage:
		return slog.LevelError
	case LogDifference:
		return slog.LevelInfo
	}
	return slog.LevelWarn
}

// String is "warning", "difference", "damage" or "advice".
func (l LogLevel) String() string {
	switch l {
	case LogWarning:
		return "warning"
	case LogDifference:
		return "difference"
	case LogDamage:
		return "damage"
	case LogAdvice:
		return "advice"
	}
	return unknown
}

// WithLogger gives the library's remarks to a logger, as WithLog does to a function: the text is the message, the
// attribute "remark" is the LogLevel's name. The logger's handler may run under a lock, so it must not call an
// allocator. nil is ErrInvalidArgument of Open.
func WithLogger(logger *slog.Logger) Option {
	return func(o *opening) {
		o.need(logger != nil, "the logger")
		WithLog(func(level LogLevel, message string) {
			logger.LogAttrs(context.Background(), level.Level(), message, slog.String("remark", level.String()))
		})(o)
	}
}
