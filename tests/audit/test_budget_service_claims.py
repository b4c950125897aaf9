"""Claims on a budget ledger: what they charge, what they may not, and what a key stands for."""

from __future__ import annotations

import json
import random
import sqlite3
import threading
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import mpmath
import pytest
import sqlalchemy as sa

from privplan.accountant import events as ev
from privplan.accountant.errors import InvalidInput, Unsupported
from privplan.audit.budget_service import owners
from privplan.audit.budget_service.balances import within
from privplan.audit.budget_service.claiming import BudgetRefusal
from privplan.audit.budget_service.database import Database
from privplan.audit.budget_service.names import Refusal
from privplan.audit.budget_service.service import LedgerService, claim_request
from privplan.audit.budget_service.tables import metadata, projects
from privplan.audit.budget_service.terms import Terms
from privplan.audit.budget_service.versions import daily_claims, first_tables

from ..cases import for_each
from .ledger_services import ANA, AUDITOR, EVE, LAPLACE, OLGA, OTTO, SMALL, TRAINING, Ledger, served


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LedgerService]:
    with served(tmp_path_factory.mktemp("ledger") / "ledger.db") as opened:
        yield opened


@pytest.fixture
def ledger(service: LedgerService) -> Ledger:
    return Ledger(service)


def test_a_claim_charges_every_block_that_it_names(ledger: Ledger) -> None:
    first = ledger.claim(blocks=["a"])
    assert first["state"] == "claimed"
    before = ledger.balances()
    assert set(before["b"]) == {0}
    assert all(before["a"][:-1])
    ledger.claim(begin=True)
    after = ledger.balances()
    assert after["a"] == [2 * units for units in before["a"]]
    assert after["b"] == before["a"]
    shown = ledger.shown()
    # The data set has spent what its largest block has.
    assert shown["spent"]["epsilon"] == shown["blocks"]["a"]["spent"]
    assert shown["blocks"]["a"]["spent"] > shown["blocks"]["b"]["spent"] > 0.0


def test_the_cap_holds_for_each_block_and_a_refusal_says_what_fits(ledger: Ledger) -> None:
    event, count = SMALL, ledger.fill(blocks=["a"])
    with pytest.raises(BudgetRefusal) as refusal:
        ledger.claim(event, blocks=["a"])
    assert refusal.value.more["fits"] == {"count": 0}
    cap = Terms.of(ledger.terms).cap_of(4.0)
    assert within(tuple(ledger.balances()["a"]), cap)
    # Both blocks cannot pay where one cannot, and nothing of it is charged to the other.
    with pytest.raises(BudgetRefusal):
        ledger.claim(event)
    assert set(ledger.balances()["b"]) == {0}
    for _ in range(count):
        ledger.claim(event, blocks=["b"])
    other = Ledger(ledger.service)
    request = claim_request(
        {
            "data_set": other.name,
            "project": "x",
            "event": ev.Repeat(2 * count, event).to_json(),
        }
    )
    with pytest.raises(BudgetRefusal) as refused:
        other.service.claim(request, ANA)
    fits = other.service.fits(request, refused.value, ANA).more["fits"]
    assert fits["count"] == count
    other.claim(ev.Repeat(2 * count, ev.Gaussian(fits["noise_multiplier"])))
    assert 8.0 < fits["noise_multiplier"] < 8.0 * 1.5


def test_a_cap_that_a_count_reaches_exactly_is_spent_whole(service: LedgerService) -> None:
    """In mu^2 the price of a Gaussian release is a fraction, so its cap can be met to the unit."""
    ledger = Ledger(service, currency="gdp", blocks=["a"])
    budget = Terms.of(ledger.terms).currency.budgets[0]
    noise = float((100 / budget) ** Fraction(1, 2)) * (1 + 1e-12)
    for _ in range(100):
        ledger.claim(ev.Gaussian(noise))
    (spent,) = ledger.balances().values()
    assert 10**15 - 10**5 < spent[0] <= 10**15
    with pytest.raises(BudgetRefusal):
        ledger.claim(ev.Gaussian(noise))


