"""The closed keys of a described run: ranges, words, precision, and refusals that help."""

from __future__ import annotations

from decimal import Decimal

import pytest

from privplan.accountant.errors import InvalidInput
from privplan.accountant.neighbours import NEIGHBOURS
from privplan.audit.description.keys import DOTTED, KEYS, TABLES
from privplan.audit.description.printed_number import PrintedNumber, half_unit_of
from privplan.audit.description.run_description import ExtraRelease, Phase
from privplan.audit.description.tables import (
    SYNONYMS,
    likely_key,
    reading_of_names,
    reading_of_tables,
)

from ..cases import for_each

CONTRACT = {
    "claim": "epsilon rho mu delta delta_rule unit neighbours library accountant",
    "noise": "family noise_multiplier std clip clip_source clip_norm clip_bounds dimensions",
    "data": "records users silos records_per_user records_public",
    "sampling": "method batch rate clients_rate sampled weighted_draws",
    "schedule": "steps epochs records_per_epoch microbatches accumulation accumulation_of phases "
    "restarts horizon_days renews_every_days",
    "aggregation": "weights normaliser expected_replies replies",
    "tuning": "runs",
}


def test_keys_are_those_of_the_contract() -> None:
    assert {table: " ".join(keys) for table, keys in TABLES.items()} == CONTRACT
    dotted = [f"{table}.{key}" for table, keys in CONTRACT.items() for key in keys.split()]
    assert sorted(KEYS) == sorted([*dotted, "releases"])
    assert KEYS["claim.neighbours"].words == NEIGHBOURS


def test_last_parts_are_unique() -> None:
    """So `--set method=...` and `pp.check(method=...)` mean one key."""
    assert len(DOTTED) == len(KEYS)


def test_every_key_says_what_it_means_and_asks() -> None:
    for key in KEYS.values():
        assert key.meaning
        assert key.asks.endswith("?"), key.name
        assert key.asks[0].isupper()


def test_synonyms_name_keys() -> None:
    assert set(SYNONYMS.values()) <= set(KEYS)
    assert not set(SYNONYMS) & set(DOTTED)


