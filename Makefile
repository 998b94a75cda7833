# Everything a newcomer needs: `make run`, then `make test`. `make help` lists the rest.
SHELL := /bin/bash
.DEFAULT_GOAL := help
PYTHON ?= python3
BIN := .venv/bin
UV_VERSION := 0.13.8
# Processes that run tests.
WORKERS ?= 2
# A run and the tests start hundreds of Python processes: told to write no bytecode, each would compile the same thousands of modules again.
export PYTHONDONTWRITEBYTECODE :=

# uv is quick; where it cannot reach the index that pip is configured for, pip installs the same locked files.
define install
	@$(BIN)/uv pip install --quiet --python $(BIN)/python $(1) 2>.venv/uv.log || { \
	  echo "uv could not install ($$(tail -n 1 .venv/uv.log)); trying pip"; $(BIN)/python -m pip install --quiet $(1); }
endef

.PHONY: help setup setup-dev run up demo-drift demo-watch demo-own-model server-env server-images test test-full test-faults test-airflow e2e e2e-full perf-load perf-training perf-drift perf-decisions perf-prices lint docs dist lock plotly clean

help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 14

setup: .venv/.ready ## the environment in .venv and Triton's server in .triton (nothing outside this folder)

.venv/bin/uv:
	@case "$$PWD" in *[:\"\\\`\$$]*) echo "this folder is called $$PWD; Python's venv, pip or Airflow cannot use : \" \\ \` or \$$ in a name: move the checkout"; exit 1;; esac
	@case "$$PWD" in *[%?]*) $(PYTHON) -c 'import sys; sys.exit(None if sys.version_info >= (3, 11) else "Python 3.10 found; its SQLAlchemy cannot use a folder with % or ? in its name: make PYTHON=python3.11 setup, or move the checkout")';; esac
	@$(PYTHON) -c 'import sys; v = sys.version_info[:2]; sys.exit(None if (3, 10) <= v <= (3, 13) else f"Python {v[0]}.{v[1]} found; Plumbline needs 3.10 to 3.13: make PYTHON=python3.11 setup")'
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { echo "Python has no venv module; on Debian and Ubuntu: apt-get install python3-venv"; exit 1; }
	@echo "making the environment in .venv"
	@$(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check uv==$(UV_VERSION)

.venv/.ready: requirements.txt requirements/torch.txt requirements/training.txt requirements/triton.txt pyproject.toml | .venv/bin/uv
	@echo "installing Airflow and the libraries (requirements.txt)"
	$(call install,-r requirements.txt)
	@echo "installing PyTorch ($$(grep -o '^torch==.*' requirements/torch.txt)) with pip, from the index that this machine names"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements/torch.txt
	$(call install,--no-deps -r requirements/training.txt)
	@echo "unpacking Triton's server into .triton"
	@rm -rf .triton
	$(call install,--no-deps --target .triton -r requirements/triton.txt)
	$(call install,--no-deps -e .)
	@# Relative: Triton's Python reads the file as ASCII, and the name of this folder may have other letters.
	@for file in .venv/lib/python*/site-packages/__editable__.plumbline-*.pth; do echo ../../../../include > "$$file"; done
	@touch $@

setup-dev: .venv/.ready-dev
.venv/.ready-dev: .venv/.ready requirements/dev.txt
	@echo "installing the tools of contributors (requirements/dev.txt)"
	$(call install,-r requirements/dev.txt)
	@# Alembic takes a % in the path of FAB's migrations for a placeholder, when it reads their section of hooks, which is empty.
	@case "$$PWD" in *%*) sed -i '/^\[post_write_hooks\]/d' .venv/lib/python*/site-packages/airflow/providers/fab/alembic.ini;; esac
	@touch $@

# A vLLM for processors, beside the main environment: it pins other versions of what both use.
.vllm/.ready: requirements/vllm.txt requirements/torch.txt | .venv/bin/uv
	@$(BIN)/python -c 'import sys; sys.exit(None if sys.version_info >= (3, 11) else "Python 3.10 found; vLLM needs 3.11 or newer: make clean, then make PYTHON=python3.11 demo-own-model")'
	@echo "installing a vLLM for processors into .vllm (requirements/vllm.txt)"
	@rm -rf .vllm && $(BIN)/uv venv --quiet --seed --python $(BIN)/python .vllm
	@.vllm/bin/python -m pip install --quiet --disable-pip-version-check -r requirements/torch.txt
	@$(BIN)/uv pip install --quiet --python .vllm/bin/python --no-deps --require-hashes -r requirements/vllm.txt
	@# As in an image over a vendor's base: its own packages first, the harness and its packages last.
	@printf '%s\n' "$$PWD/include" "$$($(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')" \
	  > "$$(.vllm/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/plumbline.pth"
	@touch $@

