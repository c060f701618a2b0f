// Package adapterv1 is the generated code of adapter.proto, the public wire between the engine and an adapter process.
// Authors who write Go need package sdk instead; this package is for those who build another SDK or a tool.
package adapterv1

//go:generate protoc -I ../../.. --go_out=../../.. --go_opt=paths=source_relative --go-grpc_out=../../.. --go-grpc_opt=paths=source_relative pawl/adapter/v1/adapter.proto
