"""A mistake in what a system says of its releases is contradicted, one of each family.

A run draws by its terms, and an audit makes the same terms of the log's configuration: a mistake in
them is in both, and no comparison of the two finds it.  Who contradicts it:

| family | what its terms say, wrongly | contradicted by |
|---|---|---|
| `fedavg` | updates as they are have noise | the gate, before the round |
| `uldp-naive` | a user moves all silos together by one clip | canaries; no fact of the log does |
| `uldp-group` | a server sees the mean of the silos' noise | `event-mismatch` |
| `uldp-avg` | a server sees the sum alone, of weights by records | `event-mismatch` |
| `disco` | colluders of a peer tell it nothing | `event-mismatch` |
| `flame-simple` | a client does not know its own message | `event-mismatch` |
| `statistics` | a server sees the sum alone | `event-mismatch` |
| `fedpower-power` | a server sees the sum alone | `event-mismatch` |
| `fedpower-utility` | no node knows the noise that stays | `event-mismatch` |
| `delm-basic` | a server sees the mean of the clients' noise | `event-mismatch` |

`event-mismatch` is what `audit/derivation` finds, which knows no system: it derives from mechanism,
sampling, reach and protocol in the log what each observer learned.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

pytest.importorskip("torch")
pytest.importorskip("sklearn")
pytest.importorskip("cryptography")

from privplan.accountant import events as ev
from privplan.accountant.errors import Unsupported
from privplan.audit.attack import AttackRequest, attack
from privplan.audit.budget import audit_budget
from privplan.fl.aggregation.weighted_sum import weighted_sum, weighted_views
from privplan.fl.delm.terms import SchemeTerms
from privplan.fl.disco.terms import DiscoTerms
from privplan.fl.fedavg.terms import FedAvgTerms
from privplan.fl.fedpower.published_noise import PublishedTerms
from privplan.fl.fedpower.run_terms import RunTerms as ProductTerms
from privplan.fl.flame.terms import FlameTerms
from privplan.fl.running.run_and_resume import run
from privplan.fl.settings.schema import Settings
from privplan.fl.statistics.run_terms import RunTerms as GramTerms
from privplan.fl.uldp.terms import GroupTerms, NaiveTerms, WeightedTerms

from ..cases import for_each
from ..fl.configured import read
from .test_configuration import comparison

Wrong = Callable[[Any, Any, float], Any]
"""From the right method, the terms and a noise multiplier to what the wrong method returns."""

NOBODY_TELLS = read("disco").security

FOUND = {"event-mismatch", "close-under-reports"}
"""What an audit finds where an observer learned more than is stated."""


@dataclass(frozen=True)
class Mistake:
    """What is wrong in the terms of a family, and what its run says beside the usual.

    `wrong` has the place of the method `method` of `terms`.
    """

    terms: type[Any]
    wrong: Wrong
    method: str = "views"
    tables: Mapping[str, dict[str, str]] = field(default_factory=dict)


def seen_in_the_sum(right: Any, terms: Any, noise: float) -> Any:
    views = right(terms, noise)
    return {**views, "server": views["model"]}


def seen_in_the_mean(right: Any, terms: Any, noise: float) -> Any:
    wider = right(terms, noise * math.sqrt(terms.setup.silos))
    return {**right(terms, noise), "server": wider["server"]}


def untold(right: Any, terms: Any, noise: float) -> Any:
    views = right(replace(terms, setup=replace(terms.setup, security=NOBODY_TELLS)), noise)
    return {**right(terms, noise), "peer": views["peer"]}


def as_an_analyzer(right: Any, terms: Any, noise: float) -> Any:
    views = right(terms, noise)
    return {**views, "client": views["analyzer"]}


def without_the_node(right: Any, terms: Any, noise: float) -> Any:
    return {**right(terms, noise), "client": ev.Gaussian(noise), "silo": ev.Gaussian(noise)}


PLAIN = {"aggregation": '"plain"'}

MISTAKES = {
    "uldp-group": Mistake(GroupTerms, seen_in_the_mean, tables={"uldp": {"record_rate": "0.25"}}),
    "uldp-avg": Mistake(
        WeightedTerms, seen_in_the_sum, tables={"training": {"weighting": '"records"'}}
    ),
    "disco": Mistake(
        DiscoTerms, untold, tables={"data": {"silos": "5"}, "security": {"colluders": "2"}}
    ),
    "flame-simple": Mistake(
        FlameTerms,
        as_an_analyzer,
        tables={"data": {"silos": "1"}, "flame": {"transport": '"ideal"'}},
    ),
    "statistics": Mistake(GramTerms, seen_in_the_sum, tables={"security": PLAIN}),
    "fedpower-power": Mistake(ProductTerms, seen_in_the_sum, tables={"security": PLAIN}),
    "fedpower-utility": Mistake(PublishedTerms, without_the_node),
    "delm-basic": Mistake(
        SchemeTerms,
        seen_in_the_mean,
        "laplace_views",
        {"delm": {"pca": '"none"', "sensitivity": '"proven"'}},
    ),
}
"""By the system whose run it is made in."""

SLOW = ("uldp-group", "flame-simple", "fedpower-utility")


@contextlib.contextmanager
def planted(terms: type[Any], **wrong: Wrong) -> Iterator[None]:
    """Put wrong methods in the place of right ones, for a while."""
    with contextlib.ExitStack() as patches:
        for name, method in wrong.items():
            right = getattr(terms, name)

            def instead(self: Any, noise: float, right: Any = right, method: Wrong = method) -> Any:
                return method(right, self, noise)

            patches.enter_context(mock.patch.object(terms, name, instead))
        yield


def small(system: str, tables: Mapping[str, dict[str, str]] | None = None) -> Settings:
    """Return a small run of a system, seeded."""
    given = {name: dict(keys) for name, keys in (tables or {}).items()}
    given["run"] = {"seed": "1"}
    given["data"] = {"users": "20", "silos": "4", **given.get("data", {})}
    return read(system, **given)


def audited(folder: Path) -> set[str]:
    """Return the errors that an audit finds, whose comparison with the configuration finds none."""
    compared = comparison(folder)
    assert (compared.differences, compared.not_stated) == ((), ())
    return set(audit_budget(folder).errors) - {"seeded"}


@for_each(
    "system",
    [pytest.param(name, marks=pytest.mark.slow) if name in SLOW else name for name in MISTAKES],
)
def test_what_an_observer_learned_is_derived_and_is_not_what_the_terms_say(
    system: str, tmp_path: Path
) -> None:
    mistake = MISTAKES[system]
    settings = small(system, mistake.tables)
    run(settings, tmp_path / "right")
    assert audited(tmp_path / "right") == set()
    with planted(mistake.terms, **{mistake.method: mistake.wrong}):
        run(settings, tmp_path / "wrong")
        assert audited(tmp_path / "wrong") == FOUND


def test_noise_that_nobody_adds_is_refused_before_the_round(tmp_path: Path) -> None:
    def noisy(*_: Any) -> Any:
        return {"model": ev.Gaussian(5.0)}

    settings = small("fedavg")
    with (
        mock.patch.object(FedAvgTerms, "views", noisy),
        pytest.raises(Unsupported, match="A round without noise promises something"),
    ):
        run(settings, tmp_path / "wrong")
    assert audit_budget(tmp_path / "wrong").released == 0


@pytest.mark.slow
def test_a_bound_on_a_user_that_is_too_small_is_shown_by_canaries(tmp_path: Path) -> None:
    """The log is that of a sum of users' clipped terms, which a sound run would write too."""

    def of_users(_: Any, terms: Any, noise: float) -> Any:
        setup = terms.setup
        clip, users = setup.training.clip, setup.users
        return weighted_sum(noise, bound=clip, users=users, silos=setup.silos, rule="uniform")

    def as_users(_: Any, terms: Any, noise: float) -> Any:
        relation = terms.setup.privacy.neighbours
        return weighted_views(noise, silos=terms.setup.silos, rule="uniform", neighbours=relation)

    asked = AttackRequest(tiers=("claim",), canaries=100, seed=1)
    settings, verdicts = small("uldp-naive"), {}
    for name in ("right", "wrong"):
        wrong = {} if name == "right" else {"mechanism": of_users, "views": as_users}
        with planted(NaiveTerms, **wrong):
            run(settings, tmp_path / name)
            assert audited(tmp_path / name) == set()
            (found,) = attack(tmp_path / name, asked, append=False).measurements
        verdicts[name] = found.verdict
    assert verdicts == {"right": "not-contradicted", "wrong": "contradicted"}
