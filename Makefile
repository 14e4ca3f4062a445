.PHONY: build test

build:
	CGO_ENABLED=0 go build -o bin/custody ./cmd/custody

test: build
	go test ./...
