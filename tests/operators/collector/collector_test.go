// SPDX-License-Identifier: MIT OR Apache-2.0

package collector

import (
	"context"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/open-telemetry/opentelemetry-collector-contrib/processor/metricstarttimeprocessor"
	"github.com/open-telemetry/opentelemetry-collector-contrib/receiver/prometheusreceiver"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/confmap/provider/envprovider"
	"go.opentelemetry.io/collector/confmap/provider/fileprovider"
	"go.opentelemetry.io/collector/exporter"
	"go.opentelemetry.io/collector/exporter/otlpexporter"
	"go.opentelemetry.io/collector/otelcol"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/pmetric/pmetricotlp"
	"go.opentelemetry.io/collector/processor"
	"go.opentelemetry.io/collector/receiver"
	"go.opentelemetry.io/collector/service/telemetry/otelconftelemetry"
	"google.golang.org/grpc"
)

const configuration = "../../../capi/packaging/monitoring/collector.yml"

// point is a series of one moment.
type point struct {
	kind        string
	value       float64
	start, time pcommon.Timestamp
}

// backend is what the Collector sends to.
type backend struct {
	pmetricotlp.UnimplementedGRPCServer
	sent chan map[string]point
}

func (b *backend) Export(_ context.Context, request pmetricotlp.ExportRequest) (pmetricotlp.ExportResponse, error) {
	b.sent <- points(request.Metrics())
	return pmetricotlp.NewExportResponse(), nil
}

// points gives the library's series by their names and labels.
func points(metrics pmetric.Metrics) map[string]point {
	found := map[string]point{}
	for _, resource := range metrics.ResourceMetrics().All() {
		for _, scope := range resource.ScopeMetrics().All() {
			for _, metric := range scope.Metrics().All() {
				if strings.HasPrefix(metric.Name(), "cachalot_") {
					kind, series := shape(metric)
					for _, one := range series.All() {
						found[named(metric.Name(), one.Attributes().AsRaw())] = point{kind, one.DoubleValue(),
							one.StartTimestamp(), one.Timestamp()}
					}
				}
			}
		}
	}
	return found
}

func shape(metric pmetric.Metric) (string, pmetric.NumberDataPointSlice) {
	if metric.Type() != pmetric.MetricTypeSum {
		return metric.Type().String(), metric.Gauge().DataPoints()
	}
	sum := metric.Sum()
	return fmt.Sprint("Sum ", sum.AggregationTemporality(), " ", sum.IsMonotonic()), sum.DataPoints()
}

func named(name string, labels map[string]any) string {
	for _, label := range slices.Sorted(maps.Keys(labels)) {
		name += fmt.Sprintf(" %s=%v", label, labels[label])
	}
	return name
}

// expected gives the series of a page as points without times.
func expected(t *testing.T, page string) map[string]point {
	t.Helper()
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(page))
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]point{}
	for name, family := range families {
		for _, series := range family.GetMetric() {
			labels := map[string]any{}
			for _, label := range series.GetLabel() {
				labels[label.GetName()] = label.GetValue()
			}
			one := point{kind: "Gauge", value: series.GetGauge().GetValue()}
			if family.GetType() == dto.MetricType_COUNTER {
				one = point{kind: "Sum Cumulative true", value: series.GetCounter().GetValue()}
			}
			found[named(name, labels)] = one
		}
	}
	return found
}

func factories() (otelcol.Factories, error) {
	made := otelcol.Factories{Telemetry: otelconftelemetry.NewFactory()}
	made.Receivers = map[component.Type]receiver.Factory{}
	made.Processors = map[component.Type]processor.Factory{}
	made.Exporters = map[component.Type]exporter.Factory{}
	read, begin, send := prometheusreceiver.NewFactory(), metricstarttimeprocessor.NewFactory(), otlpexporter.NewFactory()
	made.Receivers[read.Type()] = read
	made.Processors[begin.Type()] = begin
	made.Exporters[send.Type()] = send
	return made, nil
}

// run is a Collector until the test ends.
func run(t *testing.T) {
	t.Helper()
	collector, err := otelcol.NewCollector(otelcol.CollectorSettings{
		BuildInfo: component.NewDefaultBuildInfo(),
		Factories: factories,
		ConfigProviderSettings: otelcol.ConfigProviderSettings{ResolverSettings: confmap.ResolverSettings{
			URIs:              []string{"file:" + configuration},
			ProviderFactories: []confmap.ProviderFactory{fileprovider.NewFactory(), envprovider.NewFactory()},
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error)
	go func() { ended <- collector.Run(context.Background()) }()
	t.Cleanup(func() {
		collector.Shutdown()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// listen gives the address of a backend, which ends with the test, and what is sent to it.
func listen(t *testing.T) (string, <-chan map[string]point) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server, made := grpc.NewServer(), &backend{sent: make(chan map[string]point, 100)}
	pmetricotlp.RegisterGRPCServer(server, made)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	return listener.Addr().String(), made.sent
}

func next(t *testing.T, sent <-chan map[string]point) map[string]point {
	t.Helper()
	select {
	case found := <-sent:
		return found
	case <-time.After(time.Minute):
		t.Fatal("nothing was sent in a minute")
		return nil
	}
}

func TestTheCollectorSendsThePageByOtlp(t *testing.T) {
	page, err := os.ReadFile(os.Getenv("CACHALOT_PAGES") + "/run.prom")
	if err != nil {
		t.Fatal(err)
	}
	pages := httptest.NewServer(http.HandlerFunc(func(answer http.ResponseWriter, _ *http.Request) {
		answer.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		_, _ = answer.Write(page)
	}))
	t.Cleanup(pages.Close)
	address, sent := listen(t)
	t.Setenv("CACHALOT_PAGE", pages.Listener.Addr().String())
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", address)
	run(t)
	first, second, wanted := next(t, sent), next(t, sent), expected(t, string(page))
	if len(wanted) < 40 || len(first) != len(wanted) {
		t.Errorf("%d series are sent of %d", len(first), len(wanted))
	}
	sums := 0
	for name, is := range wanted {
		for _, found := range []point{first[name], second[name]} {
			if found.kind != is.kind || found.value != is.value {
				t.Errorf("%s: %v, not %v", name, found, is)
			}
			if is.kind == "Gauge" {
				continue
			}
			sums++
			if found.start == 0 || found.start != first[name].time {
				t.Errorf("%s begins at %v, its first sample is of %v", name, found.start, first[name].time)
			}
		}
		if second[name].time <= first[name].time {
			t.Errorf("%s: the second sample is of %v, the first of %v", name, second[name].time, first[name].time)
		}
	}
	if sums < 20 {
		t.Errorf("only %d points of sums", sums)
	}
}
