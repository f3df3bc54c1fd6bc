// SPDX-License-Identifier: MIT OR Apache-2.0

package cachalot

import (
	"context"
	"runtime"
	"sync/atomic"
	"syscall"

	"cachalot.io/go/internal/raw"
)

// What the library knows of who asks (labels, a tenant, a text for the history) it keeps by thread, and goroutines
// move between threads. So a context carries these, and AllocateWith tells them to the library within one call; and
// the scopes below lock the goroutine to its thread until they end.

// scope is what a context carries. It never changes.
type scope struct {
	labels     []byte
	labelCount int
	metadata   []byte
	tenant     *Tenant
	err        error
}

type scopeKey struct{}

func scopeOf(ctx context.Context) *scope {
	s, _ := ctx.Value(scopeKey{}).(*scope)
	return s
}

// changed is a copy of the context's scope with a change.
func changed(ctx context.Context, change func(*scope)) context.Context {
	var s scope
	if before := scopeOf(ctx); before != nil {
		s = *before
	}
	change(&s)
	return context.WithValue(ctx, scopeKey{}, &s)
}

// WithLabel is a context under which requests (AllocateWith) count for a label, inside of those that the context
// has already: "model-a", then "kv-cache" is "model-a/kv-cache" in Allocator.LabelStats. A label that is empty or
// has a NUL byte is ErrInvalidArgument of the request.
func WithLabel(ctx context.Context, label string) context.Context {
	return changed(ctx, func(s *scope) {
		if s.err == nil {
			s.err = checkLabel(label)
		}
		if s.err != nil {
			return
		}
		labels := make([]byte, 0, len(s.labels)+len(label)+1)
		labels = append(append(labels, s.labels...), label...)
		s.labels = append(labels, 0)
		s.labelCount++
	})
}

func checkLabel(label string) error {
	if label == "" {
		return argumentError("a label is empty")
	}
	return checkText(label)
}

// WithMetadata is a context under which the entries of the history that requests (AllocateWith) make carry a text;
// "": that of the thread (MetadataScope).
func WithMetadata(ctx context.Context, text string) context.Context {
	return changed(ctx, func(s *scope) {
		if s.err == nil {
			s.err = checkText(text)
		}
		if s.err != nil {
			return
		}
		s.metadata = nil
		if text != "" {
			s.metadata = append([]byte(text), 0)
		}
	})
}

// WithTenant is a context whose requests (AllocateWith) are those of a tenant; nil: of the thread's.
func WithTenant(ctx context.Context, tenant *Tenant) context.Context {
	return changed(ctx, func(s *scope) { s.tenant = tenant })
}

func (s *scope) allocate(a *Allocator, request *raw.Request) (raw.Address, error) {
	if s.err != nil {
		return 0, s.err
	}
	told := raw.Scope{Labels: s.labels, LabelCount: s.labelCount, Metadata: s.metadata}
	if s.tenant != nil {
		if s.tenant.allocator != a {
			return 0, argumentError("the tenant is one of another allocator")
		}
		c, err := s.tenant.gate.enter()
		if err != nil {
			return 0, err
		}
		defer c.leave()
		told.Tenant = s.tenant.raw
	}
	return ask(a, func(r raw.Allocator) (raw.Address, error) { return raw.AllocateScoped(r, &told, request) })
}

// onThread begins something of the thread, and locks the goroutine to it until the function that it gives ends it.
// That one works once, on the same goroutine.
func onThread(begin, end func() error) (func() error, error) {
	runtime.LockOSThread()
	if err := begin(); err != nil {
		runtime.UnlockOSThread()
		return nil, wrap(err)
	}
	thread := syscall.Gettid()
	var ended atomic.Bool
	return func() error {
		if ended.Load() {
			return nil
		}
		if syscall.Gettid() != thread {
			return stateError("a scope is ended on another goroutine than the one that began it")
		}
		if err := end(); err != nil {
			return wrap(err)
		}
		ended.Store(true)
		runtime.UnlockOSThread()
		return nil
	}, nil
}

// LabelScope puts a label on the calling goroutine: what it allocates counts for the label until the function that
// it gives is called, on the same goroutine.
//
//	end, err := cachalot.LabelScope("kv-cache")
//	if err != nil {
//		return err
//	}
//	defer end()
//
// Labels nest; the last is ended first, else the end is ErrInvalidState. The goroutine is locked to its thread
// meanwhile (runtime.LockOSThread), so where there is a context WithLabel costs less. A goroutine that returns without
// having ended a scope takes its thread, and all that was said there, with it.
func LabelScope(label string) (end func() error, err error) {
	if err := checkLabel(label); err != nil {
		return nil, err
	}
	return nested(raw.LabelScopes, "label",
		func() error { return raw.LabelPush(label) },
		raw.LabelPop)
}

// nested is onThread for scopes of which the last is ended first.
func nested(kind raw.ScopeKind, what string, begin, end func() error) (func() error, error) {
	depth := 0
	return onThread(func() error {
		if err := begin(); err != nil {
			return err
		}
		depth = raw.Scopes(kind, 1)
		return nil
	}, func() error {
		if raw.Scopes(kind, 0) != depth {
			return stateError("the " + what + " is not the one that this goroutine began last")
		}
		if err := end(); err != nil {
			return err
		}
		raw.Scopes(kind, -1)
		return nil
	})
}

// MetadataScope lets the entries of the history that the calling goroutine makes carry a text until the function
// that it gives is called, on the same goroutine, which is locked to its thread meanwhile. Then they carry what they
// did before: the text of the scope around it, or none. The last is ended first, else the end is ErrInvalidState.
func MetadataScope(text string) (end func() error, err error) {
	if err := checkText(text); err != nil {
		return nil, err
	}
	set := func(text string) error {
		if err := raw.SetMetadata(text); err != nil {
			return err
		}
		raw.RememberMetadata(text)
		return nil
	}
	outer := ""
	return nested(raw.MetadataScopes, "text",
		func() error { outer = raw.Metadata(); return set(text) },
		func() error { return set(outer) })
}
