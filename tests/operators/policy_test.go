// SPDX-License-Identifier: MIT OR Apache-2.0

package operators

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"slices"
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
	pod.Spec.Volumes = []core.Volume{{Name: "models"}}
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
		"CACHALOT_RUN_METRICS": "/cachalot-output/%p.prom",
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
	copies := pod.Spec.InitContainers
	if len(copies) != 1 || !slices.Equal(copies[0].Command, []string{"copy-cachalot", "/cachalot"}) {
		t.Fatalf("init containers: %v", copies)
	}
	if !slices.Equal(copies[0].SecurityContext.Capabilities.Drop, []core.Capability{"ALL"}) {
		t.Errorf("capabilities: %v", copies[0].SecurityContext.Capabilities)
	}
}

func TestThePolicyRecords(t *testing.T) {
	values := environmentOf(newEvaluator(t).admitted(server("record")).Spec.Containers[0])
	if values["CACHALOT_RECORD"] != "/cachalot-output/%p.trace" {
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
		if len(admitted.Spec.InitContainers) != 2 || len(admitted.Spec.Volumes) != 3 ||
			len(admitted.Spec.Containers[0].Env) != 4 {
			t.Errorf("%v", admitted.Spec)
		}
	}
}