def test_what_was_begun_is_spent_and_what_was_not_can_be_taken_back(ledger: Ledger) -> None:
    first, second = ledger.claim()["id"], ledger.claim(TRAINING)["id"]
    both = ledger.balances()
    ledger.step("begin", second)
    assert ledger.balances() == both
    assert ledger.step("cancel", first)["state"] == "cancelled"
    assert ledger.step("cancel", first)["state"] == "cancelled"  # once more, and nothing more
    left = ledger.balances()
    assert all(0 < left["a"][index] < both["a"][index] for index in (1, 2))
    for step, claim, *more in (("cancel", second), ("begin", first), ("release", first, None)):
        with pytest.raises(Refusal) as refusal:
            ledger.step(step, claim, *more)
        assert refusal.value.word == "state"
    assert ledger.balances() == left
    head = "ab" * 32
    assert ledger.step("release", second, head)["state"] == "released"
    assert ledger.step("release", second, head)["state"] == "released"
    with pytest.raises(Refusal, match="released"):
        ledger.step("release", second, "cd" * 32)
    with pytest.raises(Refusal, match="released"):
        ledger.step("abandon", second)
    third = ledger.claim(begin=True)["id"]
    spent = ledger.balances()
    assert ledger.step("abandon", third)["state"] == "abandoned"
    assert ledger.balances() == spent
    assert ledger.audited().problem is None


def test_a_claim_belongs_to_its_holder(ledger: Ledger) -> None:
    claim = ledger.claim()["id"]
    for step in ("begin", "cancel"):
        with pytest.raises(Refusal) as refusal:
            ledger.step(step, claim, actor=EVE)
        assert refusal.value.status == 404
    with pytest.raises(Refusal):
        ledger.service.claim_now(claim, EVE)
    assert ledger.service.claim_now(claim, AUDITOR)["state"] == "claimed"
    assert ledger.step("cancel", claim, actor=OLGA)["state"] == "cancelled"


def test_a_key_stands_for_one_claim(ledger: Ledger) -> None:
    first = ledger.claim(key="k1")
    assert ledger.claim(key="k1") == first
    spent = ledger.balances()
    for other in ({"begin": True}, {"blocks": ["a"]}, {"project": "other"}, {"event": TRAINING}):
        with pytest.raises(Refusal) as refusal:
            ledger.claim(key="k1", **other)
        assert refusal.value.status == 422
    assert ledger.balances() == spent
    # Somebody else's key is another key.
    assert ledger.claim(key="k1", actor=EVE)["id"] != first["id"]


def test_a_key_answers_in_the_state_that_its_claim_has_now(ledger: Ledger) -> None:
    first, other = ledger.claim(key="now1")["id"], ledger.claim(key="now2")["id"]
    ledger.step("begin", first)
    assert ledger.claim(key="now1")["state"] == "begun"
    ledger.step("cancel", other)
    with pytest.raises(Refusal, match="was cancelled") as refusal:
        ledger.claim(key="now2")
    assert (refusal.value.status, refusal.value.more) == (409, {"state": "cancelled"})


def test_a_refusal_is_not_remembered_under_its_key(ledger: Ledger) -> None:
    large = ledger.claim(ev.Repeat(5, LAPLACE))["id"]
    with pytest.raises(BudgetRefusal):
        ledger.claim(ev.Repeat(6, LAPLACE), key="again")
    ledger.step("cancel", large)
    assert ledger.claim(ev.Repeat(6, LAPLACE), key="again")["state"] == "claimed"


@for_each("event", [ev.Pure(0.0), ev.Compose([ev.Compose([])])])
def test_what_costs_nothing_is_not_written(event: ev.Event, ledger: Ledger) -> None:
    with pytest.raises(Refusal, match="costs nothing"):
        ledger.claim(event)
    assert len(ledger.lines()) == 1


def test_a_project_is_limited_within_each_block(ledger: Ledger) -> None:
    ledger.owner("limit_project", "small", 0.25)
    count = ledger.fill(project="small", blocks=["a"])
    whole = Ledger(ledger.service).fill(blocks=["a"])
    assert whole // 4 - 1 <= count <= whole // 4 + 1
    assert ledger.claim(SMALL, project="small", blocks=["b"])["state"] == "claimed"
    assert ledger.claim(SMALL, project="other", blocks=["a"])["state"] == "claimed"
    assert ledger.audited().problem is None


def test_a_claim_that_does_not_fit_leaves_nothing_behind(ledger: Ledger) -> None:
    with pytest.raises(BudgetRefusal):
        ledger.claim(ev.Repeat(10**6, SMALL), project="unheard-of")
    with ledger.service.database.reading() as connection:
        names = connection.execute(sa.select(projects.c.name)).scalars().all()
    assert "unheard-of" not in names
    assert len(ledger.lines()) == 1


