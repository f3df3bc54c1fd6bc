// SPDX-License-Identifier: MIT OR Apache-2.0

// Package metrics gives the statistics of a cachalot allocator to Prometheus, as a collector or by HTTP.
//
// The metrics are those of Allocator.Metrics, with the same names, types and labels: docs/serving.md lists them. Those
// of a device also have the label uuid: that of the GPU or of the instance of a divided GPU (MIG), empty where it is
// not known. What the library comes to tell later is there without a change here, since its own page is what is read.
//
//	prometheus.MustRegister(metrics.NewCollector(allocator))
package metrics

import (
	"errors"
	"fmt"
	"strings"
	"sync"

	"cachalot.io/go"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// Option changes what a collector says.
type Option func(*Collector)

// WithConstLabels adds labels to every series: the pod, or what tells several allocators of one process apart.
func WithConstLabels(labels prometheus.Labels) Option {
	return func(c *Collector) { c.labels = labels }
}

// Collector gives an allocator's metrics to a prometheus.Registerer. Any goroutine.
type Collector struct {
	allocator *cachalot.Allocator
	labels    prometheus.Labels
	// descriptions are those of the moment of the first use. A collector that is unregistered has to give the same ones
	// again, but a tenant, for example, brings metrics of its own.
	descriptions func() []*prometheus.Desc
}

var _ prometheus.Collector = (*Collector)(nil)

// NewCollector makes a collector. Each scrape costs what Allocator.Metrics costs. Unregister it before the allocator
// is closed; a closed allocator has no metrics, and that is no error.
func NewCollector(allocator *cachalot.Allocator, options ...Option) *Collector {
	c := &Collector{allocator: allocator}
	for _, option := range options {
		option(c)
	}
	c.descriptions = sync.OnceValue(c.describe)
	return c
}

// Describe implements prometheus.Collector.
func (c *Collector) Describe(descriptions chan<- *prometheus.Desc) {
	for _, each := range c.descriptions() {
		descriptions <- each
	}
}

func (c *Collector) describe() []*prometheus.Desc {
	var found []*prometheus.Desc
	seen := map[string]bool{}
	for _, metric := range c.collect() {
		if desc := metric.Desc(); !seen[desc.String()] {
			seen[desc.String()] = true
			found = append(found, desc)
		}
	}
	return found
}

// Collect implements prometheus.Collector. A page that cannot be read, under backend:cudaMallocAsync where the driver
// fails, is an error of the scrape.
func (c *Collector) Collect(metrics chan<- prometheus.Metric) {
	for _, each := range c.collect() {
		metrics <- each
	}
}

func (c *Collector) collect() []prometheus.Metric {
	families, err := c.families()
	if err != nil {
		return []prometheus.Metric{prometheus.NewInvalidMetric(prometheus.NewInvalidDesc(err), err)}
	}
	return c.metrics(families)
}

func (c *Collector) metrics(families map[string]*dto.MetricFamily) []prometheus.Metric {
	addUuids(families)
	var found []prometheus.Metric
	for _, family := range families {
		for _, series := range family.GetMetric() {
			found = append(found, c.metric(family, series))
		}
	}
	return found
}

// families are those of the library's page by their names.
func (c *Collector) families() (map[string]*dto.MetricFamily, error) {
	page, err := c.allocator.Metrics()
	if errors.Is(err, cachalot.ErrClosed) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cachalot: %w", err)
	}
	return parse(page)
}

func parse(page string) (map[string]*dto.MetricFamily, error) {
	parser := expfmt.NewTextParser(model.LegacyValidation)
	return parser.TextToMetricFamilies(strings.NewReader(page))
}

// addUuids gives each series of a device the label uuid of cachalot_device_info. It is empty where that does not know
// the device, since a registry refuses a name whose series have different labels.
func addUuids(families map[string]*dto.MetricFamily) {
	name, uuids := "uuid", map[string]string{}
	for _, series := range families["cachalot_device_info"].GetMetric() {
		uuids[labelOf(series, "device").GetValue()] = labelOf(series, name).GetValue()
	}
	for _, family := range families {
		for _, series := range family.GetMetric() {
			device := labelOf(series, "device")
			if device != nil && labelOf(series, name) == nil {
				uuid := uuids[device.GetValue()]
				series.Label = append(series.Label, &dto.LabelPair{Name: &name, Value: &uuid})
			}
		}
	}
}

// labelOf gives nil where the series has no such label.
func labelOf(series *dto.Metric, name string) *dto.LabelPair {
	for _, label := range series.GetLabel() {
		if label.GetName() == name {
			return label
		}
	}
	return nil
}

func (c *Collector) metric(family *dto.MetricFamily, series *dto.Metric) prometheus.Metric {
	names := make([]string, len(series.GetLabel()))
	values := make([]string, len(series.GetLabel()))
	for i, label := range series.GetLabel() {
		names[i], values[i] = label.GetName(), label.GetValue()
	}
	kind, value := prometheus.GaugeValue, series.GetGauge().GetValue()
	if family.GetType() == dto.MetricType_COUNTER {
		kind, value = prometheus.CounterValue, series.GetCounter().GetValue()
	}
	desc := prometheus.NewDesc(family.GetName(), family.GetHelp(), names, c.labels)
	metric, err := prometheus.NewConstMetric(desc, kind, value, values...)
	if err != nil {
		return prometheus.NewInvalidMetric(desc, err)
	}
	return metric
}
