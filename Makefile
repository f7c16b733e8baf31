# make lab    set up, copy the notebooks to my_work/, open JupyterLab on chapter 1
# make test   set up, run every test
# make check  set up, lint, and see that the notebooks fit their sources

PYTHON ?= python3
BIN := .venv/bin

.PHONY: lab test check

lab: .venv/ready
	@$(BIN)/course lab

test: .venv/ready
	@$(BIN)/python -m pytest -n auto --dist loadgroup -m "slow or not slow"

check: .venv/ready
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/python -m grader.build --check

.venv/ready: pyproject.toml constraints.txt
	@echo "Setting up .venv: a few minutes the first time, nothing after that."
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --disable-pip-version-check -c constraints.txt -e ".[test]"
	@touch $@
