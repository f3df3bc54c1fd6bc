// SPDX-License-Identifier: MIT OR Apache-2.0

package metrics

import (
	"slices"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// page is a collector of a page that stays.
type page string

func (p page) Describe(descriptions chan<- *prometheus.Desc) {
	prometheus.DescribeByCollect(p, descriptions)
}

func (p page) Collect(metrics chan<- prometheus.Metric) {
	families, err := parse(string(p))
	if err != nil {
		panic(err)
	}
	for _, each := range (&Collector{}).metrics(families) {
		metrics <- each
	}
}

func TestASeriesOfAKnownDeviceHasItsUuid(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(page(`# TYPE cachalot_device_info gauge
cachalot_device_info{device="1",uuid="MIG-1",gpu_uuid="GPU-1",pci_bus_id="0000:01:00.0"} 1
# TYPE cachalot_limit_bytes gauge
cachalot_limit_bytes{device="0"} 3
cachalot_limit_bytes{device="1"} 7
# TYPE cachalot_host_reserved_bytes gauge
cachalot_host_reserved_bytes 5
`))
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, family := range families {
		for _, series := range family.GetMetric() {
			text := family.GetName()
			for _, label := range series.GetLabel() {
				text += " " + label.GetName() + "=" + label.GetValue()
			}
			found = append(found, text)
		}
	}
	wanted := []string{
		"cachalot_device_info device=1 gpu_uuid=GPU-1 pci_bus_id=0000:01:00.0 uuid=MIG-1",
		"cachalot_host_reserved_bytes",
		"cachalot_limit_bytes device=0 uuid=",
		"cachalot_limit_bytes device=1 uuid=MIG-1",
	}
	if !slices.Equal(found, wanted) {
		t.Errorf("got %q", found)
	}
}
