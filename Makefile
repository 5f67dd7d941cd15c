# What can be done with this repository. `make` alone prints this list.

.DEFAULT_GOAL := help
RELEASE := $(or $(CARGO_TARGET_DIR),target)/release
.PHONY: help serve test check bench bench-postgres

help: ## Print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

serve: ## Build and start the server on the embedded database (more flags: make serve ARGS="--queue default")
	cargo run --release --package taskqueue -- serve $(ARGS)

test: ## Install what the tests need where it is missing, then run all of them
	scripts/install-test-needs
	cargo test --workspace
	scripts/interop-test

check: ## Formatting, lints, documentation and the house rules, warnings denied
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- --deny warnings
	RUSTDOCFLAGS="--deny warnings" cargo doc --workspace --no-deps --document-private-items
	cargo test --package taskqueue --test tidy

bench: ## Measure the server against the bare-HTTP limit of this machine, about 3 minutes (more flags: make bench ARGS="--phases get")
	cargo build --release --package taskqueue --package taskqueue-bench
	$(RELEASE)/taskqueue-bench run --server $(RELEASE)/taskqueue --database-dir $(RELEASE) $(ARGS)

bench-postgres: ## Measure the server on PostgreSQL against pgbench on the same cluster, about 5 minutes
	cargo build --release --package taskqueue --package taskqueue-bench
	$(RELEASE)/taskqueue-bench postgres --server $(RELEASE)/taskqueue $(ARGS)
