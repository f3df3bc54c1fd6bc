module cachalot.io/go/examples

go 1.24

require cachalot.io/go v0.0.0

replace cachalot.io/go => ../../bindings/go
