// SPDX-License-Identifier: MIT OR Apache-2.0

package metrics_test

import (
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"cachalot.io/go"
	"cachalot.io/go/metrics"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

const mib = 1 << 20

// simulated is an allocator over two simulated devices, with labels, that ends with the test.
func simulated(t testing.TB, options ...cachalot.Option) *cachalot.Allocator {
	t.Helper()
	device, err := cachalot.OpenSim(cachalot.SimOptions{Capacity: 1024 * mib, Devices: 2})
	if err != nil {
		t.Fatal(err)
	}
	options = append([]cachalot.Option{cachalot.OverDriver(device.Driver), cachalot.WithOptions(""),
		cachalot.TrackLabels()}, options...)
	allocator, err := cachalot.Open(options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = allocator.CloseAll(), device.Close() })
	return allocator
}

func allocate(t testing.TB, a *cachalot.Allocator, size uint64, device int) {
	t.Helper()
	if _, err := a.Allocate(size, device, 0); err != nil {
		t.Fatal(err)
	}
}

// lines are the series of families in the order of their text: with sorted labels, as a registry gives them. An empty
// label is none, for Prometheus too.
func lines(families []*dto.MetricFamily) []string {
	var found []string
	for _, family := range families {
		for _, series := range family.GetMetric() {
			labels := slices.DeleteFunc(series.GetLabel(), func(l *dto.LabelPair) bool { return l.GetValue() == "" })
			series.Label = labels
			slices.SortFunc(labels, func(a, b *dto.LabelPair) int { return strings.Compare(a.GetName(), b.GetName()) })
			found = append(found, fmt.Sprint(family.GetName(), family.GetHelp(), family.GetType(), series))
		}
	}
	slices.Sort(found)
	return found
}

func gather(t testing.TB, collectors ...prometheus.Collector) []*dto.MetricFamily {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(collectors...)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	return families
}

func pageOf(t testing.TB, a *cachalot.Allocator) []*dto.MetricFamily {
	t.Helper()
	page, err := a.Metrics()
	if err != nil {
		t.Fatal(err)
	}
	parser := expfmt.NewTextParser(model.LegacyValidation)
	parsed, err := parser.TextToMetricFamilies(strings.NewReader(page))
	if err != nil {
		t.Fatal(err)
	}
	var families []*dto.MetricFamily
	for _, family := range parsed {
		families = append(families, family)
	}
	return families
}

func TestTheSeriesAreThoseOfTheLibrarysPage(t *testing.T) {
	a := simulated(t)
	allocate(t, a, 3*mib, 0)
	allocate(t, a, 100, 1)
	if _, err := a.CreateTenant(cachalot.TenantOptions{Name: `a "name"` + "\n"}); err != nil {
		t.Fatal(err)
	}
	got, wanted := lines(gather(t, metrics.NewCollector(a))), lines(pageOf(t, a))
	if !slices.Equal(got, wanted) {
		t.Errorf("got\n%s\nwanted\n%s", strings.Join(got, "\n"), strings.Join(wanted, "\n"))
	}
	if len(got) < 100 {
		t.Errorf("only %d series", len(got))
	}
}

func TestEveryScrapeHasTheNumbersOfItsMoment(t *testing.T) {
	a := simulated(t)
	collector := metrics.NewCollector(a)
	expect := func(bytes int) {
		t.Helper()
		wanted := fmt.Sprintf(`# HELP cachalot_allocated_bytes Bytes of blocks that are handed out.
# TYPE cachalot_allocated_bytes gauge
cachalot_allocated_bytes{device="0",pool="large",uuid=""} %d
cachalot_allocated_bytes{device="0",pool="small",uuid=""} 0
cachalot_allocated_bytes{device="1",pool="large",uuid=""} 0
cachalot_allocated_bytes{device="1",pool="small",uuid=""} 0
`, bytes)
		if err := testutil.CollectAndCompare(collector, strings.NewReader(wanted), "cachalot_allocated_bytes"); err != nil {
			t.Error(err)
		}
	}
	expect(0)
	allocate(t, a, 3*mib, 0)
	expect(3 * mib)
}

