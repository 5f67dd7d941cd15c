# What can be done with this repository. `make` alone prints this list.

.DEFAULT_GOAL := help
RELEASE := $(or $(CARGO_TARGET_DIR),target)/release
BENCH := $(RELEASE)/taskqueue-bench
ON_DISK := --server $(RELEASE)/taskqueue --database-dir $(RELEASE)
# What every change of the hot path is compared with (CONTRIBUTING.md, "Measure a change of the hot path").
COMMIT := bae803d
AGAINST := $(abspath $(or $(CARGO_TARGET_DIR),target))/against/$(COMMIT)
MDBOOK := $(or $(CARGO_TARGET_DIR),target)/tools/bin/mdbook
MDBOOK_VERSION := 0.5.4
# Of a program that is only half built nothing is kept.
.DELETE_ON_ERROR:
.PHONY: help serve test test-quick test-times check audit book package test-packages bench bench-against bench-compare bench-full bench-needs bench-peers bench-postgres bench-programs bench-scenarios bench-shapes

help: ## Print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

serve: ## Build and start the server on the embedded database (more flags: make serve ARGS="--queue default")
	cargo run --release --package taskqueue -- serve $(ARGS)

test: ## Install what the tests need where it is missing, then run all of them, about 20 minutes on 2 cores
	scripts/install-test-needs
	scripts/test

test-quick: ## Run what needs nothing installed: unit tests, the model, the store and the contract on SQLite; 6 minutes with the build
	scripts/test quick

test-times: ## Run all tests and print the slowest 50
	scripts/install-test-needs
	scripts/test times

check: ## Formatting, lints, documentation and the house rules, warnings denied
	cargo fmt --all --check
	cargo clippy --locked --workspace --all-targets -- --deny warnings
	RUSTDOCFLAGS="--deny warnings" cargo doc --workspace --no-deps --document-private-items
	cargo test --workspace --test tidy

book: ## Build the book of docs/ into target/book; installs mdBook into target/tools where it is missing
	@$(MDBOOK) --version 2>/dev/null | grep -q 'v$(MDBOOK_VERSION)$$' || cargo install --locked --root $(MDBOOK:/bin/mdbook=) --version $(MDBOOK_VERSION) --no-default-features --features search mdbook
	mkdir -p target && COMMAND_REFERENCE=$(CURDIR)/target/commands.txt cargo test --package taskqueue --bin taskqueue the_command_reference
	$(MDBOOK) build
	@echo "open target/book/index.html"

audit: ## Licences, duplicates, sources and known vulnerabilities of all dependencies; installs cargo-deny where it is missing
	scripts/audit

package: ## Build what is given to others into target/packages: static binary, .deb, Python wheel, container image (also ARCHS="x86_64 aarch64")
	scripts/install-package-needs $(ARCHS)
	scripts/package $(ARCHS)

test-packages: ## Install each package in an empty root and run it, and check deploy/; some minutes, as root on Debian (one: ARGS=wheel)
	scripts/install-package-needs
	scripts/test-packages $(ARGS)

bench: bench-needs bench-programs ## Measure the server against the bare-HTTP limit of this machine, about 10 minutes (only a part of it: make bench ARGS="--only get")
	$(BENCH) run $(ON_DISK) $(ARGS)

bench-scenarios: bench-programs ## Measure everything else of the table, the long one: backlogs, history, waiting, bulk, worker, dashboard (one: ARGS="--only history")
	$(BENCH) scenarios $(ON_DISK) $(ARGS)

bench-compare: bench-needs bench-programs ## Compare the rows of `make bench` with another build of the server: make bench-compare BASELINE=path/of/its/taskqueue
	$(BENCH) compare $(ON_DISK) --baseline $(BASELINE) $(ARGS)

bench-against: bench-needs bench-programs $(AGAINST)/taskqueue ## Compare the rows of `make bench` with the fixed baseline, which is built once (another one: COMMIT=v1.0)
	$(BENCH) compare $(ON_DISK) --baseline $(AGAINST)/taskqueue $(ARGS)

$(AGAINST)/taskqueue:
	-git worktree remove --force $(AGAINST)/source 2>/dev/null
	git worktree add --detach $(AGAINST)/source $(COMMIT)
	cd $(AGAINST)/source && CARGO_TARGET_DIR=$(AGAINST)/build cargo build --release --locked --package taskqueue
	mv $(AGAINST)/build/release/taskqueue $@
	-git worktree remove --force $(AGAINST)/source && rm -r $(AGAINST)/build

bench-shapes: bench-programs ## Send the largest request of every kind, and see what others notice, a long one (a part: ARGS="--only bulk/delete")
	$(BENCH) shapes $(ON_DISK) $(ARGS)

bench-peers: bench-programs ## Do the same work on what users would pick instead, some minutes; installs it where it is missing
	scripts/install-bench-peers
	$(BENCH) peers $(ON_DISK) --peers-dir $(RELEASE)/../bench-peers $(ARGS)

bench-postgres: bench-programs ## Measure the server on PostgreSQL against pgbench on the same cluster, some minutes
	$(BENCH) postgres $(ON_DISK) $(ARGS)

bench-full: bench-needs bench-programs ## Measure all of these but other queues and builds; goes on after a missed goal
	-$(BENCH) run $(ON_DISK)
	-$(BENCH) scenarios $(ON_DISK)
	-$(BENCH) postgres $(ON_DISK)
	-$(BENCH) shapes $(ON_DISK)

bench-needs:
	scripts/install-bench-needs

bench-programs:
	cargo build --release --package taskqueue --package taskqueue-bench
