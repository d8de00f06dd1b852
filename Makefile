# `make demo` and `make test` set everything up by themselves; Python 3.11 or later and make are all they need.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed

.PHONY: demo studio test lint docs format bench clean

demo: $(INSTALLED)  ## train on the embedded data, evaluate on unseen alphabets, write a report
	rm -rf runs/demo
	$(BIN)/gaussproto train demo --out runs/demo
	$(BIN)/gaussproto evaluate runs/demo --ways 5,20 --shots 1,5
	$(BIN)/gaussproto report runs/demo --out runs/demo/report.html
	@echo "Done. Open the report in a browser: $(CURDIR)/runs/demo/report.html"

studio: $(INSTALLED)  ## the page on which you draw symbols and watch the network tell them apart
	$(BIN)/gaussproto serve

test: lint  ## everything that CI checks
	OMP_NUM_THREADS=1 $(BIN)/pytest -n auto --dist loadfile

lint: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

docs: $(INSTALLED)  ## the documentation as a site, in site/; a warning is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict
	@echo "Done. Open the documentation in a browser: $(CURDIR)/site/index.html"

format: $(INSTALLED)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(INSTALLED)  ## measure the speed; options go into ARGS, as in make bench ARGS="--quick --only 'step small'"
	$(BIN)/python -m benchmarks $(ARGS)

$(INSTALLED): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit("gaussproto needs Python 3.11 or later" if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt torch
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev,docs]'
	touch $@

clean:
	rm -rf $(VENV) build site .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
