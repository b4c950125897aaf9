"""Every address of the ledger fuzzed by schemathesis, from its own description, in each role."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

FUZZER = shutil.which("schemathesis")
"""It may be installed apart, as it brings a plugin into every run of pytest."""

CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_schema_conformance",
    "unsupported_method",
)


@pytest.mark.slow
@pytest.mark.skipif(
    FUZZER is None, reason="schemathesis is not installed: pip install schemathesis"
)
@pytest.mark.parametrize("role", ["owner", "analyst", "auditor"])
def test_no_role_makes_an_address_answer_otherwise_than_described(
    role: str, tmp_path: Path
) -> None:
    serve = [sys.executable, "-m", "privplan.cli", "serve", "--demo", "--port", "0", "--json"]
    service = subprocess.Popen(serve, stdout=subprocess.PIPE, text=True, cwd=tmp_path)
    try:
        assert service.stdout is not None
        said = json.loads(service.stdout.readline())
        assert FUZZER is not None
        fuzz = [FUZZER, "run", f"{said['url']}/openapi.json"]
        fuzz += ["-H", f"Authorization: Bearer {said['tokens'][role]}", "-c", ",".join(CHECKS)]
        fuzz += ["--phases", "examples,coverage,fuzzing", "-n", "20", "--max-time", "90"]
        fuzz += ["--continue-on-failure", "--no-shrink", "--request-timeout", "20"]
        apart = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        done = subprocess.run(
            fuzz, capture_output=True, text=True, check=False, cwd=tmp_path, env=apart
        )
        assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
        assert service.poll() is None
    finally:
        service.terminate()
        left = service.wait(timeout=60)
        service.stdout.close()
    assert left == 0
