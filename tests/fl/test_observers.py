"""Observers in configurations: names, coalitions, for whom noise is made, and what is refused."""

from __future__ import annotations

import doctest
import json
import math
import re
from dataclasses import replace
from typing import Any

import pytest
from scipy.optimize import brentq

pytest.importorskip("torch")
pytest.importorskip("sklearn")

from privplan.accountant.errors import InvalidInput
from privplan.fl.observers import assumptions, names, words
from privplan.fl.observers.assumptions import (
    HONEST_SERVER,
    OTHER_SILOS_RECORDS,
    PROTOCOL_FOLLOWED,
    Circumstances,
    assumptions_of,
    remedies,
)
from privplan.fl.observers.names import coalition_of
from privplan.fl.observers.words import phrase, unit_before
from privplan.fl.running.preparation import prepare
from privplan.fl.running.prepared_run import PreparedRun
from privplan.fl.settings.schema import Settings, circumstances_of
from privplan.fl.settings.toml_file import parse

from ..accountant.participating import exact
from ..cases import for_each


def settings(
    *,
    system: str = "uldp-avg",
    silos: int = 5,
    privacy: str = "noise_multiplier = 5.0",
    training: str = 'weighting = "records"',
    security: str = "",
) -> Settings:
    text = (
        f'[run]\nsystem = "{system}"\nrounds = 20\n'
        f'[data]\nname = "breast-cancer"\nusers = 20\nsilos = {silos}\n'
        f"[privacy]\n{privacy}\n[training]\n{training}\n[security]\n{security}\n"
    )
    return parse(text.encode(), "run.toml")


def prepared(**given: Any) -> PreparedRun:
    return prepare(settings(**given))


def refused(**given: Any) -> str:
    with pytest.raises(InvalidInput) as caught:
        prepared(**given)
    return " ".join((caught.value.what, caught.value.why, caught.value.next_step))


def epsilons(own: PreparedRun) -> dict[str, float]:
    return {who: one.epsilon.upper for who, one in own.plan.guarantees.items()}


# --- names ----------------------------------------------------------------------------------------


def test_examples_run() -> None:
    found = [doctest.testmod(module) for module in (names, assumptions, words)]
    assert sum(module.attempted for module in found) > 3
    assert not any(module.failed for module in found)


@for_each(
    "name",
    [
        *("", "Server", "server+", "server+0", "server+02", "server+-1", "server+1.5", "server +1"),
        *("silo+1", "server+1-with", "server+1-with-records ", "server+1\n", "server+999999999"),
    ],
)
def test_what_is_no_coalition_is_no_observer(name: str) -> None:
    assert coalition_of(name) is None
    with pytest.raises(InvalidInput, match="must name an observer"):
        names.observer_name(observer=name)


@for_each("name", ["server+1", "server+2-with-records", "server+31"])
def test_a_coalition_keeps_its_name(name: str) -> None:
    found = coalition_of(name)
    assert found is not None
    assert found.name == name
    assert phrase(name) != name


@for_each(
    ("key", "value", "says"),
    [
        ("observer", '"sever"', 'Did you mean observer = "server"?'),
        ("observer", '"silo-with-record"', 'Did you mean observer = "silo-with-records"?'),
        ("observer", '"everybody"', "server+2 for the server with two silos"),
        ("observer", "3", "must name an observer; it is 3"),
        ("observers", '["model", "sevrer"]', 'Did you mean "server"?'),
        ("observers", '"model"', "must be a list"),
        ("observers", "[]", "must be a list of one observer or more"),
        ("observers", '["model", "model"]', "names an observer twice"),
        ("observers", "[1]", "must name an observer; it is 1"),
    ],
)
def test_names_that_are_none_are_refused_with_the_nearest(key: str, value: str, says: str) -> None:
    text = refused(privacy=f"noise_multiplier = 5.0\n{key} = {value}")
    assert says in text
    assert "[privacy]" in text


@for_each("value", ["-1", "1.5", '"two"', "true"])
def test_colluders_are_a_number_of_silos(value: str) -> None:
    text = refused(security=f"colluders = {value}")
    assert "[security]" in text
    assert "colluders" in text


# --- what is named and what there is --------------------------------------------------------------


def test_as_many_collude_as_are_named() -> None:
    own = settings(privacy='noise_multiplier = 5\nobservers = ["model", "server+3", "server+1"]')
    assert own.security.colluders == 3
    assert own.privacy.observers == ("model", "server+3", "server+1")
    assert settings().security.colluders == 0
    found = prepare(own).plan.guarantees
    assert {"server+1", "server+3", "server+1-with-records", "server+3-with-records"} <= set(found)
    json.dumps(own.to_json())
    assert own.to_json()["privacy"]["observers"] == ["model", "server+3", "server+1"]


def test_more_than_collude_or_masks_bear_cannot_be_named() -> None:
    text = refused(privacy='noise_multiplier = 5\nobserver = "server+2"', security="colluders = 1")
    assert "names server+2 in [privacy] with colluders = 1 in [security]" in text
    security = 'aggregation = "masked"\ndropouts = 2\ncolluders = 2'
    assert "stay and tell nothing" in refused(security=security)


