"""One release of private statistics: numpy's integer product and the noise, bit for bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from privplan.accountant.mechanisms import NoisyGram

from ..cases import for_each
from .drawn_noise import PROTOCOLS, noted_shares, wrapped
from .statistics_runs import UNITS, built, exact_sum, mechanism_of

VARIANTS: dict[str, dict[str, Any]] = {
    "gaussian": {},
    "laplace": {"noise": "laplace"},
    "by class": {"by_class": True},
    "without intercept": {"intercept": 0.0},
    "weighted labels": {"label_weight": 2.5},
}


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[np.ndarray]:
    """Return the list of the noise that is drawn, share by share, as integers."""
    return noted_shares(monkeypatch, NoisyGram)


@pytest.mark.parametrize("aggregation", PROTOCOLS)
@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("variant", VARIANTS)
def test_the_release_is_the_integer_product_and_the_noise(
    variant: str, unit: str, aggregation: str, tiny: Any, run: Any, drawn: list[np.ndarray]
) -> None:
    """Products in Python's integers, whatever the aggregation; float64 rounds once, at the end."""
    system = built(tiny(), unit, security={"aggregation": aggregation}, **VARIANTS[variant])
    mechanism = mechanism_of(system)
    models, log = run(system)
    assert len(drawn) == 3
    noise = sum(share.astype(object) for share in drawn)
    whole = wrapped([exact + int(n) for exact, n in zip(exact_sum(system), noise, strict=True)])
    assert np.array_equal(models[1], mechanism.units(whole))
    assert all(share.any() for share in drawn)
    (release,) = log.releases
    assert release.shares == 3
    assert (release.normaliser.kind, release.normaliser.value) == ("constant", 1.0)


@for_each("aggregation", PROTOCOLS[1:])
def test_every_protocol_gives_the_same_release(aggregation: str, tiny: Any, run: Any) -> None:
    plain = run(built(tiny(), "user"), seed=5)[0]
    other = run(built(tiny(), "user", security={"aggregation": aggregation}), seed=5)[0]
    assert np.array_equal(plain[1], other[1])
    assert not np.array_equal(plain[1], run(built(tiny(), "user"), seed=6)[0][1])


@pytest.mark.parametrize("aggregation", PROTOCOLS)
def test_sums_that_wrap_around_are_summed_all_the_same(
    aggregation: str, tiny: Any, run: Any, drawn: list[np.ndarray], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the numbers are, a release is made: a refusal would tell that they are large."""
    import privplan.fl.statistics.exact_sums as module

    honest = module.gram_total

    def large(*given: Any, **named: Any) -> Any:
        total = honest(*given, **named)
        np.add(total.total, np.int64(2**62 + 12345), out=total.total)
        return total

    monkeypatch.setattr(module, "gram_total", large)
    system = built(tiny(), security={"aggregation": aggregation})
    models, log = run(system)
    noise = sum(share.astype(object) for share in drawn)
    beyond = 3 * (2**62 + 12345)
    exact = [value + int(n) + beyond for value, n in zip(exact_sum(system), noise, strict=True)]
    assert max(exact) > 2**63
    assert np.array_equal(models[1], mechanism_of(system).units(wrapped(exact)))
    assert len(log.releases) == 1


def test_exact_sums_come_before_the_intent(tiny: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """What fails in them has spent nothing, and says nothing."""
    import privplan.fl.statistics.exact_sums as module

    from .conftest import Log

    def fails(*_: Any, **__: Any) -> Any:
        raise MemoryError

    monkeypatch.setattr(module, "gram_total", fails)
    system = built(tiny())
    log = Log()
    with pytest.raises(MemoryError):
        system.round(1, system.initial(), log)  # type: ignore[arg-type]
    assert log.records == []


@for_each("unit", UNITS)
def test_a_release_is_made_of_no_rows_too(unit: str, tiny: Any, run: Any) -> None:
    """A neighbour may have an empty silo, or nothing at all: that is no reason to refuse."""
    whole = tiny()
    for kept in (whole.silo != 1, np.zeros(whole.records, bool)):
        system = built(whole.only(kept), unit)
        models, log = run(system)
        assert models[1].all()
        (sealed,) = log.sealed
        assert sealed["rows"] == np.bincount(whole.silo[kept], minlength=3).tolist()
        assert sealed["recomputed"]["sum_off"] < 1.0


def test_what_is_released_has_names(tiny: Any) -> None:
    system = built(tiny(), by_class=True)
    assert system.parts == {"gram": (2, 15), "labels": (5, 2)}
    assert built(tiny(), intercept=0.0).parts == {"gram": (10,), "labels": (4, 2)}
    assert system.initial().tolist() == [0.0] * 40
    assert system.initial().size == mechanism_of(system).gram.values
