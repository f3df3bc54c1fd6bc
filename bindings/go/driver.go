// SPDX-License-Identifier: MIT OR Apache-2.0

package cachalot

import "cachalot.io/go/internal/raw"

// Driver is where allocators get memory from: NVIDIA GPUs ("cuda"), ordinary memory ("host"), or accounts only
// ("sim"). It may be closed once the allocators over it have been opened: they keep it. All methods may be called
// from any goroutine at the same time.
type Driver struct {
	gate *gate
	raw  raw.Driver
}

// OpenDriver opens a driver by name: "cuda", "host" or "sim", each alone or with a capacity ("sim:80GiB"; B, KiB,
// MiB, GiB, TiB, or bytes without a unit). "" takes the environment variable CACHALOT_DRIVER, and if that is unset
// too "cuda" where a driver can be opened, else "host".
//
// The caller closes it. ErrInvalidArgument for a name that is none of these; ErrDriverUnavailable where the driver
// or the device is missing.
func OpenDriver(name string) (*Driver, error) {
	if err := checkText(name); err != nil {
		return nil, err
	}
	return newDriver(func() (raw.Driver, error) { return raw.DriverOpen(name) })
}

// OpenHost opens a driver over ordinary memory: blocks can be read and written (Block.Bytes), and work is done when
// a call returns.
//
// capacity is in bytes for each device, 0: 4 GiB; touched memory only is taken from the system. devices is their
// number, 0: 1. The caller closes the driver. ErrInvalidArgument for a negative number of devices.
func OpenHost(capacity uint64, devices int) (*Driver, error) {
	return newDriver(func() (raw.Driver, error) { return raw.DriverCreateHost(capacity, narrow(devices)) })
}

func newDriver(open func() (raw.Driver, error)) (*Driver, error) {
	if err := checkLibrary(); err != nil {
		return nil, err
	}
	opened, err := open()
	if err != nil {
		return nil, wrap(err)
	}
	d := &Driver{gate: newGate("driver", 1), raw: opened}
	watch(d, d.gate)
	return d, nil
}

// do calls a function of the driver that can fail.
func (d *Driver) do(call func(raw.Driver) error) error {
	c, err := d.gate.enter()
	if err != nil {
		return err
	}
	defer c.leave()
	return wrap(call(d.raw))
}

// Name is "cuda", "host", "sim" or "custom"; "" once the driver is closed.
func (d *Driver) Name() string {
	name := ""
	_ = d.do(func(driver raw.Driver) error { name = raw.DriverName(driver); return nil })
	return name
}

// DeviceCount is how many devices the driver has; 0 once it is closed.
func (d *Driver) DeviceCount() int {
	count := 0
	_ = d.do(func(driver raw.Driver) error { count = int(raw.DriverDeviceCount(driver)); return nil })
	return count
}

// Close gives the driver back, which ends with its last allocator. Again: nothing.
func (d *Driver) Close() error {
	return d.gate.close(func() error {
		raw.DriverDestroy(d.raw)
		return nil
	})
}
