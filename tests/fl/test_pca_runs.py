"""draft"""

from pathlib import Path
import json
import pytest
import privplan as pp
from privplan.audit.attack import attack, AttackRequest
from privplan.audit.budget import audit_budget
from privplan.audit.edits import edits_of
from privplan.audit.verify import verify
from ..packages import toys
from .pca_runs import configured

toy = toys.for_each_test("toy_pca")


@pytest.mark.parametrize("kind", ["wishart", "gaussian"])
def test_draft(kind: str, tmp_path: Path) -> None:
    config = configured(tmp_path, kind)
    pp.run(config, tmp_path / "out")
    out = tmp_path / "out"
    print(verify(out).complete, edits_of(out))
    a = audit_budget(out)
    for h in a.hazards:
        print(h.id, h.severity, h.what)
    print(a.ok, a)
    lines = [json.loads(l) for l in (out / "log.jsonl").read_text().splitlines()]
    print(json.dumps(lines[1], indent=1))
    print(lines[2])
    for obs in ("server", "model"):
        r = attack(out, AttackRequest(observer=obs, seed=1), append=False)
        for m in r.measurements:
            print(m.tier, m.value, m.claimed, m.verdict, m.proves, m.sample)
        print(r.skipped, r.warnings, r.measurements[0].assumes)
    assert 0
