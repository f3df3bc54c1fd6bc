// SPDX-License-Identifier: MIT OR Apache-2.0

package cachalot

import "cachalot.io/go/internal/raw"

// AllDevices stands for each device in Tenant.SetBytes.
const AllDevices = int(raw.ALL_DEVICES)

// PressureReason is why a tenant is asked for memory.
type PressureReason int

// The reasons.
const (
	PressureLimit     = PressureReason(raw.PRESSURE_LIMIT)     // the tenant's own request is beyond its limit
	PressureGuarantee = PressureReason(raw.PRESSURE_GUARANTEE) // what others are guaranteed would not be left
	PressureDevice    = PressureReason(raw.PRESSURE_DEVICE)    // the device has no memory left
)

// Pressure is what a tenant is asked. Bytes.
type Pressure struct {
	Reason PressureReason `json:"reason"`
	Device int            `json:"device"`
	// MissingBytes would make room, as far as is known.
	MissingBytes uint64 `json:"missing_bytes"`
	// AllocatedBytes and GuaranteedBytes are what the tenant that is asked has, and is guaranteed.
	AllocatedBytes  uint64 `json:"allocated_bytes"`
	GuaranteedBytes uint64 `json:"guaranteed_bytes"`
	// Requester is the id of the tenant for which it is (0: the default one).
	Requester         uint64 `json:"requester"`
	RequesterName     string `json:"requester_name"`
	RequesterPriority int    `json:"requester_priority"`
	// IsGuaranteed: the request is within that tenant's guarantee.
	IsGuaranteed bool `json:"is_guaranteed"`
}

// TenantOptions are how a tenant is made. Zero means default in every field.
type TenantOptions struct {
	// Name is for messages, statistics and metrics; at most 63 bytes. "": "tenant N".
	Name string
	// GuaranteedBytes are those of each device that others cannot take.
	GuaranteedBytes uint64
	// LimitBytes are the most on each device; 0: no limit. Not below the guarantee.
	LimitBytes uint64
	// Priority, of 32 bits: tenants of lower priority give first.
	Priority int
	// OnPressure asks the tenant to free memory of its own, and gives the bytes that were freed; 0: none, and it is
	// not asked again for this request. It runs on the goroutine of the request with no lock held, maybe on several
	// at the same time; it may free, allocate and read statistics, and must not wait for a goroutine that waits for
	// memory. nil: the tenant is never asked.
	OnPressure func(Pressure) uint64
}

// Tenant is one of several users of an allocator (models of a server, say), with memory that the others cannot
// take, a limit, and a function that is asked to give memory back. cachalot/tenant.h has the rules.
type Tenant struct {
	gate      *gate
	raw       raw.Tenant
	allocator *Allocator
}

// CreateTenant makes a tenant, which the caller closes. ErrInvalidArgument for a limit below the guarantee, a name
// that is too long, a priority that is not of 32 bits, or guarantees that together are more than a device has;
// ErrNotSupported under backend:cudaMallocAsync; ErrDriver if the driver does not tell its memory. From the first
// tenant on all requests of the allocator take longer.
func (a *Allocator) CreateTenant(options TenantOptions) (*Tenant, error) {
	if err := checkText(options.Name); err != nil {
		return nil, err
	}
	priority, err := priorityOf(options.Priority)
	if err != nil {
		return nil, err
	}
	c := raw.TenantOptions{Name: text(options.Name), GuaranteedBytes: options.GuaranteedBytes,
		LimitBytes: options.LimitBytes, Priority: priority}
	if give := options.OnPressure; give != nil {
		c.Pressure = func(p raw.Pressure) uint64 { return give(pressureOf(p)) }
	}
	tenant, err := ask(a, func(r raw.Allocator) (raw.Tenant, error) { return raw.TenantCreate(r, &c) })
	if err != nil {
		return nil, err
	}
	t := &Tenant{gate: newGate("tenant", 1), raw: tenant, allocator: a}
	t.gate.object = raw.NumberOfTenant(tenant)
	watch(t, t.gate)
	return t, nil
}

func pressureOf(p raw.Pressure) Pressure {
	return Pressure{
		Reason: PressureReason(p.Reason), Device: int(p.Device), MissingBytes: p.MissingBytes,
		AllocatedBytes: p.AllocatedBytes, GuaranteedBytes: p.GuaranteedBytes, Requester: p.Requester,
		RequesterName: p.RequesterName, RequesterPriority: int(p.RequesterPriority), IsGuaranteed: p.IsGuaranteed != 0,
	}
}

// do calls a function of the tenant that can fail.
func (t *Tenant) do(call func(raw.Tenant) error) error {
	c, err := t.gate.enter()
	if err != nil {
		return err
	}
	defer c.leave()
	return wrap(call(t.raw))
}

// Allocator is whose tenant it is.
func (t *Tenant) Allocator() *Allocator {
	return t.allocator
}

