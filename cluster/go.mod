module github.com/anndb/anndb/cluster

go 1.26.0

require (
	github.com/anndb/anndb v0.0.0
	github.com/nats-io/nats.go v1.55.0
)

tool github.com/nats-io/nats-server/v2

replace github.com/anndb/anndb => ../
