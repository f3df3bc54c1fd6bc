// SPDX-License-Identifier: MIT OR Apache-2.0

package operators

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	admissionregistration "k8s.io/api/admissionregistration/v1"
	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/policy/mutating/patch"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/client-go/applyconfigurations"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/pod-security-admission/api"
	security "k8s.io/pod-security-admission/policy"
	strict "sigs.k8s.io/yaml"
)

const kubernetes = "../../capi/packaging/kubernetes/"

// read gives the documents of a file, each decoded by the type of its place; a field that the type lacks is an error.
func read(t *testing.T, file string, into ...any) {
	t.Helper()
	opened, err := os.Open(kubernetes + file)
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close()
	documents := yaml.NewDocumentDecoder(opened)
	defer documents.Close()
	for _, object := range into {
		text := make([]byte, 1<<20)
		length, err := documents.Read(text)
		if err != nil {
			t.Fatal(err)
		}
		if err := strict.UnmarshalStrict(text[:length], object); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
	}
	if _, err := documents.Read(make([]byte, 1<<20)); err != io.EOF {
		t.Fatalf("%s has more documents than %d", file, len(into))
	}
}

func TestThePodHasTheFieldsOfKubernetes(t *testing.T) {
	var pod core.Pod
	read(t, "pod.yaml", &pod)
	if len(pod.Spec.InitContainers) != 2 || len(pod.Spec.Containers) != 1 {
		t.Fatalf("%d init containers, %d containers", len(pod.Spec.InitContainers), len(pod.Spec.Containers))
	}
}

// evaluator does what the API server does with a policy, by its own code.
type evaluator struct {
	t        *testing.T
	matches  matchconditions.Matcher
	patchers []patch.Patcher
	compiled *cel.CompositedCompiler
}

func newEvaluator(t *testing.T) *evaluator {
	t.Helper()
	var policy admissionregistration.MutatingAdmissionPolicy
	var binding admissionregistration.MutatingAdmissionPolicyBinding
	read(t, "policy.yaml", &policy, &binding)
	if binding.Spec.PolicyName != policy.Name {
		t.Fatalf("the binding is of %q, the policy is %q", binding.Spec.PolicyName, policy.Name)
	}
	compiler, err := cel.NewCompositedCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
	if err != nil {
		t.Fatal(err)
	}
	made := &evaluator{t: t, compiled: compiler}
	options := cel.OptionalVariableDeclarations{HasAuthorizer: true}
	var variables []cel.NamedExpressionAccessor
	for _, v := range policy.Spec.Variables {
		variables = append(variables, &validating.Variable{Name: v.Name, Expression: v.Expression})
	}
	compiler.CompileAndStoreVariables(variables, options, environment.StoredExpressions)
	var conditions []cel.ExpressionAccessor
	for i := range policy.Spec.MatchConditions {
		conditions = append(conditions, (*matchconditions.MatchCondition)(&policy.Spec.MatchConditions[i]))
	}
	compiled := compiler.CompileCondition(conditions, options, environment.StoredExpressions)
	made.matches = matchconditions.NewMatcher(compiled, policy.Spec.FailurePolicy, "policy", "validate", policy.Name)
	options.HasPatchTypes = true
	for _, mutation := range policy.Spec.Mutations {
		if mutation.PatchType == admissionregistration.PatchTypeJSONPatch {
			made.patchers = append(made.patchers, patch.NewJSONPatcher(compiler.CompileMutatingEvaluator(
				&patch.JSONPatchCondition{Expression: mutation.JSONPatch.Expression}, options, environment.StoredExpressions)))
		} else {
			made.patchers = append(made.patchers, patch.NewApplyConfigurationPatcher(compiler.CompileMutatingEvaluator(
				&patch.ApplyConfigurationCondition{Expression: mutation.ApplyConfiguration.Expression}, options,
				environment.StoredExpressions)))
		}
	}
	return made
}

// admitted gives what becomes of a pod.
func (e *evaluator) admitted(pod *core.Pod) *core.Pod {
	e.t.Helper()
	pod = pod.DeepCopy()
	pod.TypeMeta = meta.TypeMeta{APIVersion: "v1", Kind: "Pod"}
	kind := pod.GroupVersionKind()
	ctx := e.compiled.CreateContext(context.Background())
	for _, patcher := range e.patchers {
		attributes := &admission.VersionedAttributes{
			Attributes: admission.NewAttributesRecord(pod, nil, kind, "default", pod.Name,
				core.SchemeGroupVersion.WithResource("pods"), "", admission.Create, &meta.CreateOptions{}, false, nil),
			VersionedKind:   kind,
			VersionedObject: admission.NewLazyObject(pod),
		}
		matched := e.matches.Match(ctx, attributes, nil, nil)
		if matched.Error != nil {
			e.t.Fatal(matched.Error)
		}
		if !matched.Matches {
			return pod
		}
		patched, err := patcher.Patch(ctx, patch.Request{
			MatchedResource:     core.SchemeGroupVersion.WithResource("pods"),
			VersionedAttributes: attributes,
			ObjectInterfaces:    admission.NewObjectInterfacesFromScheme(scheme.Scheme),
			OptionalVariables:   cel.OptionalVariableBindings{},
			TypeConverter:       applyconfigurations.NewTypeConverter(scheme.Scheme),
		}, celconfig.RuntimeCELCostBudget)
		if err != nil {
			e.t.Fatal(err)
		}
		pod = podOf(e.t, patched)
	}
	return pod
}

