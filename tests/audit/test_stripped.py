"""Evidence that is taken out, or moved: commitments, items of the sidecar, whole sidecars."""

from __future__ import annotations

import json
import shutil
import zipfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from privplan.accountant.errors import InvalidInput
from privplan.accountant.records import release_binding
from privplan.audit.attack import attack
from privplan.audit.attack.report import AttackRequest
from privplan.audit.budget import BudgetReport, audit_budget
from privplan.audit.residual import residual_tier
from privplan.audit.residual.tier import ROUNDS_TESTED, VALUES_TESTED
from privplan.fl.declarations.sealed_items import sealed_items
from privplan.fl.frame.expected_log import NotStated
from privplan.fl.log import LogWriter, Sidecar
from privplan.fl.log.sidecar import commitment
from privplan.fl.running.preparation import prepare
from privplan.fl.running.session import execute
from privplan.fl.settings.toml_file import parse

from ..cases import for_each
from .forged import RUNS, Edit, Records, earlier, forged, records_of
from .logs import rechained

pytestmark = pytest.mark.skipif(
    any(find_spec(name) is None for name in ("torch", "sklearn", "cryptography")),
    reason="runs need the extra `fl`",
)

CONFIG = b"""
[run]
system = "uldp-avg"
rounds = 3
[data]
name = "breast-cancer"
users = 40
silos = 2
[privacy]
noise_multiplier = 5.0
sampling_rate = 0.5
"""


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of this version."""
    folder = tmp_path_factory.mktemp("fresh") / "run"
    with LogWriter.create(folder, fsync="never") as writer:
        execute(prepare(parse(CONFIG, "run.toml")), folder, writer)
    return folder


@pytest.fixture
def run(fresh: Path, tmp_path: Path) -> Path:
    """A copy of it, to be spoilt."""
    return Path(shutil.copytree(fresh, tmp_path / "run"))


def hazards(report: BudgetReport) -> dict[str, str]:
    return {hazard.id: hazard.severity for hazard in report.hazards}


def without(*names: str, only: int | None = None) -> Edit:
    """Return an edit that takes commitments out of all releases, or of one."""

    def edit(records: Records) -> None:
        releases = [one for one in records if one["type"] == "round.release"]
        for number, release in enumerate(releases):
            if only in (None, number):
                for name in names or tuple(release["sealed"]):
                    del release["sealed"][name]

    return edit


def refused(folder: Path, why: str) -> None:
    """Require that the residual tier is refused, and that no attack leaves it out."""
    with pytest.raises(InvalidInput, match=why):
        residual_tier(folder)
    for tiers in ((), ("residual",)):
        with pytest.raises(InvalidInput, match=why):
            attack(folder, AttackRequest(tiers=tiers), append=False)  # type: ignore[arg-type]


def sealed_anew(folder: Path, number: int, item: str, change: dict[str, Any]) -> None:
    """Change one sealed item, as the owner could: commit to it again, and chain the log anew."""
    releases = [one for one in records_of(folder) if one["type"] == "round.release"]
    old, path = releases[number]["sealed"][item], folder / "sealed.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    (own,) = (line for line in lines if line["commitment"] == old)
    own["value"] = {**own["value"], **change}
    own["commitment"] = commitment(own["name"], own["value"], own["blind"])
    path.write_text(
        "".join(json.dumps(line, sort_keys=True, separators=(",", ":")) + "\n" for line in lines)
    )

    def edit(records: Records) -> None:
        [one for one in records if one["type"] == "round.release"][number]["sealed"][item] = own[
            "commitment"
        ]

    rechained(folder, edit)


# --- what each round seals ------------------------------------------------------------------------


def test_what_is_announced_is_what_runs_seal(tmp_path: Path) -> None:
    """Every system, aggregation and sampling."""
    with zipfile.ZipFile(RUNS) as packed:
        packed.extractall(tmp_path)
    for folder in sorted(tmp_path.iterdir()):
        lines = (folder / "log.jsonl").read_text().splitlines()
        records = [json.loads(line) for line in lines if line.endswith("}")]
        own, phases = records[0]["configuration"], {}
        announced = sealed_items(lambda table, key, own=own: _typed(own.get(table, {}).get(key)))
        for one in records:
            if one["type"] == "round.intent":
                phases[one["seq"]] = one["phase"]
            if one["type"] == "round.release":
                assert sorted(one["sealed"]) == list(announced[phases[one["intent"]]]), folder.name


def _typed(value: object) -> object:
    try:
        return float(value) if isinstance(value, str) else value
    except ValueError:
        return value


def test_the_first_line_says_what_is_sealed_and_a_release_says_whose_it_is(fresh: Path) -> None:
    records = records_of(fresh)
    announced = records[0]["sealed"]["train"]
    known = {one.commitment: one.value for one in Sidecar.read(fresh).items}
    for one in records:
        if one["type"] == "round.release":
            assert sorted(one["sealed"]) == announced
            for name in ("residuals", "recomputed"):
                value: Any = known[one["sealed"][name]]
                assert value[release_binding.KEY] == {
                    "format": release_binding.FORMAT,
                    "run": records[0]["run_id"],
                    "intent": one["intent"],
                    "aggregate": one["aggregate"],
                }


def test_an_honest_run_passes_and_says_how_much_was_tested(fresh: Path) -> None:
    report = audit_budget(fresh, sealed=True)
    assert report.ok
    assert report.not_stated == ()
    check = report.to_json()["sealed"]
    assert check == {"released": 3, "rounds": 3, "values": 24, "counts": 3}
    assert audit_budget(fresh).to_json()["sealed"] is None
    for one in residual_tier(fresh):
        assert (one.sample[ROUNDS_TESTED], one.sample[VALUES_TESTED]) == (3, 3 * 2 * 31)


def test_an_earlier_run_says_that_it_does_not_say(tmp_path: Path) -> None:
    report = audit_budget(earlier(tmp_path, "avg-sampled"), sealed=True)
    assert report.ok
    assert report.not_stated == ("which items each round seals",)
    assert report.sealed is not None
    assert (report.sealed.rounds, report.sealed.counts) == (2, 2)


# --- stripped -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "edit",
    [
        without(),
        without("residuals", "recomputed"),
        without("joined"),
        without("residuals", only=1),
        lambda records: records[0].update(dataset=None),
    ],
)
def test_stripped_commitments_are_an_error_everywhere(run: Path, edit: Edit) -> None:
    rechained(run, edit)
    for sealed in (False, True):
        report = audit_budget(run, sealed=sealed)
        assert not report.ok
        assert hazards(report)["stripped-commitments"] == "error"
    for tiers in ((), ("residual",)):
        with pytest.raises(InvalidInput, match="lacks commitments to"):
            attack(run, AttackRequest(tiers=tiers), append=False)  # type: ignore[arg-type]


def test_commitments_that_the_first_line_no_longer_announces_are_missed_all_the_same(
    run: Path,
) -> None:
    """The configuration decides what is sealed."""

    def edit(records: Records) -> None:
        without("residuals")(records)
        records[0]["sealed"]["train"].remove("residuals")

    rechained(run, edit)
    assert hazards(audit_budget(run))["configuration-mismatch"] == "error"


def test_a_first_line_that_no_longer_says_what_is_sealed_does_not_fit_the_sidecar(
    run: Path,
) -> None:
    """As if an earlier version had made it, whose items said nothing of their release."""
    rechained(run, lambda records: records[0].pop("sealed"))
    assert hazards(audit_budget(run, sealed=True))["moved-items"] == "error"
    refused(run, "not those of their releases|states nothing of it")


def test_an_earlier_log_must_at_least_seal_the_same_in_each_round(tmp_path: Path) -> None:
    folder = forged(tmp_path, "avg-sampled", without("joined", only=1))
    report = audit_budget(folder, sealed=True)
    assert hazards(report)["stripped-commitments"] == "error"
    assert report.sealed is not None
    assert report.sealed.counts == 1


def test_a_sidecar_without_items_is_an_error_where_the_log_announces_them(run: Path) -> None:
    path = run / "sealed.jsonl"
    path.write_text(path.read_text().splitlines()[0] + "\n")
    report = audit_budget(run, sealed=True)
    assert not report.ok
    assert hazards(report)["unopened-commitments"] == "error"
    assert report.sealed is not None
    assert (report.sealed.rounds, report.sealed.values) == (0, 0)


def test_an_item_that_nothing_opens_is_no_reason_to_leave_a_tier_out(run: Path) -> None:
    def edit(records: Records) -> None:
        [one for one in records if one["type"] == "round.release"][1]["sealed"]["residuals"] = (
            "ab" * 32
        )

    rechained(run, edit)
    assert hazards(audit_budget(run, sealed=True))["unopened-commitments"] == "error"
    refused(run, "belong together")


@pytest.mark.parametrize("edit", [without(), without("residuals", "recomputed")])
def test_items_of_releases_that_the_log_no_longer_names_are_an_error(run: Path, edit: Edit) -> None:
    """As if an earlier version had made it, which sealed nothing of its noise."""

    def stripped(records: Records) -> None:
        del records[0]["sealed"]
        edit(records)

    rechained(run, stripped)
    assert hazards(audit_budget(run, sealed=True))["uncommitted-items"] == "error"
    refused(run, "belong together|states nothing of it")


def test_an_item_of_an_intent_without_release_is_what_a_kill_leaves(run: Path) -> None:
    def edit(records: Records) -> None:
        last = [one for one in records if one["type"] == "round.release"][-1]
        del records[records.index(last) :]

    rechained(run, edit)
    for name in ("model.npz", "metrics.json"):  # these are written when a run ends
        (run / name).unlink()
    known = {one["commitment"] for one in map(json.loads, (run / "sealed.jsonl").open())}
    named = {
        one
        for record in records_of(run)
        if record["type"] == "round.release"
        for one in record["sealed"].values()
    }
    assert known > named
    report = audit_budget(run, sealed=True)
    assert "uncommitted-items" not in hazards(report)
    assert report.ok
    assert residual_tier(run)[0].sample[ROUNDS_TESTED] == 2


@for_each("values", [1, 30, 32, 62])
def test_noise_that_was_drawn_for_other_values_is_an_error(run: Path, values: int) -> None:
    rechained(run, lambda records: set_releases(records, values=values))
    assert hazards(audit_budget(run, sealed=True))["other-noise"] == "error"


def test_noise_of_another_width_is_an_error(run: Path) -> None:
    """As if a smaller noise had been drawn than stands in the log, throughout."""

    def wider(records: Records) -> None:
        for one in records:
            if one["type"] == "round.intent":
                one["noise"]["share_std"] = repr(2.0 * float(one["noise"]["share_std"]))

    assert "other-noise" not in hazards(audit_budget(run, sealed=True))
    rechained(run, wider)
    assert hazards(audit_budget(run, sealed=True))["other-noise"] == "error"


def set_releases(records: Records, **fields: Any) -> None:
    for one in records:
        if one["type"] == "round.release":
            one.update(fields)


def test_what_a_failing_machine_takes_is_a_warning(run: Path) -> None:
    """The last items before the end of a run that was not closed."""
    rechained(run, lambda records: records.pop())
    path = run / "sealed.jsonl"
    path.write_text("".join(line + "\n" for line in path.read_text().splitlines()[:-3]))
    report = audit_budget(run, sealed=True)
    assert report.ok
    assert hazards(report)["unopened-commitments"] == "warning"


# --- moved ----------------------------------------------------------------------------------------


@for_each("item", ["residuals", "recomputed"])
def test_an_item_that_is_moved_from_another_round_does_not_fit(run: Path, item: str) -> None:
    def edit(records: Records) -> None:
        first, second = [one for one in records if one["type"] == "round.release"][:2]
        pair = first["sealed"][item], second["sealed"][item]
        second["sealed"][item], first["sealed"][item] = pair

    rechained(run, edit)
    report = audit_budget(run, sealed=True)
    assert not report.ok
    assert hazards(report)["moved-items"] == "error"
    refused(run, "not those of their releases")


@for_each(
    "change",
    [{"run": "0" * 32}, {"intent": 1}, {"aggregate": "0" * 64}, {"format": 3}, {"more": 1}],
)
def test_an_item_of_another_run_or_release_does_not_fit(run: Path, change: dict[str, Any]) -> None:
    records = records_of(run)
    last = [one for one in records if one["type"] == "round.release"][-1]
    own = release_binding.of_release(records[0]["run_id"], last["intent"], last["aggregate"])
    sealed_anew(run, -1, "residuals", {release_binding.KEY: {**own, **change}})
    assert hazards(audit_budget(run, sealed=True))["moved-items"] == "error"


def test_an_item_made_anew_fits_which_the_assumptions_say(run: Path) -> None:
    sealed_anew(run, -1, "recomputed", {"terms": 1})
    assert audit_budget(run, sealed=True).ok
    assert "makes them anew" in residual_tier(run)[0].assumes[0]


def test_an_item_that_says_nothing_does_not_fit_a_log_of_this_version(run: Path) -> None:
    sealed_anew(run, -1, "residuals", {})
    assert audit_budget(run, sealed=True).ok
    path = run / "sealed.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    old = [one for one in records_of(run) if one["type"] == "round.release"][-1]["sealed"]
    (own,) = (line for line in lines if line["commitment"] == old["residuals"])
    del own["value"][release_binding.KEY]
    own["commitment"] = new = commitment(own["name"], own["value"], own["blind"])
    path.write_text(
        "".join(json.dumps(line, sort_keys=True, separators=(",", ":")) + "\n" for line in lines)
    )

    def edit(records: Records) -> None:
        last = [one for one in records if one["type"] == "round.release"][-1]
        last["sealed"]["residuals"] = new

    rechained(run, edit)
    assert hazards(audit_budget(run, sealed=True))["moved-items"] == "error"


def test_earlier_sidecars_are_read_as_before(tmp_path: Path) -> None:
    folder = earlier(tmp_path, "avg-sampled")
    assert audit_budget(folder, sealed=True).ok
    assert residual_tier(folder)[0].sample[ROUNDS_TESTED] == 2


def test_nothing_of_the_sealed_content_stands_in_the_verdict(fresh: Path) -> None:
    shown = json.dumps(audit_budget(fresh, sealed=True).to_json())
    for one in Sidecar.read(fresh).items:
        value: Any = one.value
        for text in value.values() if isinstance(value, dict) else ():
            if isinstance(text, str) and len(text) > 4:
                assert text not in shown


def test_a_fact_that_is_not_there_is_named() -> None:
    def nothing(table: str, key: str) -> Any:
        raise NotStated(f"[{table}] {key}")

    with pytest.raises(NotStated, match="system"):
        sealed_items(nothing)