@for_each("aggregation", ["plain", "masked"])
@for_each(("silos", "most"), [(2, 0), (3, 1), (5, 3)])
def test_two_silos_must_be_left_to_hide_among(silos: int, most: int, aggregation: str) -> None:
    security = f'aggregation = "{aggregation}"\ncolluders = {most + 1}'
    text = refused(silos=silos, security=security)
    assert re.search(rf"`colluders` is {most + 1}, and there are {silos} silos", text)
    named = refused(silos=silos, privacy=f'noise_multiplier = 5\nobserver = "server+{most + 1}"')
    assert f"server+{most + 1} is named, and there are {silos} silos" in named
    if most:
        prepared(silos=silos, security=security.replace(str(most + 1), str(most)))


def test_who_does_not_see_the_run_is_promised_nothing() -> None:
    even = 'weighting = "uniform"'
    text = refused(privacy='epsilon = 8\nobserver = "silo-with-records"', training=even)
    assert "has no observer 'silo-with-records' of its own" in text
    assert 'Write observer = "silo" in [privacy]' in text  # whose number covers it
    naive = refused(
        system="uldp-naive",
        training="",
        privacy='noise_multiplier = 5\nobserver = "silo-with-records"\n[uldp]\nas_published = true',
    )
    assert "has no observer 'silo-with-records'" in naive
    alone = refused(silos=1, privacy='epsilon = 8\nobserver = "silo"')
    assert "has no observer 'silo'" in alone


@for_each("noise", ["epsilon = 8", "noise_multiplier = 5"])
@for_each("who", ["silo-with-records", "server+2-with-records"])
def test_nothing_is_promised_where_the_counts_are_known(who: str, noise: str) -> None:
    text = refused(privacy=f'{noise}\nobserver = "{who}"')
    assert "Nothing can be promised" in text
    assert "knows N_u" in text
    assert 'weighting = "uniform"' in text
    if who == "silo-with-records":  # masks hide no weight from the silo that applies it
        assert 'aggregation = "private-weighting"' in text
        assert 'with observer = "silo"' in text
        assert "another aggregation" not in text


def test_private_weighting_is_promised_to_no_coalition() -> None:
    private = 'aggregation = "private-weighting"'
    text = refused(privacy='epsilon = 8\nobserver = "server+1"', security=private)
    assert "admits no coalition" in text
    told = prepared(security=f"{private}\ncolluders = 2\nkey_bits = 2048")
    assert math.isinf(epsilons(told)["server+2"])
    assert told.opening.security is not None
    assert told.opening.security.colluders == 0  # what it holds against


# --- noise and claim ------------------------------------------------------------------------------


@for_each("dropouts", [0, 1])
def test_noise_and_claim_are_made_for_the_observer(dropouts: int) -> None:
    """Of five shares made for 5 - t, two are known: mu sqrt((5 - t) / (3 - t)) against them."""
    security = f'aggregation = "masked"\ndropouts = {dropouts}'
    own = prepared(privacy='epsilon = 8.0\nobserver = "server+2"', security=security)
    claim, found = own.opening.claim, epsilons(own)
    assert (claim.observer, claim.epsilon) == ("server+2", 8.0)
    assert 7.999 < found["server+2"] <= 8.0
    model = math.sqrt(20) / own.system.plan().noise["train"]
    assert found["model"] == pytest.approx(exact(model), rel=1e-5)
    told = model * math.sqrt((5 - dropouts) / (3 - dropouts))
    assert found["server+2"] == pytest.approx(exact(told), rel=1e-5)
    assert own.opening.security is not None
    assert own.opening.security.colluders == 2


def test_the_numbers_of_the_guide() -> None:
    security = 'aggregation = "masked"\ndropouts = 1\ncolluders = 2'
    found = epsilons(prepared(privacy="epsilon = 8.0", security=security))
    assert found["server+2"] == pytest.approx(12.26, abs=0.005)
    assert found["server"] == pytest.approx(8.0, abs=0.005)
    # A silo without the user: all but one share of five; one with records: no guarantee.
    found = epsilons(prepared(privacy="epsilon = 8.0"))
    mu = brentq(lambda mu: exact(mu) - 8.0, 0.1, 5.0)
    assert found["silo"] == pytest.approx(exact(mu * math.sqrt(5 / 4)), rel=1e-4)
    assert found["silo"] == pytest.approx(9.16, abs=0.005)
    assert found["server"] == pytest.approx(22.17, abs=0.01)
    assert math.isinf(found["silo-with-records"])
    even = epsilons(prepared(privacy="epsilon = 8.0", training='weighting = "uniform"'))
    assert set(even) == {"model", "server", "silo"}
    assert even["silo"] == pytest.approx(exact(mu * math.sqrt(4 / 5)), rel=1e-4)