func podOf(t *testing.T, object runtime.Object) *core.Pod {
	t.Helper()
	text, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	var pod core.Pod
	if err := strict.UnmarshalStrict(text, &pod); err != nil {
		t.Fatal(err)
	}
	return &pod
}

func server(mode string) *core.Pod {
	pod := &core.Pod{ObjectMeta: meta.ObjectMeta{Name: "server", Labels: map[string]string{"app": "server"}}}
	if mode != "" {
		pod.Labels["cachalot.io/run"] = mode
	}
	empty := core.VolumeSource{EmptyDir: &core.EmptyDirVolumeSource{}}
	pod.Spec.Volumes = []core.Volume{{Name: "models", VolumeSource: empty}}
	pod.Spec.Containers = []core.Container{{
		Name: "server", Image: "server:1", Env: []core.EnvVar{{Name: "PORT", Value: "8000"}},
		Resources: core.ResourceRequirements{Limits: core.ResourceList{"nvidia.com/gpu": resource.MustParse("1")}},
	}, {Name: "proxy", Image: "proxy:1"}}
	return pod
}

func environmentOf(container core.Container) map[string]string {
	values := map[string]string{}
	for _, variable := range container.Env {
		values[variable.Name] = variable.Value
	}
	return values
}

func TestThePolicyServesContainersThatHaveAGpu(t *testing.T) {
	pod := newEvaluator(t).admitted(server("event"))
	values := environmentOf(pod.Spec.Containers[0])
	for name, value := range map[string]string{
		"PORT": "8000", "LD_AUDIT": "/cachalot/lib/cachalot/libcachalot_audit.so", "CACHALOT_RUN_FREE": "event",
		"CACHALOT_RUN_METRICS": "/cachalot-output/server-%p.prom",
	} {
		if values[name] != value {
			t.Errorf("%s is %q, not %q", name, values[name], value)
		}
	}
	if mounts := pod.Spec.Containers[0].VolumeMounts; len(mounts) != 2 || !mounts[0].ReadOnly || mounts[1].ReadOnly {
		t.Errorf("mounts: %v", mounts)
	}
	if len(pod.Spec.Containers[1].Env) != 0 || len(pod.Spec.Containers[1].VolumeMounts) != 0 {
		t.Errorf("a container without a GPU is changed: %v", pod.Spec.Containers[1])
	}
	if len(pod.Spec.Volumes) != 3 || pod.Spec.Volumes[0].Name != "models" {
		t.Errorf("volumes: %v", pod.Spec.Volumes)
	}
	added := pod.Spec.InitContainers
	if len(added) != 2 || !slices.Equal(added[0].Command, []string{"copy-cachalot", "/cachalot"}) {
		t.Fatalf("init containers: %v", added)
	}
	for _, container := range added {
		if !slices.Equal(container.SecurityContext.Capabilities.Drop, []core.Capability{"ALL"}) {
			t.Errorf("capabilities of %s: %v", container.Name, container.SecurityContext.Capabilities)
		}
		if limits := container.Resources.Limits; limits.Cpu().MilliValue() != 100 || limits.Memory().Value() != 64<<20 {
			t.Errorf("limits of %s: %v", container.Name, limits)
		}
	}
}

func TestThePagesOfAPodHaveAContainerThatServesThem(t *testing.T) {
	pod := newEvaluator(t).admitted(server("wait"))
	if pod.Labels["cachalot.io/metrics"] != "true" || pod.Labels["app"] != "server" {
		t.Errorf("labels: %v", pod.Labels)
	}
	i := slices.IndexFunc(pod.Spec.InitContainers, func(c core.Container) bool { return c.Name == "cachalot-metrics" })
	if i < 0 {
		t.Fatalf("init containers: %v", pod.Spec.InitContainers)
	}
	exporter := pod.Spec.InitContainers[i]
	folder := exporter.VolumeMounts[0].MountPath
	if !slices.Contains(exporter.Args, "--collector.textfile.directory="+folder) {
		t.Errorf("it has %s and serves %v", folder, exporter.Args)
	}
	if !strings.HasPrefix(environmentOf(pod.Spec.Containers[0])["CACHALOT_RUN_METRICS"], folder+"/") {
		t.Errorf("the pages are not in %s", folder)
	}
	if exporter.RestartPolicy == nil || *exporter.RestartPolicy != core.ContainerRestartPolicyAlways {
		t.Error("the server waits for its end")
	}
	if ports := exporter.Ports; len(ports) != 1 || ports[0].Name != "metrics" || ports[0].ContainerPort != 9100 {
		t.Errorf("ports: %v", ports)
	}
}

