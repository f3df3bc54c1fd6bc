// SPDX-License-Identifier: MIT OR Apache-2.0

package cachalot

import "cachalot.io/go/internal/raw"

// Option says how an allocator is made.
type Option func(*opening)

type opening struct {
	options     raw.AllocatorOptions
	driver      *Driver
	text        string
	pinnedText  string
	trackBlocks bool
	// err is of the first option that cannot be.
	err error
}

// need notes that something is nil which must not be.
func (o *opening) need(given bool, what string) {
	if o.err == nil {
		o.err = needed(given, what)
	}
}

// OverDriver is where memory comes from; else as OpenDriver("") does it. The allocator keeps the driver, which may
// be closed once Open has returned. A *Sim passes its field Driver. nil is ErrInvalidArgument of Open.
func OverDriver(driver *Driver) Option {
	return func(o *opening) {
		o.need(driver != nil, "the driver")
		o.driver = driver
	}
}

// WithOptions sets the option string, in PyTorch's grammar; "" lets every option have its default. Without it the
// first of the environment variables CACHALOT_ALLOC_CONF, PYTORCH_CUDA_ALLOC_CONF and PYTORCH_ALLOC_CONF counts.
func WithOptions(options Options) Option {
	return func(o *opening) {
		o.text = string(options)
		o.options.Config = &o.text
	}
}

// WithPinnedConfig caches pinned memory (Allocator.AllocatePinned) as a device's memory is cached, with these
// options; "": all defaults. It needs less memory then, and has limits, tenants and statistics
// (Allocator.PinnedAllocator). Without it the environment variable CACHALOT_PINNED_CONF decides; if that is unset
// too, pinned memory is cached as in PyTorch, and the options pinned_* of WithOptions count.
//
// "backend:cudaMallocAsync" and "expandable_segments:True" are refused.
func WithPinnedConfig(options Options) Option {
	return func(o *opening) {
		o.pinnedText = string(options)
		o.options.PinnedConfig = &o.pinnedText
	}
}

// WithRelease chooses the PyTorch release whose decisions are made.
func WithRelease(release Release) Option {
	return func(o *opening) { o.options.Release = narrow(release) }
}

// Mends are defects of PyTorch that are kept by default because they change decisions; docs/differences.md
// describes them.
type Mends uint32

// The defects, to be added up.
const (
	MendFallbackErrors     = Mends(raw.MEND_FALLBACK_ERRORS)      // U5: fallback fails on a pool that is routed to or released
	MendFallbackExpandable = Mends(raw.MEND_FALLBACK_EXPANDABLE)  // U6: fallback never finds expandable memory
	MendHandleType         = Mends(raw.MEND_HANDLE_TYPE)          // U8 (2.11): out of memory at the first page settles on fabric
	MendSearchAfterRelease = Mends(raw.MEND_SEARCH_AFTER_RELEASE) // U9: no second search after the cache was released
	MendHistoryOrder       = Mends(raw.MEND_HISTORY_ORDER)        // U11: the ring loses its order when its size changes
	MendRejection          = Mends(raw.MEND_REJECTION)            // U16 (2.15): rejection although cached memory could be released
	MendReserve            = Mends(raw.MEND_RESERVE)              // U17 (2.15): too small a reserve fails every request
	MendSplitLimit         = Mends(raw.MEND_SPLIT_LIMIT)          // U22: max_split_size_mb makes expandable segments grow without bound
)

// Mending mends defects of PyTorch.
func Mending(mends Mends) Option {
	return func(o *opening) { o.options.Mend = uint32(mends) }
}

// Debugging is what an allocator does to find wrong accesses; docs/debugging.md has more. All calls are slower.
type Debugging uint32

// The ways, to be added up.
const (
	DebugNVTX     = Debugging(raw.DEBUG_NVTX)      // announces memory to compute-sanitizer
	DebugPoison   = Debugging(raw.DEBUG_POISON)    // fills freed blocks with 0xFF
	DebugRedZones = Debugging(raw.DEBUG_RED_ZONES) // looks behind the bytes that were requested
)

// WithDebugging switches debugging on; without it the environment variable CACHALOT_DEBUG decides.
func WithDebugging(debugging Debugging) Option {
	return func(o *opening) { o.options.Debug = uint32(debugging) }
}

// Texts is whose words errors, warnings and tables have. The numbers are the same.
type Texts int

// The wordings.
const (
	// TextsDefault is what the environment variable CACHALOT_TEXTS says ("pytorch", "own"), else TextsPyTorch.
	TextsDefault = Texts(raw.TEXTS_DEFAULT)
	TextsPyTorch = Texts(raw.TEXTS_PYTORCH) // to the letter, for programs that search them
	TextsOwn     = Texts(raw.TEXTS_OWN)     // without PyTorch: "allocated by this process", "set CACHALOT_ALLOC_CONF"
)

// WithTexts chooses the words of messages.
func WithTexts(texts Texts) Option {
	return func(o *opening) { o.options.Texts = narrow(texts) }
}