run: setup ## the main job, end to end on this machine: both local providers, scorecards, report
	@$(BIN)/plumbline run $(ARGS)

up: setup ## keep Airflow running; prints its address and the login
	@$(BIN)/plumbline up $(ARGS)

demo-drift: setup ## see a real drift found: the same provider with a core taken away behind its back
	@$(BIN)/python examples/lost_core.py $(ARGS)

demo-watch: setup ## see a change noticed between campaigns: a simulated provider's driver changes, the rest happens by itself
	@$(BIN)/python examples/driver_change.py $(ARGS)

demo-own-model: setup .vllm/.ready ## see a model of one's own on vLLM: two providers, bf16 and int8, speed, cost and right answers (Python 3.11 or newer)
	@PLUMBLINE_ENGINE_PYTHON="$$PWD/.vllm/bin/python" $(BIN)/python examples/own_model.py $(ARGS)

server-env: ## the team server's .env with new secrets (docs/team-server.md); refuses to replace one
	@$(PYTHON) k8s/airflow/server_env.py $(ARGS)

server-images: ## pull the team server's PostgreSQL, with its profile the S3 server too, and write their digests into .env
	@$(PYTHON) k8s/airflow/server_env.py --pin $(ARGS)

test: setup-dev ## the quick tests: each module and each path once (WORKERS=1: one process instead of two)
	@$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder --hypothesis-profile ci -m "not full" $(ARGS)

test-full: setup-dev ## all tests but those of a cluster, also the slow ones
	@$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder $(ARGS)

test-airflow: .venv/.ready-dev ## the DAGs on each supported Airflow in environments of their own; ARGS=--short tries the oldest alone
	$(BIN)/python -m tests.airflow_versions $(ARGS)

test-faults: setup-dev ## the tests of docs/reliability.md, with pass or fail beside each row (with KUBECONFIG: the cluster's too)
	@$(BIN)/python -m pytest -p tests.fault_table -m fault tests/unit tests/dags tests/integration tests/browser $(if $(KUBECONFIG),tests/cluster) $(ARGS)

e2e: setup-dev ## the whole path on a real cluster: KUBECONFIG=… make e2e (under 20 minutes; k8s/images/README.md: what it builds with)
	@$(BIN)/python -m pytest tests/cluster -m "not full" $(ARGS)

e2e-full: setup-dev ## every fault on a real cluster, larger gangs, pod-time efficiency
	@$(BIN)/python -m pytest tests/cluster $(ARGS)
	@$(BIN)/python perf/pod_time.py

perf-load: setup ## the load client against perf_analyzer and aiperf at two servers, a core each (40 minutes; ARGS=--quick: 15)
	@$(BIN)/python perf/load_client.py $(ARGS)

perf-training: setup ## the training loop against a bare one and Hugging Face's, telemetry, no change (under 9 minutes; ARGS=--quick: 1.5)
	@$(BIN)/python perf/training.py $(ARGS)

perf-drift: setup ## the detector of long series against apache-otava and bare KernelCPD, replayed point by point (2 minutes)
	@$(BIN)/python perf/drift.py $(ARGS)

perf-decisions: setup ## calibration of decision probabilities on simulated campaigns (a few minutes on 2 cores)
	@$(BIN)/python perf/decisions.py $(ARGS)

perf-prices: setup ## a price history through the daily price check: make perf-prices ARGS="FILE --events FILE" (docs/replay-prices.md)
	@$(BIN)/python perf/prices.py $(ARGS)