func TestConstLabelsAreOnEverySeriesAndTellAllocatorsApart(t *testing.T) {
	first := metrics.NewCollector(simulated(t), metrics.WithConstLabels(prometheus.Labels{"allocator": "first"}))
	second := metrics.NewCollector(simulated(t), metrics.WithConstLabels(prometheus.Labels{"allocator": "second"}))
	count := map[string]int{}
	for _, family := range gather(t, first, second) {
		for _, series := range family.GetMetric() {
			for _, label := range series.GetLabel() {
				if label.GetName() == "allocator" {
					count[label.GetValue()]++
				}
			}
		}
	}
	if count["first"] == 0 || count["first"] != testutil.CollectAndCount(first) || count["second"] != count["first"] {
		t.Error(count)
	}
}

func TestALabelThatTheLibraryHasIsRefused(t *testing.T) {
	label := metrics.WithConstLabels(prometheus.Labels{"pool": "mine"})
	if err := prometheus.NewRegistry().Register(metrics.NewCollector(simulated(t), label)); err == nil {
		t.Error("the collector is registered")
	}
	if _, err := metrics.NewHandler(simulated(t), label); err == nil || !strings.Contains(err.Error(), "pool") {
		t.Error(err)
	}
}

func TestACollectorIsUnregisteredAlsoWhenThereAreNewMetrics(t *testing.T) {
	a := simulated(t)
	registry, collector := prometheus.NewRegistry(), metrics.NewCollector(a)
	registry.MustRegister(collector)
	if err := registry.Register(metrics.NewCollector(a)); err == nil {
		t.Error("the same metrics are registered twice")
	}
	if _, err := a.CreateTenant(cachalot.TenantOptions{Name: "new"}); err != nil {
		t.Fatal(err)
	}
	families, err := registry.Gather()
	if err != nil || !strings.Contains(strings.Join(lines(families), "\n"), "cachalot_tenant_priority") {
		t.Errorf("the tenant is missing: %v", err)
	}
	if !registry.Unregister(collector) {
		t.Error("it is still registered")
	}
}

func TestAClosedAllocatorHasNoMetrics(t *testing.T) {
	a := simulated(t)
	registry := prometheus.NewRegistry()
	registry.MustRegister(metrics.NewCollector(a))
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if families, err := registry.Gather(); err != nil || len(families) != 0 {
		t.Errorf("%v, %v", families, err)
	}
}

func TestAHandlerAnswersAScrape(t *testing.T) {
	a := simulated(t)
	handler, err := metrics.NewHandler(a, metrics.WithConstLabels(prometheus.Labels{"pod": "server-0"}))
	if err != nil {
		t.Fatal(err)
	}
	allocate(t, a, 3*mib, 0)
	answer := httptest.NewRecorder()
	handler.ServeHTTP(answer, httptest.NewRequest("GET", "/metrics", nil))
	if kind := answer.Header().Get("Content-Type"); !strings.HasPrefix(kind, "text/plain; version=0.0.4") {
		t.Error(kind)
	}
	line := fmt.Sprintf(`cachalot_requested_bytes{device="0",pod="server-0",pool="large",uuid=""} %g`, float64(3*mib))
	if !strings.Contains(answer.Body.String(), line+"\n") {
		t.Errorf("no line %s in\n%s", line, answer.Body)
	}
}

func TestPrometheusFindsNoFaultInTheNames(t *testing.T) {
	problems, err := testutil.CollectAndLint(metrics.NewCollector(simulated(t)))
	if err != nil || len(problems) != 0 {
		t.Errorf("%v, %v", err, []promlint.Problem(problems))
	}
}

func TestGoroutinesScrapeAtTheSameTime(t *testing.T) {
	a := simulated(t)
	registry := prometheus.NewRegistry()
	registry.MustRegister(metrics.NewCollector(a))
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range 20 {
				allocate(t, a, 100, 0)
				if _, err := registry.Gather(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
}
