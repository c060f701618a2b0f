# Everything a developer runs. `make help` lists the targets.
.PHONY: help demo test check lint bench verify generate image
SHELL := /bin/bash -o pipefail
PACKAGES ?= ./...

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 12

demo: ## claim mails, kill everything at random, count what arrived
	go run ./cmd/pawl demo

test: ## all tests; the last lines list what was skipped and why it matters
	go test -json -shuffle=on $(TESTFLAGS) $(PACKAGES) | go run ./.ci/report

check: lint test ## what must pass before a commit

lint: ## gofmt, vet, staticcheck
	@test -z "$$(gofmt -l $$(git ls-files '*.go'))" || { gofmt -l $$(git ls-files '*.go'); echo "run gofmt -w on these"; exit 1; }
	go vet ./...
	go tool staticcheck ./...

bench: ## claim and drain on Postgres, canonical form; ratios in one run
	go test -run '^$$' -bench . -benchmem ./ledger/postgres ./canonical

generate: ## the wire, from its .proto
	go generate ./sdk/...

verify: generate ## generated files are fresh
	git diff --exit-code -- sdk/proto

image: ## the container image pawl:local; needs a Docker engine
	docs/deploy/image pawl:local