def test_an_analyst_is_limited_by_what_it_spent_before_as_well(ledger: Ledger) -> None:
    whole = Ledger(ledger.service).fill(blocks=["a"])
    early = [ledger.claim(SMALL, blocks=["a"])["id"] for _ in range(4)]
    ledger.claim(SMALL, blocks=["a"], actor=EVE)
    ledger.owner("limit_analyst", "ana", 0.5)
    ledger.step("cancel", early[0])
    count = ledger.fill(blocks=["a"])
    assert whole // 2 - 1 <= 3 + count <= whole // 2 + 1
    assert ledger.claim(SMALL, blocks=["a"], actor=EVE)["state"] == "claimed"
    ledger.step("cancel", early[1])
    assert ledger.fill(blocks=["a"]) == 1
    assert ledger.audited().problem is None


def test_a_view_charges_its_parent(ledger: Ledger) -> None:
    view = f"{ledger.name}-copy"
    signer = ledger.service.signer
    ledger.service.wrote(lambda each: owners.open_view(each, signer, view, ledger.name, OLGA))
    ledger.claim(data_set=view, begin=True)
    assert any(ledger.balances()["a"])
    assert ledger.service.shown(view)["spent"] == ledger.shown()["spent"]
    assert ledger.service.shown(view)["charged"] == ledger.name
    assert ledger.audited().problem is None


def test_new_people_are_new_blocks_and_all_means_those_that_exist_then(ledger: Ledger) -> None:
    ledger.claim()
    ledger.owner("add_blocks", ["c"])
    assert set(ledger.balances()["c"]) == {0}
    with pytest.raises(Refusal, match="exists"):
        ledger.owner("add_blocks", ["c"])
    ledger.claim()
    spent = ledger.balances()
    assert spent["a"] == [2 * units for units in spent["c"]]
    with pytest.raises(Refusal, match="no block d"):
        ledger.claim(blocks=["d"])


def test_caps_move_by_four_eyes(ledger: Ledger) -> None:
    proposal = ledger.owner("propose_cap", 2.0, "less")["proposal"]
    with pytest.raises(Refusal, match="does not approve"):
        ledger.owner("approve_cap", proposal)
    assert ledger.shown()["epsilon"] == 4.0
    assert ledger.owner("approve_cap", proposal, actor=OTTO)["epsilon"] == 2.0
    with pytest.raises(Refusal, match="no such open proposal"):
        ledger.owner("approve_cap", proposal, actor=OTTO)
    ledger.claim(begin=True)
    back = ledger.owner("propose_cap", 4.0, "more")["proposal"]
    assert ledger.owner("approve_cap", back, actor=OTTO)["certified"] is True
    assert ledger.audited().certified
    below = ledger.owner("propose_cap", 0.5, "stop")["proposal"]
    assert "below what is spent" in ledger.owner("approve_cap", below, actor=OTTO)["frozen"]
    assert ledger.audited().problem is None


def test_a_cap_above_what_was_certified_ends_certification_for_good(ledger: Ledger) -> None:
    for epsilon, name in ((9.0, "up"), (4.0, "down")):
        proposal = ledger.owner("propose_cap", epsilon, name)["proposal"]
        shown = ledger.owner("approve_cap", proposal, actor=OTTO)
        assert shown["certified"] is False
        assert any("NOT CERTIFIED" in note for note in shown["notes"])
    audited = ledger.audited()
    assert audited.problem is None
    assert not audited.certified


def test_an_event_that_nothing_pays_for_never_fits_a_raised_cap(ledger: Ledger) -> None:
    proposal = ledger.owner("propose_cap", 4000.0, "all")["proposal"]
    ledger.owner("approve_cap", proposal, actor=OTTO)
    with pytest.raises(BudgetRefusal):
        ledger.claim(ev.NoGuarantee("nothing is known"))
    for _ in range(5):
        assert ledger.claim(ev.Repeat(5, LAPLACE))["state"] == "claimed"
    with pytest.raises(BudgetRefusal):
        ledger.claim(ev.NoGuarantee("nothing is known"))