// WithCaching says whether memory is cached; without it PYTORCH_NO_CUDA_MEMORY_CACHING decides. With false each
// allocation goes to the driver.
func WithCaching(enabled bool) Option {
	return func(o *opening) { o.options.NoCaching = 1 - 2*flag(enabled) }
}

// WithShareablePages says whether expandable pages can be shared with other processes; without it
// TORCH_CUDA_EXPANDABLE_SEGMENTS_IPC decides.
func WithShareablePages(shareable bool) Option {
	return func(o *opening) { o.options.ShareablePages = 2*flag(shareable) - 1 }
}

// CheckEveryCall runs the auditor after every call, and ends the process if it finds something: for tests.
func CheckEveryCall() Option {
	return func(o *opening) { o.options.CheckEveryCall = 1 }
}

// TrackLabels keeps statistics for each label (Allocator.LabelStats); costs a few nanoseconds a call.
func TrackLabels() Option {
	return func(o *opening) { o.options.TrackLabels = 1 }
}

// TrackBlocks lets OnLeak hear of each Block that was collected before it was closed. Costs some hundred
// nanoseconds a block.
func TrackBlocks() Option {
	return func(o *opening) { o.trackBlocks = true }
}

// LogLevel is that of a remark of the library.
type LogLevel int

// The levels.
const (
	LogWarning    = LogLevel(raw.LOG_WARNING)    // a warning of PyTorch, in its words
	LogDifference = LogLevel(raw.LOG_DIFFERENCE) // a mended defect has just changed a decision
	LogDamage     = LogLevel(raw.LOG_DAMAGE)     // a block was written beyond its end (DebugRedZones)
	LogAdvice     = LogLevel(raw.LOG_ADVICE)     // options that harm each other (MendSplitLimit); given once
)

// WithLog gets the library's remarks, one line each; without it the library is silent, but for LogDamage, which
// goes to the standard error output. Called on the goroutine of the call, maybe under a lock: calls of the allocator
// from within are refused. nil is ErrInvalidArgument of Open.
func WithLog(log func(level LogLevel, message string)) Option {
	return func(o *opening) {
		o.need(log != nil, "the log's function")
		o.options.Log = func(level int32, message string) { log(LogLevel(level), message) }
	}
}

// ContextSource is where the contexts of the history come from.
type ContextSource int

// The sources.
const (
	ContextCallback = ContextSource(raw.CONTEXT_CALLBACK) // the functions of WithContexts
	ContextStack    = ContextSource(raw.CONTEXT_STACK)    // native call stacks: of Go they show little
	ContextLabels   = ContextSource(raw.CONTEXT_LABELS)   // the labels in force
)

// WithContextSource chooses where the contexts of the history come from.
func WithContextSource(source ContextSource) Option {
	return func(o *opening) { o.options.ContextSource = narrow(source) }
}

// WithContexts lets the program give the contexts of the history: capture gives the one of the calling goroutine as
// a number, 0: none; text says what a number means, one frame a line, innermost first. nil is ErrInvalidArgument of
// Open.
func WithContexts(capture func() uint64, text func(context uint64) string) Option {
	return func(o *opening) {
		o.need(capture != nil && text != nil, "a function of contexts")
		o.options.ContextSource = raw.CONTEXT_CALLBACK
		o.options.ContextCapture = capture
		o.options.ContextText = text
	}
}

// Open makes an allocator: without options over the GPUs if there are any, else over ordinary memory, with the
// option string of the environment. Nothing is obtained from the driver yet.
//
// The caller closes it. ErrInvalidArgument for an option string that is not acceptable, or nil; ErrNotSupported for an
// option that the driver cannot serve, or a library with another interface; ErrDriverUnavailable.
func Open(options ...Option) (*Allocator, error) {
	if err := checkLibrary(); err != nil {
		return nil, err
	}
	var o opening
	for _, option := range options {
		if o.need(option != nil, "an option"); o.err != nil {
			return nil, o.err
		}
		option(&o)
	}
	if o.err != nil {
		return nil, o.err
	}
	for _, each := range []string{o.text, o.pinnedText} {
		if err := checkText(each); err != nil {
			return nil, err
		}
	}
	if o.driver != nil {
		c, err := o.driver.gate.enter()
		if err != nil {
			return nil, err
		}
		defer c.leave()
		o.options.Driver = o.driver.raw
	}
	opened, keep, err := raw.AllocatorCreate(&o.options)
	if err != nil {
		return nil, wrap(err)
	}
	a := &Allocator{gate: newGate("allocator", parallel), raw: opened, keep: keep, tracksBlocks: o.trackBlocks}
	a.isHost = a.DriverName() == "host"
	a.gate.object = raw.NumberOf(opened)
	if pinned := raw.PinnedAllocator(opened); pinned != nil {
		a.pinned = &Allocator{gate: a.gate, raw: pinned, tracksBlocks: o.trackBlocks, owner: a}
		a.gate.inner = raw.NumberOf(pinned)
	}
	watch(a, a.gate)
	return a, nil
}
