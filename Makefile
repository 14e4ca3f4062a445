# The same targets serve a newcomer (README.md), a contributor
# (CONTRIBUTING.md) and .ci/run.

GO       ?= go
TESTARGS ?=
PKGS     ?= ./...
# The packages in which goroutines, processes and locks meet. The crash points
# kill whole processes, and crash loops start many: they are for the plain run.
RACEPKGS ?= . ./proof ./internal/...
# The examples' tests start their services as an ordinary user themselves.
USERPKGS ?= . ./cmd/... ./foreground ./internal/... ./proof
SYSTEMS  := linux darwin windows freebsd
BUILDS   := linux/amd64 linux/386 linux/arm64 linux/arm \
            darwin/arm64 windows/amd64 windows/386 freebsd/amd64

.PHONY: build test test-race test-user vet lint cross bench mutants demo ci clean

build: ## one static binary: bin/custody
	CGO_ENABLED=0 $(GO) build -trimpath -o bin/custody ./cmd/custody

test: build ## the whole suite, as whoever you are
	$(GO) test -timeout 30m $(TESTARGS) $(PKGS)

test-race: ## the core under the race detector
	CGO_ENABLED=1 $(GO) test -race -timeout 45m -skip '^(TestCrashPoints|TestEndedOf.*)$$' $(TESTARGS) $(RACEPKGS)

test-user: ## the whole suite as an ordinary user, even when you are root
	@GO="$(GO)" PKGS="$(USERPKGS)" TESTARGS="$(TESTARGS)" .ci/as-user

vet: ## go vet for every system
	@for os in $(SYSTEMS); do \
		echo "GOOS=$$os $(GO) vet ./..."; \
		GOOS=$$os CGO_ENABLED=0 $(GO) vet ./... || exit 1; \
	done

lint: ## gofmt and staticcheck; its version stands in tools/go.mod
	@out=$$(gofmt -l .); test -z "$$out" || { echo "gofmt -w these:"; echo "$$out"; exit 1; }
	$(GO) tool -modfile=tools/go.mod staticcheck ./...

cross: ## everything compiles, on 32 and 64 bits
	@for t in $(BUILDS); do \
		echo "$$t"; \
		CGO_ENABLED=0 GOOS=$${t%/*} GOARCH=$${t#*/} $(GO) build ./... || exit 1; \
	done

bench: build ## the ratios of docs/performance.md, measured in one run
	CGO_ENABLED=0 $(GO) build -trimpath -o bin/bench ./internal/bench
	bin/bench $(BENCHARGS)

mutants: ## broken builds, and the test that each turns red (MUTANTS=word for some)
	$(GO) build -C tools -o ../bin/mutants ./mutants
	bin/mutants . $(if $(MUTANTS),"$(MUTANTS)")

demo: ## a tree, its owner's death, and what is left
	$(GO) run ./cmd/custody demo

ci: ## what a submission must pass
	.ci/run

clean:
	rm -rf bin