def test_an_event_of_another_unit_or_relation_is_converted_or_refused(
    service: LedgerService,
) -> None:
    ledger, other = Ledger(service), Ledger(service)
    ledger.claim(ev.Gaussian(20.0), unit="record", records_per_unit=3)
    other.claim(ev.Group(3, ev.Gaussian(20.0)))
    assert ledger.balances() == other.balances()
    ledger.claim(ev.Pure(0.01), observer="server")
    for stated in (
        {"unit": "record"},
        {"unit": "person"},
        {"neighbours": "replace-one"},
        {"observer": "peer"},
    ):
        before = ledger.balances()
        with pytest.raises((InvalidInput, Unsupported)):
            ledger.claim(ev.Pure(0.1), **stated)
        assert ledger.balances() == before
    audited = ledger.audited()
    assert audited.problem is None
    entry = json.loads(ledger.lines()[1])
    assert entry["stated"] == {"unit": "record", "records_per_unit": 3}
    assert entry["derivation"]


def test_units_in_several_blocks_pay_for_all_of_them(service: LedgerService) -> None:
    alone = Ledger(service, currency="zcdp")
    several = Ledger(service, currency="zcdp", blocks_per_unit=3)
    for ledger in (alone, several):
        ledger.claim(SMALL)
    assert several.balances()["a"][0] >= 3 * alone.balances()["a"][0] - 3
    with pytest.raises(Unsupported, match="one order"):
        Ledger(service, blocks_per_unit=2)


