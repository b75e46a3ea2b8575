# make study [SUITE=main]   set up, run a suite, print the report's path
# make test                 set up, run all tests
# make lab                  set up, open JupyterLab on the notebooks
# make bench [QUICK=1]      measure beside TRL, lm-evaluation-harness and the published recipe (ONLY=train,eval: parts)

PYTHON ?= python3
SUITE ?= local
BIN := .venv/bin
READY := .venv/.ready
BENCH := .venv-bench

.PHONY: study test test-fast lab bench rescore lint lock clean

study: $(READY)
	@$(BIN)/python -m depthstress.study $(SUITE)

test: $(READY)
	@$(BIN)/python -m pytest

test-fast: $(READY)
	@$(BIN)/python -m pytest -m "not slow and not browser"

lab: $(READY)
	@$(BIN)/jupyter lab --notebook-dir notebooks

rescore: $(READY)
	@$(BIN)/python -m depthstress.rescore $(DIR)

bench: $(BENCH)/.ready
	@$(BENCH)/bin/python -m benchmarks.run --python $(BIN)/python $(if $(QUICK),--quick) $(if $(ONLY),--only $(ONLY))

lint: $(READY)
	@$(BIN)/ruff check . && $(BIN)/ruff format --check .

# The lock file serves as constraints, so that one file fits torch's CPU and CUDA builds.
$(READY): pyproject.toml requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' || \
	  { echo "Python 3.11 to 3.13 is needed; name one: make PYTHON=python3.12 ..."; exit 1; }
	@echo "setting up .venv (once, some minutes)"
	@$(PYTHON) -m venv .venv || { echo "No venv module: on Debian or Ubuntu, apt install python3-venv"; exit 1; }
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c requirements.lock -e '.[dev]'
	@touch $@

# The peers, in an environment on top of .venv, so that the study's own stays as it is.
PACKAGES = -c 'import sysconfig; print(sysconfig.get_path("purelib"))'
$(BENCH)/.ready: $(READY)
	@echo "setting up $(BENCH) (once, some minutes)"
	@$(BIN)/python -m venv $(BENCH)
	@echo "import site; site.addsitedir('$$($(BIN)/python $(PACKAGES))')" > "$$($(BENCH)/bin/python $(PACKAGES))/study.pth"
	@$(BENCH)/bin/python -m pip install --quiet --disable-pip-version-check -c requirements.lock -e '.[bench]'
	@touch $@

# New pins: a fresh environment from pyproject.toml alone, frozen.
lock:
	@rm -rf .venv-lock && $(PYTHON) -m venv .venv-lock
	@.venv-lock/bin/python -m pip install --quiet --disable-pip-version-check -e '.[dev,bench]' $(WITH)
	@{ echo "# Exact versions, used as constraints; made by 'make lock'."; \
	  .venv-lock/bin/python -m pip freeze --exclude-editable | sed 's/+cpu$$//' | grep -vi '^nvidia-\|^triton=='; } > requirements.lock
	@rm -rf .venv-lock

clean:
	rm -rf .venv $(BENCH)
