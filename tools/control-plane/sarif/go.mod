module rebalancer/tools/control-plane/sarif

go 1.26.0

require github.com/owenrumney/go-sarif/v3 v3.3.1
