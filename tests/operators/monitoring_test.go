// SPDX-License-Identifier: MIT OR Apache-2.0

package operators

import (
	"encoding/json"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/config"
	_ "github.com/prometheus/prometheus/discovery/kubernetes"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/prometheus/common/promslog"
	strict "sigs.k8s.io/yaml"
)

const monitoring = "../../capi/packaging/monitoring/"

// labels are those of a family's series.
type labels map[string]bool

// ofOthers are the families of NVIDIA's exporter and of node_exporter that are used.
var ofOthers = map[string]labels{
	"DCGM_FI_DEV_FB_USED":  {"UUID": true},
	"DCGM_FI_DEV_GPU_UTIL": {"UUID": true},

	"node_textfile_mtime_seconds": {"file": true},
	"node_textfile_scrape_error":  {},
}

// ofTarget are the labels that Prometheus adds (prometheus.yml).
var ofTarget = []string{"job", "instance", "namespace", "pod", "node"}

var (
	series = regexp.MustCompile(`^([a-z_]+)(?:\{(.*)\})? `)
	label  = regexp.MustCompile(`([a-z_]+)="(?:[^"\\]|\\.)*"`)
)

// pages gives the families of the pages in the folder CACHALOT_PAGES, which run.sh has fetched from the library and its
// programs.
func pages(t *testing.T) map[string]labels {
	t.Helper()
	folder := os.Getenv("CACHALOT_PAGES")
	files, err := os.ReadDir(folder)
	if err != nil || len(files) == 0 {
		t.Fatalf("no pages in CACHALOT_PAGES=%q: %v", folder, err)
	}
	families := maps.Clone(ofOthers)
	for _, file := range files {
		text, err := os.ReadFile(folder + "/" + file.Name())
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			if parts := series.FindStringSubmatch(line); parts != nil {
				if families[parts[1]] == nil {
					families[parts[1]] = labels{}
				}
				for _, pair := range label.FindAllStringSubmatch(parts[2], -1) {
					families[parts[1]][pair[1]] = true
				}
			}
		}
	}
	return families
}

// unknown gives what an expression names and no page has.
func unknown(expression string, families map[string]labels) ([]string, error) {
	parsed, err := parser.NewParser(parser.Options{}).ParseExpr(expression)
	if err != nil {
		return nil, err
	}
	var wrong []string
	known := labels{}
	for _, name := range ofTarget {
		known[name] = true
	}
	parser.Inspect(parsed, func(node parser.Node, _ []parser.Node) error {
		if selector, is := node.(*parser.VectorSelector); is {
			family, has := families[selector.Name]
			if !has {
				wrong = append(wrong, "family "+selector.Name)
			}
			maps.Copy(known, family)
			for _, matcher := range selector.LabelMatchers {
				if matcher.Name != "__name__" && !family[matcher.Name] && !slices.Contains(ofTarget, matcher.Name) {
					wrong = append(wrong, selector.Name+" by label "+matcher.Name)
				}
			}
		}
		if call, is := node.(*parser.Call); is && call.Func.Name == "label_replace" {
			known[call.Args[1].(*parser.StringLiteral).Val] = true
		}
		return nil
	})
	ask := func(names []string) {
		for _, name := range names {
			if !known[name] {
				wrong = append(wrong, "label "+name)
			}
		}
	}
	parser.Inspect(parsed, func(node parser.Node, _ []parser.Node) error {
		switch node := node.(type) {
		case *parser.AggregateExpr:
			ask(node.Grouping)
		case *parser.BinaryExpr:
			if node.VectorMatching != nil {
				ask(node.VectorMatching.MatchingLabels)
				ask(node.VectorMatching.Include)
			}
		}
		return nil
	})
	return wrong, nil
}

func compare(t *testing.T, where, expression string, families map[string]labels) {
	t.Helper()
	wrong, err := unknown(expression, families)
	if err != nil || len(wrong) != 0 {
		t.Errorf("%s: %s: %v %v", where, expression, wrong, err)
	}
}

func TestTheDashboardAsksForWhatThePagesHave(t *testing.T) {
	text, err := os.ReadFile(monitoring + "dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ RefId, Expr string }
		}
	}
	if err := json.Unmarshal(text, &dashboard); err != nil {
		t.Fatal(err)
	}
	families := pages(t)
	count := 0
	for _, panel := range dashboard.Panels {
		for i, target := range panel.Targets {
			count++
			compare(t, panel.Title, strings.ReplaceAll(target.Expr, "$__rate_interval", "1m"), families)
			if target.RefId != string(rune('A'+i)) {
				t.Errorf("%s: query %d has the name %q", panel.Title, i, target.RefId)
			}
		}
	}
	if count < 30 {
		t.Errorf("%d queries are too few", count)
	}
}

func TestTheAlertsAskForWhatThePagesHave(t *testing.T) {
	text, err := os.ReadFile(monitoring + "alerts.yml")
	if err != nil {
		t.Fatal(err)
	}
	var rules struct {
		Groups []struct {
			Rules []struct{ Alert, Expr string }
		}
	}
	if err := strict.Unmarshal(text, &rules); err != nil {
		t.Fatal(err)
	}
	families := pages(t)
	for _, group := range rules.Groups {
		for _, rule := range group.Rules {
			compare(t, rule.Alert, rule.Expr, families)
		}
	}
}

func TestWhatNoPageHasIsFound(t *testing.T) {
	families := map[string]labels{"a": {"device": true}, "b": {}}
	for expression, want := range map[string]string{
		"c": "family c", `a{pool="x"}`: "a by label pool", "sum by (pool) (a)": "label pool",
		"a * on (uuid) b": "label uuid", "a * on (device) group_left (uuid) b": "label uuid", "a + b": "",
	} {
		if wrong, err := unknown(expression, families); err != nil || strings.Join(wrong, " ") != want {
			t.Errorf("%s: %v %v", expression, wrong, err)
		}
	}
}

func TestPrometheusReadsItsConfiguration(t *testing.T) {
	if _, err := config.LoadFile(monitoring+"prometheus.yml", false, promslog.NewNopLogger()); err != nil {
		t.Error(err)
	}
}