PLAIN = README.md CONTRIBUTING.md $(wildcard docs/*.md) docs/measurements docs/providers dags examples k8s perf

lint: setup-dev ## format, lint, types, floors, spelling
	@$(BIN)/codespell CHANGELOG.md CONTRIBUTING.md README.md dags docs examples include k8s perf plugins tests && $(BIN)/codespell --dictionary docs/vocabulary.txt $(PLAIN)
	@$(BIN)/ruff format --check . && $(BIN)/ruff check . && $(BIN)/mypy && $(BIN)/lint-imports && $(BIN)/python -m tests.fault_table && $(BIN)/plumbline check

docs: setup-dev ## the documentation as a site in build/site, every link checked (Python 3.11 or newer)
	@$(BIN)/python -c 'import sys; sys.exit(None if sys.version_info >= (3, 11) else "Python 3.10 found; Sphinx needs 3.11 or newer")'
	@$(BIN)/sphinx-build -q -W --keep-going docs build/site && echo "build/site/index.html"

lock: .venv/bin/uv ## resolve requirements/*.in again
	@$(BIN)/uv pip compile --quiet --universal --python-version 3.10 --generate-hashes --no-header $(UPGRADE) requirements/main.in -o requirements.txt
	@$(BIN)/uv pip compile --quiet --universal --python-version 3.10 --generate-hashes --no-header $(UPGRADE) requirements/server.in -o requirements/server.txt
	@$(BIN)/uv pip compile --quiet --universal --python-version 3.10 --generate-hashes --no-header $(UPGRADE) requirements/dev.in -o requirements/dev.txt
	@$(BIN)/uv pip compile --quiet --universal --python-version 3.10 --generate-hashes --no-header --no-deps $(UPGRADE) requirements/triton.in -o requirements/triton.txt
	@$(BIN)/uv pip compile --quiet --universal --python-version 3.10 --generate-hashes --no-header --no-deps $(UPGRADE) requirements/training.in -o requirements/training.txt
	@$(BIN)/uv pip compile --quiet --universal --python-version 3.10 --generate-hashes --no-header --no-deps $(UPGRADE) requirements/torchao.in -o requirements/torchao.txt
	@$(BIN)/uv pip compile --quiet --python-version 3.11 --python-platform x86_64-unknown-linux-gnu --generate-hashes --no-header $(UPGRADE) --override requirements/vllm-without.txt requirements/vllm.in -o requirements/vllm.txt
	@$(BIN)/uv pip compile --quiet --universal --python-version 3.10 --generate-hashes --no-header $(UPGRADE) requirements/image.in -o requirements/image.txt
	@$(BIN)/uv pip compile --quiet --universal --python-version 3.10 --generate-hashes --no-header $(UPGRADE) requirements/image-cpu.in -o requirements/image-cpu.txt
	@$(BIN)/uv pip compile --quiet --universal --python-version 3.10 --generate-hashes --no-header $(UPGRADE) requirements/image-onnx.in -o requirements/image-onnx.txt
	@$(BIN)/uv pip compile --quiet --universal --python-version 3.10 --generate-hashes --no-header $(UPGRADE) requirements/image-tools.in -o requirements/image-tools.txt
	@$(BIN)/uv pip compile --quiet --universal --python-version 3.10 --generate-hashes --no-header --no-deps $(UPGRADE) requirements/plotly.in -o requirements/plotly.txt
	@$(MAKE) --no-print-directory plotly

plotly: .venv/bin/uv ## plotly.min.js and its licence out of the locked wheel (requirements/plotly.txt) into the package
	@rm -rf build/plotly && $(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --require-hashes --target build/plotly -r requirements/plotly.txt
	@cp build/plotly/plotly/package_data/plotly.min.js include/plumbline/dashboard/static/
	@cp build/plotly/plotly-*.dist-info/licenses/LICENSE.txt include/plumbline/dashboard/static/plotly.LICENSE.txt
	@rm -rf build/plotly; sha256sum include/plumbline/dashboard/static/plotly.min.js | cut -d' ' -f1 >requirements/plotly.sha256

dist: .venv/bin/uv ## the package as wheel and sdist in dist/, its version from the tag (docs/package.md)
	@rm -rf dist && $(BIN)/uv build --quiet --out-dir dist && ls -l dist; rm -rf build/lib build/bdist.* include/*.egg-info

clean: ## remove the environment and caches; results and reports in var/ stay (`make clean ALL=1` removes them too)
	rm -rf .venv .triton .vllm .perf .mypy_cache .ruff_cache .pytest_cache .import_linter_cache *.egg-info include/*.egg-info htmlcov .coverage*
	$(if $(ALL),rm -rf var)
