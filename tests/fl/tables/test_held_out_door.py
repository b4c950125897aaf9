"""Which configurations hold users out, and what the others are told."""

from __future__ import annotations

from typing import Any

import pytest

from privplan.accountant.errors import InvalidInput
from privplan.fl.running.configuration import Configuration

from ...cases import for_each
from ..extras import needs
from .hospitals import configuration

pytestmark = needs("torch", "pyarrow")

VOTES = {"test": "held-out", "held_out": 0.4, "held_out_noise": 1.5}


@for_each(
    "tables, says",
    [
        ({"evaluation": {"test": "held-out"}}, "lacks `held_out_noise`"),
        ({"evaluation": {"test": "none", "held_out_noise": 2.0}}, "no effect"),
        ({"evaluation": {"test": "none", "held_out": 0.2}}, "no effect"),
        ({"evaluation": {**VOTES, "held_out": 0.0}}, "strictly between 0 and 1"),
        ({"evaluation": {**VOTES, "held_out": 1.0}}, "strictly between 0 and 1"),
        ({"evaluation": {**VOTES, "held_out_noise": 0.0}}, "`held_out_noise`"),
        ({"evaluation": {**VOTES, "source": "a register"}}, "`source`"),
        ({"evaluation": VOTES, "security": {"aggregation": "private-weighting"}}, "private-weight"),
        ({"evaluation": {**VOTES, "test": "held_out"}}, "held-out"),
    ],
)
def test_what_does_not_go_together_is_refused(tables: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidInput, match=says):
        Configuration.of(configuration(**tables))


DISCO: dict[str, dict[str, Any]] = {"run": {"system": "disco"}, "privacy": {"unit": "silo"}}


@for_each("system", ["statistics", "fedpower-one-shot", "delm-linear"])
def test_a_system_that_trains_no_model_says_that_nobody_can_vote_on_it(system: str) -> None:
    with pytest.raises(InvalidInput, match=r"has no use for it|trains no model"):
        Configuration.of(configuration(system, evaluation=VOTES, **OTHER_TABLES.get(system, {})))


@for_each(
    "tables, says",
    [
        (
            {"run": {"system": "uldp-naive"}, "uldp": {"as_published": True}},
            "as published cannot pay for votes",
        ),
        (
            {**DISCO, "disco": {"noise": "as_published"}},
            'noise = "as_published"',
        ),
        (
            {**DISCO, "disco": {"time_frames": ["1-2", "1-2", "1-2"]}},
            "`time_frames`",
        ),
        (
            {"run": DISCO["run"], "privacy": {"unit": "record"}, "disco": {"divisor": 9}},
            "no public number is known",
        ),
    ],
)
def test_votes_that_a_run_cannot_pay_for_are_refused(tables: dict[str, Any], says: str) -> None:
    system = tables["run"]["system"]
    with pytest.raises(InvalidInput) as refused:
        Configuration.of(configuration(system, evaluation=VOTES, **tables))
    assert 'test = "held-out"' in str(refused.value)
    assert says in str(refused.value)


OTHER_TABLES: dict[str, dict[str, Any]] = {
    "statistics": {"run": {"rounds": 1}, "statistics": {"row_norm": 2.0}},
    "fedpower-one-shot": {"run": {"rounds": 1}, "fedpower": {"rank": 2, "row_norm": 2.0}},
    "delm-linear": {"run": {"rounds": 1}, "delm": {"row_norm": 2.0}},
}


def test_a_data_set_of_a_paper_holds_nobody_out() -> None:
    tables = {
        "run": {"system": "uldp-avg", "rounds": 1},
        "data": {"name": "breast-cancer", "users": 10, "silos": 2},
        "privacy": {"noise_multiplier": 2.0},
        "evaluation": VOTES,
    }
    with pytest.raises(InvalidInput, match="data set of a paper"):
        Configuration.of(tables)


def test_survival_has_no_right_answers() -> None:
    tables = configuration(evaluation=VOTES)
    tables["data"]["label"] = {
        "column": "outcome",
        "kind": "survival",
        "range": [0, 9],
        "event": "died",
        "values": ["n", "y"],
    }
    with pytest.raises(InvalidInput, match="right answers"):
        Configuration.of(tables)


def test_a_fifth_is_held_out_where_nothing_is_said() -> None:
    said = Configuration.of(
        configuration(evaluation={"test": "held-out", "held_out_noise": 3.0})
    ).settings
    assert said.evaluation.held_out == 0.2
    assert Configuration.of(said).settings == said
    assert said.to_json()["evaluation"]["held_out"] == "0.2"
    none = Configuration.of(configuration()).settings.to_json()["evaluation"]
    assert not {"held_out", "held_out_noise"} & none.keys()  # logs of other runs are as they were