def test_many_writers_never_exceed_a_cap(service: LedgerService) -> None:
    ledger = Ledger(service, epsilon=2.0)
    taken: list[str] = []

    def spend(number: int) -> None:
        for attempt in range(40):
            try:
                taken.append(ledger.claim(SMALL, key=f"{number}-{attempt}")["id"])
            except BudgetRefusal:
                return

    threads = [threading.Thread(target=spend, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    single = Ledger(service, epsilon=2.0)
    alone = single.fill()
    assert len(set(taken)) == alone
    assert ledger.balances() == single.balances()
    assert ledger.audited().problem is None


@for_each(
    ("changed", "says"),
    [
        ({"epsilon": -1.0}, "epsilon"),
        ({"delta": 1.5}, "delta"),
        ({"unit": "person"}, "unit"),
        ({"neighbours": "any"}, "neighbours"),
        ({"blocks": ["a", "a"]}, "twice"),
        ({"blocks": []}, "blocks"),
        ({"blocks": ["../x"]}, "letters"),
        ({"cap_at_most": 1.0}, "below"),
        ({"orders": [0.5]}, "above 1"),
        ({"currency": "euro"}, "euro"),
        ({"colour": "red"}, "unknown field"),
    ],
)
def test_terms_that_make_no_sense_are_refused(
    changed: dict[str, object], says: str, service: LedgerService
) -> None:
    with pytest.raises(InvalidInput, match=says):
        Ledger(service, **changed)


def test_a_data_set_is_opened_once(ledger: Ledger) -> None:
    with pytest.raises(Refusal, match="There is a data set"):
        ledger.service.open_data_set(ledger.terms, OLGA)


def test_tables_of_a_newer_version_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    Database(str(path)).close()
    with sqlite3.connect(path) as connection:
        connection.execute("update alembic_version set version_num = '999'")
    connection.close()
    with pytest.raises(InvalidInput, match="newer version"):
        Database(str(path))


def _exact_cost(event: ev.Event, order: float) -> Fraction:
    """Return the Renyi divergence of Gaussian or Laplace noise at an order, to 40 digits."""
    with mpmath.workdps(50):
        noise, a = mpmath.mpf(event.noise_multiplier), mpmath.mpf(order)
        if isinstance(event, ev.Gaussian):
            value = a / (2 * noise**2)
        else:
            up = a / (2 * a - 1) * mpmath.exp((a - 1) / noise)
            down = (a - 1) / (2 * a - 1) * mpmath.exp(-a / noise)
            value = mpmath.log(up + down) / (a - 1)
        return Fraction(int(mpmath.floor(value * 10**40)), 10**40)


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_streams_over_blocks_are_what_brute_force_says_of_each_unit(
    seed: int, service: LedgerService
) -> None:
    """Each unit lies in one block; what it lost is the exact sum over what touched its block."""
    chance = random.Random(seed)
    names = ["a", "b", "c", "d"]
    ledger = Ledger(service, blocks=names, epsilon=3.0)
    currency = Terms.of(ledger.terms).currency
    live: dict[str, tuple[list[str], ev.Event]] = {}
    shapes = [ev.Gaussian(6.0), ev.Gaussian(11.0), ev.Laplace(4.0), ev.Laplace(9.0)]
    costs = {shape: [_exact_cost(shape, order) for order in currency.orders] for shape in shapes}

    def lost(unit_block: str) -> list[Fraction]:
        events = [event for blocks, event in live.values() if unit_block in blocks]
        return [
            sum((costs[event][index] for event in events), Fraction(0))
            for index in range(len(currency.orders))
        ]

    refused = 0
    for _ in range(120 if seed == 1 else 2000):
        if live and chance.random() < 0.2:
            claim = chance.choice(sorted(live))
            del live[claim]
            ledger.step("cancel", claim)
            continue
        blocks, event = chance.sample(names, chance.randint(1, 4)), chance.choice(shapes)
        fits = all(
            any(
                spent + cost <= budget
                for spent, cost, budget in zip(
                    lost(block), costs[event], currency.budgets, strict=True
                )
                if budget > 0
            )
            for block in blocks
        )
        try:
            live[ledger.claim(event, blocks=blocks)["id"]] = (blocks, event)
            assert fits
        except BudgetRefusal:
            refused += 1
            assert not fits
    assert refused > 10
    for block, units in ledger.balances().items():
        for balance, spent, budget in zip(units, lost(block), currency.budgets, strict=False):
            if budget > 0:
                exact = spent / budget
                assert exact <= Fraction(balance, 10**15) <= exact * (1 + Fraction(1, 10**9))
    assert ledger.audited().problem is None


@for_each(
    ("currency", "event"),
    [
        ("rdp", TRAINING),
        ("zcdp", SMALL),
        ("gdp", SMALL),
        ("mu2-plans", TRAINING),
        ("planned-pool", TRAINING),
    ],
)
def test_every_currency_is_kept_and_audited(
    currency: str, event: ev.Event, service: LedgerService
) -> None:
    ledger = Ledger(service, currency=currency, epsilon=3.0, cap_at_most=4.0, delta=1e-5)
    claim = ledger.claim(event)
    assert 0.0 < claim["spent"]["epsilon"] <= 3.0
    both = ledger.balances()
    ledger.step("cancel", ledger.claim(event)["id"])
    assert ledger.balances() == both
    count = ledger.fill(event, blocks=["a"])
    proposal = ledger.owner("propose_cap", 4.0, "all")["proposal"]
    assert ledger.owner("approve_cap", proposal, actor=OTTO)["certified"] is True
    more = ledger.fill(event, blocks=["a"])
    # Whole plans are limited by their number as well: each takes a part of delta.
    assert more > 0 or (currency == "mu2-plans" and 1 + count == 8)
    assert claim["spent"]["epsilon"] < ledger.shown()["blocks"]["a"]["spent"] <= 4.0
    assert ledger.audited(claim["receipt"]).problem is None


def test_migrations_make_the_tables_that_the_code_knows(tmp_path: Path) -> None:
    path = tmp_path / "new.db"
    Database(str(path)).close()
    engine = sa.create_engine(f"sqlite:///{path}")
    with engine.connect() as connection:
        inspected = sa.inspect(connection)
        made = {
            name: {column["name"] for column in inspected.get_columns(name)}
            for name in inspected.get_table_names()
            if name != "alembic_version"
        }
        revisions = connection.execute(sa.text("select version_num from alembic_version")).all()
    engine.dispose()
    assert made == {
        table.name: {column.name for column in table.columns} for table in metadata.sorted_tables
    }
    assert [row[0] for row in revisions] == [daily_claims.revision]
    assert daily_claims.down_revision == first_tables.revision


def test_tables_of_the_first_version_are_brought_to_the_present_one(tmp_path: Path) -> None:
    path = tmp_path / "first.db"
    Database(str(path)).close()
    engine = sa.create_engine(f"sqlite:///{path}")
    with engine.begin() as connection:
        connection.execute(sa.text("drop table daily_claim"))
        first = {"revision": first_tables.revision}
        connection.execute(sa.text("update alembic_version set version_num = :revision"), first)
    Database(str(path)).close()
    with engine.connect() as connection:
        assert sa.inspect(connection).has_table("daily_claim")
    engine.dispose()
