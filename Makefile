# Every command that the README and results/ name. `make` alone lists them.
PYTHON ?= $(shell command -v python3.11 || echo python3)
VENV := .venv
BIN := $(VENV)/bin
SCALE ?= mini
SWEEP ?= quick
RANKS ?= 1
GPUS := $(shell ls /proc/driver/nvidia/gpus 2>/dev/null | wc -l)
JOBS ?= $(shell n=$$(( ($(GPUS) ? $(GPUS) : $$(getconf _NPROCESSORS_ONLN)) / $(RANKS) )); echo $$(( n > 0 ? n : 1 )))
LAUNCHER ?=
ARGS ?=
LAUNCH = $(if $(LAUNCHER),hydra/launcher=$(LAUNCHER),hydra.launcher.n_jobs=$(JOBS))
TASKS := $(sort $(notdir $(patsubst %/,%,$(wildcard conf/task/*/))))

.DEFAULT_GOAL := help
.PHONY: help setup test lint bench soak report clean reproduce-model-size reproduce-temperature reproduce-adaptive-batch reproduce-atari reproduce-dota reproduce-all $(addprefix reproduce-,$(TASKS)) $(addprefix pruning-,$(TASKS)) $(addprefix line-search-,$(TASKS)) $(addprefix linear-rule-,$(TASKS))

help: ## list the commands
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-28s %s\n", $$1, $$2}'
	@printf '  make %-28s %s\n' \
		'reproduce-<task>' 'sweep, fit and figures' \
		'line-search-<task>' 'best steps at fixed weights of one run of that sweep (Fig. 5)' \
		'linear-rule-<task>' 'learning rates in proportion to the batch size beside those of that sweep' \
		'pruning-<task>' 'the pruned search held against the plain grid'
	@echo
	@echo "  Tasks: $(TASKS)"
	@echo
	@echo "  reproduce-<task> takes SCALE=mini|paper SWEEP=quick|full|grid RANKS=n (ranks a run)"
	@echo "  JOBS=n (runs at once, default: GPUs, or cores, / RANKS) ARGS='any.hydra=override'; now: SCALE=$(SCALE) SWEEP=$(SWEEP)"

setup: $(VENV)/installed ## make .venv with everything that the suite needs

$(VENV)/installed: pyproject.toml
	@command -v $(PYTHON) >/dev/null || { echo "error: $(PYTHON) was not found; name a Python 3.11 or newer: make PYTHON=python3"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[dev]'
	@touch $@

test: $(VENV)/installed ## run the tests, lint included
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pytest --numprocesses auto --dist loadscope --no-loadscope-reorder

lint: $(VENV)/installed ## mend what ruff can mend
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

$(addprefix reproduce-,$(TASKS)): reproduce-%: $(VENV)/installed
	$(BIN)/python -m reproduce -m task=$*/$(SCALE) sweep=$(SWEEP) trainer.ranks=$(RANKS) $(LAUNCH) $(ARGS)

# The pruned search and the plain grid over the same batch sizes, rates a factor 2 apart, one seed.
$(addprefix pruning-,$(TASKS)): pruning-%: $(VENV)/installed
	$(BIN)/python -m reproduce -m task=$*/$(SCALE) sweep=quick 'sweep.spacings=[1]' $(LAUNCH) results=outputs/pruned $(ARGS)
	$(BIN)/python -m reproduce -m task=$*/$(SCALE) sweep=grid 'sweep.spacings=[1]' $(LAUNCH) results=outputs/grid $(ARGS)
	$(BIN)/python -m reproduce.pruning outputs/pruned/$*/$(SCALE) outputs/grid/$*/$(SCALE) results/$*/$(SCALE)/pruning.json

# Along one run: the sweep's best one near B_crit, unless ARGS names run.batch_size and run.learning_rate.
$(addprefix line-search-,$(TASKS)): line-search-%: $(VENV)/installed
	$(BIN)/python -m reproduce.line_search task=$*/$(SCALE) $(ARGS)

# The best rate of the sweep's smallest batch size, scaled with the batch size (claim 10). Run the task's sweep first.
$(addprefix linear-rule-,$(TASKS)): linear-rule-%: $(VENV)/installed
	$(BIN)/python -m reproduce -m task=$*/$(SCALE) sweep=$(SWEEP) comparison=linear_rule trainer.ranks=$(RANKS) $(LAUNCH) $(ARGS)

# Runs of one batch size that differ in the model's size (claim 6).
reproduce-model-size: $(VENV)/installed ## the noise scale of small and large models at equal loss, on billion_word
	$(BIN)/python -m reproduce -m task=billion_word/$(SCALE) comparison=model_size trainer.ranks=$(RANKS) $(LAUNCH) $(ARGS)

# Runs of one batch size that differ in the learning rate (claim 9).
reproduce-temperature: $(VENV)/installed ## the noise scale at high and low learning rates, on svhn and billion_word
	for task in svhn billion_word; do \
		$(BIN)/python -m reproduce -m task=$$task/$(SCALE) comparison=temperature trainer.ranks=$(RANKS) $(LAUNCH) $(ARGS) || exit; \
	done

# Batch sizes that follow the noise scale beside constant ones (App. D). Run the task's sweep first.
reproduce-adaptive-batch: $(VENV)/installed ## adaptive batch sizes against constant ones, on svhn
	$(BIN)/python -m reproduce -m task=svhn/$(SCALE) sweep=$(SWEEP) comparison=adaptive_batch trainer.ranks=$(RANKS) $(LAUNCH) $(ARGS)

reproduce-atari: ## the sweeps of all Atari games that have this scale, one after the other
	$(MAKE) $(foreach game,$(wildcard conf/task/atari_*/$(SCALE).yaml),reproduce-$(notdir $(patsubst %/,%,$(dir $(game)))))

reproduce-all: $(VENV)/installed ## the sweeps of all tasks of the scale, then the report; goes on where it stopped
	$(BIN)/python -m reproduce.all --scale $(SCALE) -- sweep=$(SWEEP) trainer.ranks=$(RANKS) $(LAUNCH) $(ARGS)
	$(BIN)/python -m reproduce.report

reproduce-dota: reproduce-dota_1v1 reproduce-dota_5v5 ## the sweeps of the Dota proxy, one hero a team and five

reproduce-% pruning-% line-search-% linear-rule-%:
	@echo "error: there is no task $*. Tasks: $(TASKS)"; exit 2

report: $(VENV)/installed ## write results/report.md, report.html and the figures over all tasks, from results/
	$(BIN)/python -m reproduce.report

bench: $(VENV)/installed ## steps, estimates, data, games and the report, each against what else would do it
	$(BIN)/python -m reproduce.bench

soak: $(VENV)/installed ## kill sweeps at random moments, a hundred times on one process a run and on two
	$(BIN)/python tests/soak.py

clean: ## delete raw records in outputs/ (results/ stays)
	rm -rf outputs
