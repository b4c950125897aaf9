.PHONY: lint test slow bench systems format

lint:
	ruff check .
	ruff format --check .
	bash .ci/types
	lint-imports

test:
	python -m pytest -n 2 --junitxml=build/tests/default.xml

slow:
	python -m pytest -n 2 -m slow --junitxml=build/tests/slow.xml

bench:
	python bench/run.py

systems:
	OPENBLAS_NUM_THREADS=1 python bench/five_systems.py

format:
	ruff check --fix .
	ruff format .