// Allocate is Allocator.Allocate for this tenant. ErrInvalidState while caching is off.
func (t *Tenant) Allocate(size uint64, device int, stream Stream) (*Block, error) {
	var address raw.Address
	err := t.do(func(tenant raw.Tenant) error {
		return t.allocator.do(func(r raw.Allocator) (err error) {
			address, err = raw.AllocateFor(r, tenant, size, narrow(device), raw.Stream(stream))
			return err
		})
	})
	if err != nil {
		return nil, err
	}
	return newBlock(t.allocator, Address(address), size), nil
}

// Scope makes this the tenant of all requests of the calling goroutine to its allocator that name none, until the
// function that it gives is called, on the same goroutine, which is locked to its thread meanwhile. These nest; the
// last is ended first, else the end is ErrInvalidState. Where there is a context WithTenant costs less.
func (t *Tenant) Scope() (end func() error, err error) {
	c, err := t.gate.enter()
	if err != nil {
		return nil, err
	}
	defer c.leave()
	// A tenant that is some goroutine's cannot be closed, so it is there at the end too.
	return onThread(
		func() error { return raw.TenantBegin(t.raw) },
		func() error { return raw.TenantEnd(t.raw) },
	)
}

// SetBytes sets guarantee and limit (0: none) of a device, or of AllDevices, for later requests. Blocks stay what
// they are. Errors as of CreateTenant: then nothing is changed.
func (t *Tenant) SetBytes(device int, guaranteed, limit uint64) error {
	return t.do(func(r raw.Tenant) error { return raw.TenantSetBytes(r, narrow(device), guaranteed, limit) })
}

// SetPriority sets the priority for later requests. ErrInvalidArgument for one that is not of 32 bits.
func (t *Tenant) SetPriority(priority int) error {
	c, err := priorityOf(priority)
	if err != nil {
		return err
	}
	return t.do(func(r raw.Tenant) error { return raw.TenantSetPriority(r, c) })
}

func priorityOf(priority int) (int32, error) {
	if int(narrow(priority)) != priority {
		return 0, argumentError("a priority is not of 32 bits")
	}
	return int32(priority), nil
}

// TenantStats is what one tenant has on one device.
type TenantStats struct {
	// ID is ascending in the order of creation; 0: the default tenant.
	ID              uint64 `json:"id"`
	Device          int    `json:"device"`
	Priority        int    `json:"priority"`
	GuaranteedBytes uint64 `json:"guaranteed_bytes"`
	// LimitBytes 0: none.
	LimitBytes uint64 `json:"limit_bytes"`
	// Allocation counts its blocks; AllocatedBytes are theirs, RequestedBytes what was requested of them.
	Allocation     Stat `json:"allocation"`
	AllocatedBytes Stat `json:"allocated_bytes"`
	RequestedBytes Stat `json:"requested_bytes"`
	// NumOOMs counts its requests that ended as out of memory, NumPressureCalls how often it was asked,
	// PressureFreedBytes by how many bytes what it has sank meanwhile.
	NumOOMs            int64  `json:"num_ooms"`
	NumPressureCalls   int64  `json:"num_pressure_calls"`
	PressureFreedBytes int64  `json:"pressure_freed_bytes"`
	Name               string `json:"name"`
	// AsleepBytes are those of its blocks whose pools sleep, which the figures above leave out.
	AsleepBytes uint64 `json:"asleep_bytes"`
}

func tenantStatsOf(s raw.TenantStats) TenantStats {
	return TenantStats{
		ID: s.Id, Device: int(s.Device), Priority: int(s.Priority), GuaranteedBytes: s.GuaranteedBytes,
		LimitBytes: s.LimitBytes, Allocation: Stat(s.Allocation), AllocatedBytes: Stat(s.AllocatedBytes),
		RequestedBytes: Stat(s.RequestedBytes), NumOOMs: s.NumOoms, NumPressureCalls: s.NumPressureCalls,
		PressureFreedBytes: s.PressureFreedBytes, Name: s.Name,
		AsleepBytes: s.AsleepBytes,
	}
}

// Stats is what the tenant has on a device.
func (t *Tenant) Stats(device int) (stats TenantStats, err error) {
	err = t.do(func(r raw.Tenant) error {
		found, err := raw.GetTenantStats(r, narrow(device))
		stats = tenantStatsOf(found)
		return err
	})
	return stats, err
}

// TenantStats are those of all tenants on a device: the default one, then the others in the order of their creation;
// none before the first was made. Their blocks and bytes sum up to the device's.
func (a *Allocator) TenantStats(device int) ([]TenantStats, error) {
	return rows(a, raw.TenantCount,
		func(r raw.Allocator, i uint64) (raw.TenantStats, error) {
			return raw.TenantStatsAt(r, narrow(device), i)
		},
		tenantStatsOf)
}

// Close ends the tenant, also after its allocator. Again: nothing. ErrInvalidState while it has live blocks or is
// the tenant of a goroutine (Scope), or from within a callback: then it is there as before.
func (t *Tenant) Close() error {
	return t.gate.close(func() error { return wrap(raw.TenantDestroy(t.raw)) })
}