func TestTheFilesOfContainersHaveNamesOfTheirOwn(t *testing.T) {
	for mode, variable := range map[string]string{"wait": "CACHALOT_RUN_METRICS", "record": "CACHALOT_RECORD"} {
		pod := server(mode)
		pod.Spec.Containers[1].Resources = pod.Spec.Containers[0].Resources
		containers := newEvaluator(t).admitted(pod).Spec.Containers
		first, second := environmentOf(containers[0])[variable], environmentOf(containers[1])[variable]
		if first == second || !strings.Contains(first, "%p") || !strings.Contains(second, "%p") {
			t.Errorf("%s: %q, %q", variable, first, second)
		}
	}
}

// forbidden gives what the standard "restricted" of namespaces has against a pod.
func forbidden(t *testing.T, pod *core.Pod) string {
	t.Helper()
	evaluator, err := security.NewEvaluator(security.DefaultChecks(), nil)
	if err != nil {
		t.Fatal(err)
	}
	level := api.LevelVersion{Level: api.LevelRestricted, Version: api.LatestVersion()}
	found := security.AggregateCheckResults(evaluator.EvaluatePod(level, &pod.ObjectMeta, &pod.Spec))
	return found.ForbiddenDetail()
}

// restricted gives a server whose containers say themselves what the standard wants; others have nothing of the pod.
func restricted(mode string) *core.Pod {
	pod := server(mode)
	yes, no := true, false
	for i := range pod.Spec.Containers {
		pod.Spec.Containers[i].SecurityContext = &core.SecurityContext{
			RunAsNonRoot: &yes, AllowPrivilegeEscalation: &no,
			Capabilities:   &core.Capabilities{Drop: []core.Capability{"ALL"}},
			SeccompProfile: &core.SeccompProfile{Type: core.SeccompProfileTypeRuntimeDefault},
		}
	}
	return pod
}

func TestARestrictedNamespaceTakesThePods(t *testing.T) {
	var pod core.Pod
	read(t, "pod.yaml", &pod)
	if found := forbidden(t, &pod); found != "" {
		t.Errorf("pod.yaml: %s", found)
	}
	for _, mode := range []string{"wait", "record"} {
		admitted := newEvaluator(t).admitted(restricted(mode))
		if found := forbidden(t, admitted); found != "" {
			t.Errorf("%s: %s", mode, found)
		}
		for i := range admitted.Spec.InitContainers {
			open := admitted.DeepCopy()
			open.Spec.InitContainers[i].SecurityContext.SeccompProfile = nil
			if found := forbidden(t, open); !strings.Contains(found, open.Spec.InitContainers[i].Name) {
				t.Errorf("%s: without a profile of system calls the pod is taken: %q", mode, found)
			}
		}
	}
}

func TestThePolicyRecords(t *testing.T) {
	pod := newEvaluator(t).admitted(server("record"))
	if len(pod.Spec.InitContainers) != 1 || pod.Labels["cachalot.io/metrics"] != "" {
		t.Errorf("pages are served that nothing writes: %v", pod)
	}
	values := environmentOf(pod.Spec.Containers[0])
	if values["CACHALOT_RECORD"] != "/cachalot-output/server-%p.trace" {
		t.Errorf("CACHALOT_RECORD is %q", values["CACHALOT_RECORD"])
	}
	if _, is := values["CACHALOT_RUN_FREE"]; is {
		t.Error("a recorded program is served")
	}
}

func TestThePolicyLeavesOtherPodsAlone(t *testing.T) {
	for _, mode := range []string{"", "none"} {
		pod := newEvaluator(t).admitted(server(mode))
		if len(pod.Spec.InitContainers) != 0 || len(pod.Spec.Volumes) != 1 {
			t.Errorf("label %q: %v", mode, pod.Spec)
		}
	}
	bare := server("")
	bare.Labels = nil
	newEvaluator(t).admitted(bare)
}

func TestThePolicyKeepsInitContainersAndAddsItsOwnOnce(t *testing.T) {
	pod := server("wait")
	pod.Spec.InitContainers = []core.Container{{Name: "models", Image: "models:1"}}
	policy := newEvaluator(t)
	once := policy.admitted(pod)
	twice := policy.admitted(once)
	for _, admitted := range []*core.Pod{once, twice} {
		if len(admitted.Spec.InitContainers) != 3 || len(admitted.Spec.Volumes) != 3 ||
			len(admitted.Spec.Containers[0].Env) != 4 {
			t.Errorf("%v", admitted.Spec)
		}
	}
}
