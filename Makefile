.PHONY: lint test test-changed shuffled slow referee referee-all notebooks matrix bench systems docs format

lint:
	ruff check .
	ruff format --check .
	bash .ci/types
	lint-imports

test:
	python -m pytest -n 2 --junitxml=build/tests/default.xml

test-changed:
	python tests/changed.py

shuffled:
	python -m pytest -n 2 -p randomly

slow:
	python -m pytest -n 2 -m slow --junitxml=build/tests/slow.xml

referee:
	python -m tests.referee compare --share 0.2

referee-all:
	python -m tests.referee compare --all

notebooks:
	jupyter execute notebooks/*.ipynb

matrix:
	python tests/matrix.py

bench:
	python bench/run.py

systems:
	OPENBLAS_NUM_THREADS=1 python bench/five_systems.py

docs:
	python -m mkdocs build

format:
	ruff check --fix .
	ruff format .