@for_each(
    ("name", "value", "range_said"),
    [
        ("claim.epsilon", "about 3", "finite number, 0 or above"),
        ("claim.epsilon", -1, "finite number, 0 or above"),
        ("claim.epsilon", True, "finite number, 0 or above"),
        ("claim.epsilon", Decimal("nan"), "finite number, 0 or above"),
        ("claim.epsilon", "1_0", "finite number, 0 or above"),
        ("claim.epsilon", 16**5000, "a very large integer"),
        ("claim.rho", [1], "finite number, 0 or above"),
        ("claim.delta", 1, r"\[0, 1\)"),
        ("claim.delta", Decimal("-0.1"), r"\[0, 1\]"),
        ("claim.delta", "1/records", "delta_rule"),
        ("claim.delta", "nan", r"\[0, 1\]"),
        ("claim.unit", "person", "one of record, user, silo"),
        ("claim.neighbours", 3, "one of add-remove"),
        ("claim.library", "", "1 to 200 characters"),
        ("claim.library", "opacus\x1b[2J", "one line"),
        ("noise.noise_multiplier", "1.1", "without quotes"),
        ("noise.noise_multiplier", float("inf"), "finite number, 0 or above"),
        ("noise.clip", 0, "finite number above 0"),
        ("data.records", 0, "positive integer"),
        ("data.records", 10**19, r"at most 10\^18"),
        ("data.records", 1.5, "positive integer"),
        ("data.records", False, "positive integer"),
        ("data.records", None, "null"),
        ("sampling.rate", Decimal("1.1"), r"\[0, 1\]"),
        ("sampling.rate", 0, "above 0, and at most 1"),
        ("sampling.rate", 5e-324, "above 0, and at most 1"),
        ("schedule.epochs", 0.0, "finite number above 0"),
        ("schedule.phases", [], "list of 1 to 100,000 rows; it is empty"),
        ("schedule.phases", [[1.1, 0.004]], "three numbers"),
        ("schedule.phases", [[1.1, 2.0, 10]], r"phases\[0\].rate"),
        ("releases", {"what": "counts"}, "list of tables"),
        ("releases", [{"wat": "counts"}], "Did you mean `what`"),
        ("releases", [{"noise_multiplier": None}], r"releases\[0\].noise_multiplier"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_values_outside_the_range_are_refused(name: str, value: object, range_said: str) -> None:
    with pytest.raises(InvalidInput, match=range_said) as caught:
        KEYS[name].value(value)
    assert name in str(caught.value)
    assert caught.value.next_step


def test_an_infinite_claim_is_refused_in_words() -> None:
    for value in ("inf", float("inf"), Decimal("inf")):
        with pytest.raises(InvalidInput, match="promises nothing"):
            KEYS["claim.epsilon"].value(value)


@for_each(
    ("name", "value", "expected"),
    [
        ("claim.epsilon", Decimal("1.19"), PrintedNumber(1.19, 0.005)),
        ("claim.epsilon", "1.19", PrintedNumber(1.19, 0.0)),
        ("claim.epsilon", 8, PrintedNumber(8.0, 0.0)),
        ("claim.delta", "1e-5", 1e-5),
        ("claim.delta", 0, 0.0),
        ("noise.noise_multiplier", 0, 0.0),
        ("data.records", Decimal("6e4"), 60000),
        ("data.records", 60000.0, 60000),
        ("sampling.rate", 1, 1.0),
        ("schedule.epochs", 15, 15.0),
        ("schedule.phases", [[Decimal("1.1"), Decimal("0.004"), 1000]], (Phase(1.1, 0.004, 1000),)),
        ("schedule.phases", (Phase(1.1, 0.004, 1000),), (Phase(1.1, 0.004, 1000),)),
        ("releases", [{"what": "counts"}], (ExtraRelease("counts", None, 1),)),
        (
            "releases",
            [{"noise_multiplier": 2, "count": 3}],
            (ExtraRelease("a further release", 2.0, 3),),
        ),
        ("releases", (ExtraRelease("x", None, 2),), (ExtraRelease("x", None, 2),)),
    ],
)
def test_values_in_the_range_get_the_type_of_the_key(
    name: str, value: object, expected: object
) -> None:
    got = KEYS[name].value(value)
    assert got == expected
    assert type(got) is type(expected)
    assert KEYS[name].value(got) == expected, "what is checked stays as it is"


def test_precision_is_kept_beside_the_value() -> None:
    def half_unit(name: str, value: object) -> float:
        return KEYS[name].fact(value, "stated", "run.toml").half_unit

    assert half_unit("sampling.rate", Decimal("0.0043")) == 0.00005
    assert half_unit("sampling.rate", 0.0043) == 0.0
    assert half_unit("data.records", Decimal("6e4")) == 0.0
    assert half_unit("claim.delta", Decimal("1e-5")) == 0.0, "one digit is meant so"
    assert half_unit("claim.delta", Decimal("1.67e-5")) == 5e-8
    assert half_unit("claim.delta", Decimal("0.00010")) == 0.0
    assert half_unit("schedule.phases", [[1, Decimal("0.004"), 5]]) == 0.0005
    assert half_unit_of(Decimal("1e-500")) == 0.0


@for_each(
    ("tables", "words"),
    [
        ({"nois": {"std": 1}}, "Did you mean `noise`?"),
        ({"noise": {"noise_multiplyer": 1}}, "Did you mean `noise_multiplier`?"),
        ({"noise": {"sigma": 1}}, "Did you mean `noise.noise_multiplier`?"),
        ({"noise": {"batch": 1}}, "`batch` belongs into [sampling]."),
        ({"epsilon": 3}, "`epsilon` belongs into [claim]."),
        ({"claim.epsilon": 3}, "Did you mean `claim.epsilon`?"),
        ({"sampling": {"sample_rate": 0.1}}, "rate"),
        ({"sampling": {"zzzz": 0.1}}, "Known in [sampling]: method, batch, rate, clients_rate, "),
        ({"zzzz": {}}, "Known: claim, noise"),
        ({"noise": 3}, "Its keys: family"),
    ],
)
def test_names_are_closed(tables: dict[str, object], words: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        reading_of_tables(tables, "run.toml")
    assert words in caught.value.next_step
    assert "run.toml" in caught.value.what


def test_facts_by_name() -> None:
    reading = reading_of_names({"noise_multiplier": 1.1, "data.records": 10}, "the call")
    assert {key: fact.value for key, fact in reading.facts.items()} == {
        "noise.noise_multiplier": 1.1,
        "data.records": 10,
    }
    with pytest.raises(InvalidInput, match="given twice"):
        reading_of_names({"records": 1, "data.records": 1}, "the call")
    with pytest.raises(InvalidInput, match=r"Did you mean `noise.noise_multiplier`\?"):
        reading_of_names({"sigma": 1}, "the call")
    assert likely_key("zzzzzz") is None
