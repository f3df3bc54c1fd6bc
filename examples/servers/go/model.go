// SPDX-License-Identifier: MIT OR Apache-2.0

package main

import (
	"errors"
	"fmt"
	"os"
	"runtime"

	ort "github.com/yalue/onnxruntime_go"
)

// model is a file of which sessions are made.
type model struct {
	path string
	// size is that of the file in bytes: about what a session's weights take.
	size uint64
	// inputs and outputs are their names, one each.
	inputs, outputs []string
}

func newModel(path string) (*model, error) {
	file, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	m := &model{path: path, size: uint64(file.Size())}
	if err := m.readNames(); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return m, nil
}

// readNames makes a session for it, as onnxruntime_go needs the names before it makes one to be run. This one's memory
// is not cachalot's, and there is little of it.
func (m *model) readNames() error {
	options, err := ort.NewSessionOptions()
	if err != nil {
		return err
	}
	defer options.Destroy()
	err = errors.Join(
		options.SetGraphOptimizationLevel(ort.GraphOptimizationLevelDisableAll),
		options.SetIntraOpNumThreads(1),
		options.SetCpuMemArena(false),
	)
	if err != nil {
		return err
	}
	inputs, outputs, err := ort.GetInputOutputInfoWithOptions(m.path, options)
	if err != nil {
		return err
	}
	if len(inputs) != 1 || len(outputs) != 1 {
		return fmt.Errorf("it has %d inputs and %d outputs, not one each", len(inputs), len(outputs))
	}
	m.inputs, m.outputs = []string{inputs[0].Name}, []string{outputs[0].Name}
	return nil
}

// session is a model in memory, for one run at a time.
type session struct {
	raw *ort.DynamicAdvancedSession
}

// open makes a session whose memory is cachalot's.
func (m *model) open() (*session, error) {
	options, err := ort.NewSessionOptions()
	if err != nil {
		return nil, err
	}
	defer options.Destroy()
	err = errors.Join(
		options.SetGraphOptimizationLevel(ort.GraphOptimizationLevelEnableAll),
		options.SetIntraOpNumThreads(1),
		options.SetExecutionMode(ort.ExecutionModeSequential),
		options.SetMemPattern(false),
		options.AddSessionConfigEntry("session.use_env_allocators", "1"),
		options.AddSessionConfigEntry("session.use_device_allocator_for_initializers", "1"),
	)
	if err != nil {
		return nil, err
	}
	raw, err := ort.NewDynamicAdvancedSession(m.path, m.inputs, m.outputs, options)
	if err != nil {
		return nil, err
	}
	return &session{raw}, nil
}

func (s *session) close() {
	_ = s.raw.Destroy() // which never fails
}

// run lets look see the only output. onnxruntime_go has copied it to memory of Go's then, and released what ONNX
// Runtime had.
func (s *session) run(shape ort.Shape, planes []float32, look func(ort.Shape, []float32) error) error {
	var pinned runtime.Pinner // ONNX Runtime keeps the address as long as the tensor lives
	defer pinned.Unpin()
	pinned.Pin(&planes[0])
	input, err := ort.NewTensor(shape, planes)
	if err != nil {
		return err
	}
	defer input.Destroy()
	outputs := []ort.Value{nil}
	if err := s.raw.Run([]ort.Value{input}, outputs); err != nil {
		return err
	}
	defer outputs[0].Destroy()
	output, is := outputs[0].(*ort.Tensor[float32])
	if !is {
		return fmt.Errorf("the model gave a %T", outputs[0])
	}
	return look(output.GetShape(), output.GetData())
}

// metadata is a text of the model's.
func (s *session) metadata(key string) (string, error) {
	all, err := s.raw.GetModelMetadata()
	if err != nil {
		return "", err
	}
	defer all.Destroy()
	text, found, err := all.LookupCustomMetadataMap(key)
	if err == nil && !found {
		err = fmt.Errorf("there is no metadata '%s'", key)
	}
	return text, err
}
