"""Private statistics among parties: a silo that is missing, and what each of them receives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from privplan.accountant import records
from privplan.accountant.errors import MissingParty
from privplan.accountant.mechanisms import NoisyGram
from privplan.fl.running.run_and_resume import resume, run
from privplan.fl.settings.schema import Settings

from ..cases import for_each
from .drawn_noise import wrapped
from .extras import needs
from .small_runs import of
from .statistics_runs import built, configuration, exact_sum, mechanism_of

pytestmark = needs("sklearn", "cryptography")

SECURITY = {
    "plain": 'aggregation = "plain"',
    "masked": 'aggregation = "masked"\nkeep_transcripts = true',
    "shares": 'aggregation = "shares"\nkeep_transcripts = true',
}


def described(security: str) -> Settings:
    return configuration(
        data='name = "breast-cancer"\nusers = 20\nsilos = 4',
        privacy="noise_multiplier = 3.0\ndelta = 0.001",
        security=SECURITY.get(security, security),
    )


@pytest.fixture
def missing(monkeypatch: pytest.MonkeyPatch) -> list[np.ndarray]:
    """Let the silo 1 be missing; return the list of the noise of the others."""
    noise: list[np.ndarray] = []
    honest = NoisyGram.share_steps

    def absent(self: NoisyGram, ticket: Any, total: Any, name: str, part: str = "") -> Any:
        if name.endswith("silo-1"):
            raise MissingParty("silo-1 is missing.", "", "")
        sent = honest(self, ticket, total, name, part)
        noise.append(sent - total)
        return sent

    monkeypatch.setattr(NoisyGram, "share_steps", absent)
    return noise


@pytest.mark.parametrize("unit", ["record", "user"])
def test_a_tolerated_silo_may_be_missing(
    unit: str, tiny: Any, run: Any, missing: list[np.ndarray]
) -> None:
    """The release is the sum of the others with their noise, of which there is enough."""
    system = built(tiny(silos=4), unit, security={"aggregation": "masked", "dropouts": 1})
    mechanism = mechanism_of(system)
    models, log = run(system)
    assert len(missing) == 3
    noise = sum(share.astype(object) for share in missing)
    others = exact_sum(system, [0, 2, 3])
    whole = wrapped([exact + int(n) for exact, n in zip(others, noise, strict=True)])
    assert np.array_equal(models[1], mechanism.units(whole))
    (release,) = log.releases
    assert release.shares == 3
    assert mechanism.share_std**2 * 3 >= mechanism.std**2
    (sealed,) = log.sealed
    assert sealed["residuals"]["whole"]["silos"] == [0, 2, 3]
    shown = sum(mechanism.white(share) for share in missing)
    assert sealed["residuals"]["whole"]["squares"] == pytest.approx(float(np.sum(shown**2)))
    assert sealed["recomputed"]["sum_off"] < 1.0


@pytest.mark.usefixtures("missing")
@for_each("security", SECURITY)
def test_any_other_is_an_abort_that_is_spent(security: str, tmp_path: Path) -> None:
    with pytest.raises(MissingParty):
        run(described(security), tmp_path / "out")
    (abort,) = of(tmp_path / "out", records.RoundAbort)
    assert abort.reason == "missing-party"
    assert of(tmp_path / "out", records.RoundRelease) == []
    # Taken up, it makes no other release, and says what it spent.
    outcome = resume(tmp_path / "out")
    assert outcome.result.rounds == 0
    (close,) = of(tmp_path / "out", records.RunClose)
    assert close.rounds == 0
    assert close.epsilon["model"] > 0.0
    assert len(of(tmp_path / "out", records.RoundIntent)) == 1


@for_each("security", ["masked", "shares"])
def test_what_parties_receive_holds_nobodys_vector(
    security: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither what a silo sent nor its exact sum stands in any transcript, but the released sum."""
    vectors: list[np.ndarray] = []
    honest = NoisyGram.share_steps

    def noted(self: NoisyGram, ticket: Any, total: Any, name: str, part: str = "") -> Any:
        sent = honest(self, ticket, total, name, part)
        vectors.extend((sent, total))
        return sent

    monkeypatch.setattr(NoisyGram, "share_steps", noted)
    run(described(security), tmp_path / "out")
    import base64
    import json

    files = sorted((tmp_path / "out" / "transcripts").iterdir())
    names = ["silo-0", "silo-1", "silo-2", "silo-3"]
    assert [file.stem for file in files] == (["server", *names] if security == "masked" else names)
    bodies = b"|".join(
        base64.b64decode(json.loads(line)["body"])
        for file in files
        for line in file.read_text().splitlines()
    )
    assert len(vectors) == 8
    for vector in vectors:
        for start in range(0, vector.size - 2, 50):
            assert vector[start : start + 2].astype("<i8").tobytes() not in bodies
    if security == "shares":  # the control: the total is there, slice by slice
        whole = np.sum(vectors[::2], axis=0, dtype=np.int64)
        assert whole[:2].astype("<i8").tobytes() in bodies
