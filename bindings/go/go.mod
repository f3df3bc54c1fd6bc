module cachalot.io/go

go 1.24