@for_each("aggregation", ["plain", "masked"])
@for_each("system", ["uldp-naive", "uldp-group"])
def test_other_systems_make_noise_for_a_coalition_too(system: str, aggregation: str) -> None:
    """Of five silos that all swing, three are left; a record has its silo's noise to itself."""
    records = "\n[uldp]\ngroup_records = 2" if system == "uldp-group" else ""
    own = prepared(
        system=system,
        training="",
        privacy=f'epsilon = 8.0\nobserver = "server+2"{records}',
        security=f'aggregation = "{aggregation}"',
    )
    found = epsilons(own)
    assert own.opening.claim.observer == "server+2"
    assert 7.99 < found["server+2"] <= 8.0
    assert found["server+2"] == found["server+2-with-records"]
    if system == "uldp-group":
        assert found["server+2"] == found["server"]
    else:
        mu = brentq(lambda mu: exact(mu) - found["server"], 0.01, 10.0)
        assert found["server+2"] == pytest.approx(exact(mu * math.sqrt(3 / 5)), rel=1e-4)


@for_each("aggregation", ["plain", "masked"])
def test_moments_and_training_are_counted_for_the_same_coalitions(aggregation: str) -> None:
    text = (
        '[run]\nsystem = "uldp-avg"\nrounds = 2\n'
        '[data]\nname = "breast-cancer"\nusers = 20\nsilos = 5\nnormalisation = "private"\n'
        "[privacy]\nnoise_multiplier = 5.0\nnormalisation_noise = 5.0\n"
        f'[training]\nweighting = "records"\n[security]\naggregation = "{aggregation}"\n'
        "colluders = 2\n"
    )
    own = prepare(parse(text.encode(), "run.toml"))
    first, second = own.plan.phases
    assert set(first.views) == set(second.views)
    times = math.sqrt(5 if aggregation == "plain" else 5 / 3)
    assert epsilons(own)["server+2"] == pytest.approx(exact(times * math.sqrt(3) / 5.0), rel=1e-5)
    assert math.isinf(epsilons(own)["silo-with-records"])
    assert math.isinf(epsilons(own)["server+2-with-records"])


# --- what numbers rest on -------------------------------------------------------------------------


@for_each("aggregation", ["plain", "masked"])
@for_each("who", ["model", "server", "silo", "server+2"])
def test_weights_by_records_in_the_clear_rest_on_counts(who: str, aggregation: str) -> None:
    clear = assumptions_of(who, Circumstances(aggregation, "records", 5))
    assert clear[0].startswith("N_u")
    even = assumptions_of(who, Circumstances(aggregation, "uniform", 5))
    assert clear[1:] == even
    assert assumptions_of(who, Circumstances("private-weighting", "records", 5)) == (
        PROTOCOL_FOLLOWED,
    )


@for_each(
    ("silos", "dropouts", "colluders", "trusts"),
    [(4, 1, 0, False), (4, 2, 0, True), (5, 2, 0, False), (5, 2, 1, True)],
)
def test_masks_that_a_lying_server_could_take_off_say_so(
    silos: int, dropouts: int, colluders: int, trusts: bool
) -> None:
    """Two groups of silos can be made to believe in two sums where so many may be missing."""
    security = f'aggregation = "masked"\ndropouts = {dropouts}\ncolluders = {colluders}'
    own = prepared(silos=silos, security=security)
    assert own.opening.security is not None
    assert (own.opening.security.server == "honest-but-curious") == trusts
    circumstances = circumstances_of(own.settings, silos)
    named = ["server"] + [f"server+{colluders}"] * bool(colluders)
    for who in named:
        assert (HONEST_SERVER in assumptions_of(who, circumstances)) == trusts
    assert HONEST_SERVER not in assumptions_of("model", circumstances)


@for_each("observer", ["silo-with-records", "server+2-with-records"])
def test_who_holds_a_part_of_the_unit_is_promised_what_the_others_hold(observer: str) -> None:
    uniform = Circumstances("masked", "uniform", 5)
    assert OTHER_SILOS_RECORDS in assumptions_of(observer, uniform)
    assert unit_before(observer, "user") == "user's records in the other silos"
    without = observer.removesuffix("-with-records")
    assert OTHER_SILOS_RECORDS not in assumptions_of(without, uniform)
    assert unit_before(without, "user") == "user (all records in other silos)"


def test_a_search_stands_beside_every_number_and_moments_are_relieved_by_uniform_weights() -> None:
    own = settings()
    searched = replace(own, run=replace(own.run, trials=50))
    for who in ("model", "server", "silo"):
        assert any("50 runs" in one for one in assumptions_of(who, circumstances_of(searched, 5)))
        assert not any("runs" in one for one in assumptions_of(who, circumstances_of(own, 5)))
    moments = replace(circumstances_of(settings(), 5), moments=True)
    (relief,) = remedies(moments)
    assert "uniform" in relief
    assert "private-weighting" not in relief
    assert "private-weighting" in remedies(replace(moments, moments=False))[0]
    assert assumptions_of("model", Circumstances("plain", "records", 1)) == ()
