"""Refusals: advice that fits whoever reads it, and sentences in plain English."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import privplan as pp
from privplan.accountant import events as ev
from privplan.accountant.bound_routes import routes
from privplan.accountant.composition import Composition
from privplan.accountant.errors import (
    InvalidInput,
    PrivplanError,
    Unsupported,
    kind_of,
    with_article,
)
from privplan.accountant.odometer import Odometer

from ..cases import for_each

ROOT = Path(pp.__file__).parent
RELATIONS = ("add-remove", "replace-one", "zero-out")

_INSIDE = (
    ev.ZCDP(0.5),
    ev.Pure(1.0),
    ev.Local(1.0),
    ev.Exponential(1.0),
    ev.Approximate(1.0, 1e-6),
    ev.RandomizedResponse(1.0, 3),
    ev.Shuffle(10, ev.Laplace(2.0)),
    ev.FixedSize(10, 100, ev.Gaussian(1.0)),
    ev.TruncatedPoisson(0.1, 15, 100, ev.Gaussian(1.0)),
    ev.ShuffledBatches(10, ev.Gaussian(1.0)),
    ev.RandomAllocation(10, 1, ev.Gaussian(1.0)),
    ev.BestOf("poisson", 4.0, ev.Gaussian(1.0)),
)
_AROUND = (
    lambda inner: ev.Poisson(0.1, inner),
    lambda inner: ev.FixedSize(10, 100, inner),
    lambda inner: ev.TruncatedPoisson(0.1, 15, 100, inner),
    lambda inner: ev.RandomAllocation(10, 1, inner),
    lambda inner: ev.ShuffledBatches(10, inner),
    lambda inner: ev.Shuffle(100, inner),
    lambda inner: ev.BestOf("geometric", 4.0, inner),
    lambda inner: ev.Group(3, ev.Poisson(0.1, inner)),
)


def _refusals(event, neighbours):
    """Yield what a person is told who names no engine: by account, calibrate and the odometer."""
    asked = (
        lambda: pp.account(event, delta=1e-5, neighbours=neighbours),
        lambda: pp.account(event, epsilon=1.0, neighbours=neighbours),
        lambda: pp.calibrate(lambda _: event, epsilon=1.0, delta=1e-5, neighbours=neighbours),
        lambda: Odometer(1.0, 1e-5, neighbours).spend(event),
    )
    for ask in asked:
        try:
            ask()
        except Unsupported as refusal:
            yield refusal
        except PrivplanError:
            continue


@pytest.mark.quick(5)
@for_each(
    ("around", "neighbours"),
    [(around, RELATIONS[(around + turn) % 3]) for around in range(8) for turn in (0, 1)],
)
def test_nobody_is_told_to_do_what_they_did(around, neighbours):
    """Each sampler around each release: no advice names the choice that was already left to us."""
    for inner in _INSIDE:
        if around in (3, 4, 6) and hasattr(inner, "event"):
            continue  # slow, and allowed for the most part
        for refusal in _refusals(_AROUND[around](inner), neighbours):
            assert "choice of the engine" not in str(refusal)
            assert "engine=" not in str(refusal)


def test_forced_engines_still_say_that_another_may_answer():
    event = ev.Poisson(0.1, ev.BestOf("poisson", 4.0, ev.Gaussian(1.0)))
    for engine in ("rdp", "pld"):
        with pytest.raises(Unsupported, match="eave the choice of the engine to privplan"):
            pp.account(event, delta=1e-5, engine=engine)
    with pytest.raises(Unsupported, match="without sampling") as caught:
        pp.account(event, delta=1e-5)
    assert "engine to privplan" not in str(caught.value)


@for_each(("neighbours", "noise"), [("add-remove", "0.5"), ("replace-one", "1")])
def test_a_sampled_rho_is_refused_with_what_would_be_sound(neighbours, noise):
    event = ev.Poisson(0.1, ev.ZCDP(2.0))
    for engine in (None, "rdp"):
        with pytest.raises(Unsupported) as caught:
            pp.account(event, delta=1e-5, neighbours=neighbours, engine=engine)
        assert f"Gaussian({noise})" in caught.value.next_step
        assert "without sampling" in caught.value.next_step
        assert "choice of the engine" not in str(caught.value)
    # What is advised is sound: the noise that is named has this rho, and a sample costs no more.
    named = ev.Gaussian(float(noise))
    for sampled in (named, ev.Poisson(0.1, named)):
        found = pp.account(sampled, delta=1e-5, neighbours=neighbours).epsilon.upper
        stated = pp.account(ev.ZCDP(2.0), delta=1e-5, neighbours=neighbours).epsilon.upper
        assert found <= stated * (1 + 1e-12)


def test_the_advice_for_sizes_does_not_leave_out_the_sample():
    """A batch that is cut from a sample is a larger share of it than of the population."""
    event = ev.Poisson(0.1, ev.FixedSize(10, 100, ev.Gaussian(1.0)))
    with pytest.raises(Unsupported) as caught:
        pp.account(event, delta=1e-5, neighbours="replace-one")
    assert "without sampling" not in str(caught.value)
    assert "Sample the innermost release" in str(caught.value)


def test_routes_do_not_send_to_the_choice_of_an_engine():
    event = ev.Poisson(0.1, ev.ZCDP(0.5))
    listed = routes(event, delta=1e-5)
    assert len(Composition.of(event)) == 1
    assert all("choice of the engine" not in route.refused for route in listed)


def test_a_refusal_without_other_advice_gets_a_general_one():
    forced = Unsupported("No.", "Why.", "Leave the choice of the engine to privplan.")
    assert "what it is" in str(Unsupported("No.", "Why.", "Say what it is.").unforced())
    assert "choice" not in str(forced.unforced())
    assert "explain engines" in str(forced.unforced())
    assert forced.unforced().what == "No."


@for_each(
    ("noun", "expected"),
    [
        ("approximate", "an approximate"),
        ("`exponential` event", "an `exponential` event"),
        ("gaussian", "a gaussian"),
        ("entry", "an entry"),
        ("user", "a user"),
        ("unit", "a unit"),
        ("zcdp", "a zcdp"),
        ("int", "an int"),
        ("ndarray", "an ndarray"),
        ("NoneType", "a NoneType"),
        ("'offer'", "an 'offer'"),
    ],
)
def test_articles(noun, expected):
    assert with_article(noun) == expected


def test_the_kind_of_a_value_is_said_in_english():
    assert kind_of(1) == "an int"
    with pytest.raises(InvalidInput, match="it is an int"):
        pp.account(1, delta=1e-5)
    with pytest.raises(InvalidInput, match="it returned an int"):
        pp.calibrate(lambda _: 1, epsilon=1, delta=1e-5)
    with pytest.raises(InvalidInput, match="it is an int"):
        ev.Poisson(0.1, 3)


def test_no_sentence_puts_a_fixed_article_before_what_may_begin_with_a_vowel():
    """Whatever is filled in after "a" begins with a consonant: the words that are listed here."""
    consonants = {"{event.distribution}", "{distribution}", "{unknown.name}", "{c**2}"}
    pattern = re.compile(r"""\b[Aa] (?:"\s+f?")?[`']?(\{[^}\s]*\})""")
    found = [
        f"{path.name}: {filled}"
        for floor in ("accountant", "audit", "fl", "cli")
        for path in (ROOT / floor).rglob("*.py")
        for filled in pattern.findall(path.read_text(encoding="utf-8"))
        if filled not in consonants
    ]
    assert not found


@for_each("kind", ["approximate", "exponential", "pure"])
def test_what_a_stated_event_rests_on_is_said_in_english(kind):
    from privplan.cli.reports.assumption_words import assumptions

    event = {
        "approximate": ev.Approximate(1.0, 1e-6),
        "exponential": ev.Exponential(1.0),
        "pure": ev.Pure(1.0),
    }[kind]
    said = " ".join(assumptions(event, "add-remove", "record", "model"))
    assert with_article(f"`{kind}` event") in said
    assert f"a `{kind}`" in said if kind == "pure" else f"a `{kind}`" not in said
