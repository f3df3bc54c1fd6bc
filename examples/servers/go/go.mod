module cachalot.io/go/examples/servers

go 1.24

require (
	cachalot.io/go v0.0.0
	github.com/yalue/onnxruntime_go v1.27.0
)

replace cachalot.io/go => ../../../bindings/go
