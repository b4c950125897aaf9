"""The configuration in the first line beside the facts: every fact that it decides is compared."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from privplan.accountant.errors import InvalidInput
from privplan.audit.attack import attack
from privplan.audit.budget import Entry, Ledger, audit_budget
from privplan.audit.configuration.comparison import compared
from privplan.audit.configuration.first_line import Comparison
from privplan.audit.evidence.epsilon_total import total
from privplan.audit.hazards.configuration_mismatch import NOISE_SEARCH_SLACK_RELATIVE as SLACK
from privplan.audit.report import read as read_page
from privplan.fl.log.reader import Scan
from privplan.fl.settings.toml_file import parse

from ..cases import for_each
from .forged import Edit, Records, earlier, first_line, forged, set_in


def comparison(folder: Path) -> Comparison:
    return compared(Ledger.of(Entry(line.number, line.seq, line.record) for line in Scan(folder)))


def key(table: str, name: str, value: object) -> Edit:
    """Return an edit of one key of the configuration; None takes it out."""

    def edit(records: Records) -> None:
        own = records[0]["configuration"][table]
        if value is None:
            del own[name]
        else:
            own[name] = value

    return edit


def intent(path: str, value: object, phase: str = "train") -> Edit:
    return set_in("round.intent", path, value, phase=phase)


def release(path: str, value: object) -> Edit:
    return set_in("round.release", path, value)


def where(kind: str, place: dict[str, object], **fields: object) -> Edit:
    """Return an edit of the records of a kind that have something at a place."""

    def edit(records: Records) -> None:
        for one in records:
            if one["type"] == kind and all(one.get(name) == own for name, own in place.items()):
                one.update(fields)

    return edit


def evaluation(test: str | None) -> Edit:
    """Return an edit that says what data the first line's run was measured on."""
    told = {"test": test, "source": None}
    return lambda records: records[0]["configuration"].update(evaluation=told)


PLAIN = "avg-uniform-plain"

FORGED: dict[str, tuple[str, Edit, str]] = {
    # the first line: the fact is edited
    "system": (PLAIN, first_line("system", "uldp-sgd"), "system uldp-avg"),
    "unit": (PLAIN, first_line("claim.unit", "record"), "unit user"),
    "neighbours": ("avg-replace", first_line("claim.neighbours", "add-remove"), "neighbours rep"),
    "delta": (PLAIN, first_line("claim.delta", "0.0001"), "delta 1e-05, line 1"),
    "target": ("avg-target", first_line("claim.epsilon", "9.0"), "epsilon 8.0, line 1 states 9.0"),
    "limit": ("avg-both", first_line("claim.epsilon", "1.3"), "epsilon 1.2 at most"),
    "a promise of none": ("fedavg", first_line("claim.epsilon", "1.0"), "epsilon none"),
    "observer": (PLAIN, first_line("claim.observer", "server"), "observer model"),
    "group": ("group-rate", first_line("claim.group", 1), "group_records 2"),
    "rounds": (PLAIN, first_line("plan.rounds", 3), "rounds 2, line 1 states 3"),
    "fewer rounds": ("avg-target", first_line("plan.rounds", 1), "rounds 2, line 1 states 1"),
    "users": (PLAIN, first_line("population.users", 50), "users 40"),
    "silos": (PLAIN, first_line("population.silos", 2), "silos 3"),
    "records": (PLAIN, first_line("population.records", 9), "records none"),
    "seed": (
        "avg-seeded",
        first_line("randomness.source", "operating-system"),
        "randomness seeded, line 1 states operating-system",
    ),
    "seed of a recovery": (
        "avg-records-plain-aborted",
        set_in("run.recover", "randomness.source", "seeded"),
        "randomness operating-system",
    ),
    "aggregation": (PLAIN, first_line("aggregation", "masked"), "aggregation plain"),
    "as published": ("naive-published", first_line("as_published", False), "as_published true"),
    "trials": ("avg-trials", first_line("tuning.trials", 1), "trials 12, line 1 states 1"),
    "public tuning": ("avg-trials", first_line("tuning.public_only", True), "public_only false"),
    "tuning event": (
        "avg-trials",
        first_line("tuning.event", {"type": "zcdp", "rho": 0.001}),
        "tuning.event none",
    ),
    # the protocol
    "no protocol": (
        "avg-uniform-masked",
        lambda records: records[0].pop("security"),
        "security pairwise-masks, line 1 states none",
    ),
    "parties": ("avg-uniform-masked", first_line("security.parties", 9), "security.parties 3"),
    "fewest": ("avg-dropouts", first_line("security.fewest", 5), "security.fewest 4"),
    "threshold": ("avg-dropouts", first_line("security.threshold", 5), "security.threshold 4"),
    "degree": ("avg-dropouts", first_line("security.degree", 3), "security.degree 4"),
    "ring": ("avg-dropouts", first_line("security.ring_bits", 32), "security.ring_bits 64"),
    "server": (
        "avg-dropouts",
        first_line("security.server", "honest-but-curious"),
        "security.server malicious",
    ),
    "colluders": ("avg-dropouts", first_line("security.colluders", 3), "security.colluders 2"),
    "key bits": ("avg-private", first_line("security.key_bits", 3072), "security.key_bits 2048"),
    "count limit": ("avg-private", first_line("security.count_limit", 41), "count_limit 40"),
    "count cap": ("avg-private", first_line("security.count_cap", 12), "count_cap 13"),
    "records per count": (
        "avg-private",
        first_line("security.records_per_count", 2),
        "records_per_count 1",
    ),
    "slots": ("avg-private-slots", first_line("security.slots", 100), "security.slots 10"),
    "chosen": ("avg-private-slots", first_line("security.chosen", 2), "security.chosen 3"),
    "noise of residues": (
        "avg-published",
        first_line("security.noise", "every-residue"),
        "security.noise multiples",
    ),
    # rounds
    "phase": (PLAIN, intent("phase", "train1"), "phase train, line 2 states train1"),
    "no normalising phase": (
        "avg-moments",
        where("round.intent", {"phase": "normalise"}, phase="train"),
        "phase normalise first, line 2 states train",
    ),
    "clip": (PLAIN, intent("contribution.bound", "0.2"), "clip 0.1, line 2"),
    "clip norm": (PLAIN, intent("contribution.norm", "l1"), "contribution.norm l2"),
    "clipped unit": ("group-plain", intent("contribution.unit", "user"), "contribution.unit rec"),
    "terms": ("naive-plain", intent("contribution.terms", "unit"), "contribution.terms silo-delta"),
    "source of the clip": (
        PLAIN,
        intent("contribution.source", "released"),
        "contribution.source public",
    ),
    "bound of moments": (
        "avg-moments",
        intent("contribution.bound", "5.0", "normalise"),
        "clip 5.477225575051661",
    ),
    "sensitivity": ("avg-replace", intent("sensitivity", "0.1"), "sensitivity 0.2"),
    "noise": (PLAIN, intent("noise.std", "0.7"), "noise 0.5000000000000001, line 2"),
    "noise of naive": ("naive-plain", intent("noise.std", "4.0"), "noise 3.0000000000000004"),
    "noise of moments": (
        "avg-moments",
        intent("noise.std", "55.0", "normalise"),
        "noise 27.386127875258307",
    ),
    "family": (PLAIN, intent("noise.family", "laplace"), "noise.family gaussian"),
    "shares": (PLAIN, intent("noise.shares", 4), "noise.shares 3"),
    "share": ("avg-target", intent("noise.share_std", "0.1"), "noise.share_std 0.049"),
    "dropouts": ("avg-dropouts", intent("noise.tolerated_dropouts", 0), "tolerated_dropouts 1"),
    "draws": ("group-plain", intent("noise.draws", 35), "noise.draws 70"),
    "grid": (PLAIN, intent("noise.grid", "1e-09"), "noise.grid 2.38"),
    "weights": ("avg-records-plain", intent("weights.rule", "uniform"), "weighting records"),
    "largest sum": (PLAIN, intent("weights.largest_sum", "0.5"), "largest_sum 1.0"),
    "sample": ("avg-sampled", intent("sampling.method", "none"), "sampling.method poisson"),
    "sampled unit": ("avg-sampled", intent("sampling.of", "record"), "sampling.of user"),
    "rate": ("avg-sampled", intent("sampling.rate", "0.1"), "rate 0.3, line 2 states 0.1"),
    "rate of slots": ("avg-private-slots", intent("sampling.rate", "0.1"), "rate 0.30000000000"),
    "rate of records": ("group-rate", intent("sampling.rate", "0.05"), "rate 0.1"),
    "nominal rate": ("group-plain", intent("sampling.rate", "0.05"), "rate 0.15"),
    "drawn by": ("avg-sampled", intent("sampling.drawn_by", "silos"), "drawn_by server"),
    "batch": ("avg-sampled", intent("sampling.batch", 4), "sampling.batch none"),
    "population": ("avg-sampled", intent("sampling.population", 40), "sampling.population none"),
    # releases
    "normaliser": (PLAIN, release("normaliser.value", "30.0"), "value 120.0"),
    "kind of normaliser": (
        PLAIN,
        release("normaliser", {"kind": "realised", "value": None}),
        "normaliser.kind constant",
    ),
    "clip enforced": (PLAIN, release("clip_enforced", False), "enforced true"),
    "shares in the sum": ("avg-dropouts", release("shares", 3), "shares 4 to 5, line 3"),
    "sums": ("group-plain", release("draws", 35), "draws 70"),
    "length of the moments": (
        "avg-moments",
        where("round.release", {"round": 0}, values=61),
        "normalise what cannot be (Moments of features are two values each, not 61)",
    ),
    "length of the model": (
        PLAIN,
        where("round.release", {"round": 2}, values=650),
        "values 31, line 6 states 650",
    ),
    # the configuration is edited
    "configured clip": (PLAIN, key("training", "clip", "0.2"), "clip 0.2, line 2 states 0.1"),
    "configured noise": (PLAIN, key("privacy", "noise_multiplier", "9.0"), "noise"),
    "configured trials": (PLAIN, key("run", "trials", 100), "trials 100"),
    "configured dropouts": (
        "avg-uniform-masked",
        key("security", "dropouts", 1),
        "security.fewest 2",
    ),
    "configured epochs": ("group-plain", key("training", "local_epochs", 9), "noise.draws 63"),
    "configured batch": ("group-plain", key("training", "batch", 16), "rate 0.3"),
    "no test data": (PLAIN, evaluation("none"), "evaluation none, line 4 states one of test data"),
    "test data of nobody": (
        PLAIN,
        evaluation(None),
        "evaluation.source published with scikit-learn",
    ),
    "flags by all silos": (
        "group-plain",
        lambda records: [
            one["sampling"].update(chosen_by="all-silos")
            for one in records
            if one["type"] == "round.intent"
        ],
        "sampling.chosen_by each-silo, line 2 states all-silos",
    ),
    "no number": (PLAIN, key("training", "clip", "0.10"), "[training] clip what no"),
    "no table": (
        PLAIN,
        first_line("configuration.privacy", 1),
        "[privacy] what no run can have, line 1 states 1",
    ),
}


@for_each("name", FORGED)
def test_a_fact_that_the_configuration_does_not_make_is_an_error(tmp_path: Path, name: str) -> None:
    run, edit, said = FORGED[name]
    folder = forged(tmp_path, run, edit)
    differences = comparison(folder).differences
    assert any(said in str(difference) for difference in differences), [
        str(difference) for difference in differences
    ]
    report = audit_budget(folder)
    assert not report.ok
    (hazard,) = (hazard for hazard in report.hazards if hazard.id == "configuration-mismatch")
    assert hazard.severity == "error"
    assert str(differences[0])[1:] in hazard.says


def test_earlier_logs_are_what_their_configurations_make(runs: Path) -> None:
    found = {folder.name: comparison(folder) for folder in sorted(runs.iterdir())}
    assert len(found) >= 68
    assert {name: one.differences for name, one in found.items() if one.differences} == {}
    assert {one.not_stated for one in found.values()} == {()}


def test_every_command_refuses_another_clip(tmp_path: Path) -> None:
    folder = forged(tmp_path, PLAIN, intent("contribution.bound", "0.2"))
    assert not audit_budget(folder).ok
    assert not read_page(folder).budget.ok
    with pytest.raises(InvalidInput, match=r"says clip 0\.1, line 2 states 0\.2"):
        attack(folder, append=False)


def test_the_configuration_beside_the_log_is_compared_with_it(tmp_path: Path) -> None:
    """Clip and configuration of the log were edited, and the file was forgotten."""

    def edit(records: Records) -> None:
        key("training", "clip", "0.2")(records)
        intent("contribution.bound", "0.2")(records)

    folder = forged(tmp_path, "avg-target", edit)
    (hazard,) = (
        hazard for hazard in audit_budget(folder).hazards if hazard.id.endswith("file-mismatch")
    )
    assert hazard.says == "Config.toml says [training] clip 0.1, line 1 states 0.2."
    assert hazard.severity == "error"
    assert "configuration-file-mismatch" in {
        hazard.id for hazard in read_page(folder).budget.hazards
    }


def test_a_file_of_another_version_is_not_stated(tmp_path: Path) -> None:
    folder = earlier(tmp_path, PLAIN)
    (folder / "config.toml").write_text("[disco]\nradius = 1.0\n")
    report = audit_budget(folder)
    assert report.ok
    assert "config.toml" in report.not_stated
    (folder / "config.toml").unlink()
    assert "config.toml" not in audit_budget(folder).not_stated


def test_a_path_in_the_file_is_no_difference(tmp_path: Path) -> None:
    folder = earlier(tmp_path, PLAIN)
    place = folder / "config.toml"
    place.write_text(place.read_text() + "\n[log]\nsave_models = true\n")
    assert audit_budget(folder).ok


def test_masks_are_stated_for_configured_colluders(tmp_path: Path) -> None:
    """What is stated is what was configured; the masks bear as many as they can."""

    def newer(records: Records) -> None:
        records[0]["configuration"]["security"]["colluders"] = 0
        records[0]["security"]["colluders"] = 0

    found = comparison(forged(tmp_path, "avg-dropouts", newer))
    assert [difference for difference in found.differences if "security" in difference.fact] == []


def test_what_the_configuration_of_an_earlier_version_lacks_is_not_stated(tmp_path: Path) -> None:
    def older(records: Records) -> None:
        own = records[0]["configuration"]
        del own["uldp"], own["security"], own["run"]["trials"], own["privacy"]["sampling_rate"]

    folder = forged(tmp_path, PLAIN, older)
    found = comparison(folder)
    assert found.differences == ()
    assert {"[run] trials", "[privacy] sampling_rate"} < set(found.not_stated)
    assert {"[security] aggregation", "[uldp] as_published"} < set(found.not_stated)
    assert not any("observer" in one or "colluders" in one for one in found.not_stated)


def test_keys_of_a_newer_version_are_not_stated(tmp_path: Path) -> None:
    def newer(records: Records) -> None:
        own = records[0]["configuration"]
        own["disco"] = {"radius": "1.0"}
        own["privacy"]["adaptive"] = True
        own["security"]["aggregation"] = "relayed"

    folder = forged(tmp_path, PLAIN, newer)
    (folder / "config.toml").unlink()
    found = comparison(folder)
    assert found.differences == ()
    assert found.not_stated == ("[disco]", "[privacy] adaptive", "[security] aggregation")
    report = audit_budget(folder)
    assert set(found.not_stated) <= set(report.not_stated)
    assert set(found.not_stated) <= set(report.to_json()["not_stated"])  # type: ignore[call-overload]
    assert report.ok


def test_without_a_configuration_nothing_is_compared(tmp_path: Path) -> None:
    folder = forged(tmp_path, PLAIN, first_line("configuration", {}))
    assert comparison(folder) == Comparison((), ("configuration",))


def test_a_required_key_that_is_missing_is_not_stated(tmp_path: Path) -> None:
    folder = forged(tmp_path, PLAIN, key("training", "clip", None))
    assert comparison(folder).not_stated == ("[training] clip",)


def test_a_budget_may_plan_fewer_rounds(tmp_path: Path) -> None:
    folder = earlier(tmp_path, "avg-both")
    opened = json.loads((folder / "log.jsonl").read_text().splitlines()[0])
    assert opened["plan"]["rounds"] < opened["configuration"]["run"]["rounds"]
    assert comparison(folder).differences == ()


def test_the_last_digit_is_no_difference(tmp_path: Path) -> None:
    folder = forged(tmp_path, PLAIN, intent("noise.std", "0.5"))
    assert comparison(folder).differences == ()


def twice_the_noise(records: Records) -> None:
    """Let every fact, event and number be of twice the noise that was found for the target."""

    def doubled(event: dict[str, Any]) -> None:
        if "noise_multiplier" in event:
            event["noise_multiplier"] *= 2
        for inside in (event.get("event"), *event.get("events", ())):
            if inside is not None:
                doubled(inside)

    for one in records:
        if one["type"] == "run.open":
            events = one["plan"]["events"].values()
        elif one["type"] == "round.intent":
            events = [one["event"], *one["views"].values()]
            for name in ("std", "share_std", "grid"):
                one["noise"][name] = repr(2.0 * float(one["noise"][name]))
        elif one["type"] == "run.close":
            events = one["events"].values()
        else:
            continue
        for event in events:
            doubled(event)


def test_noise_that_was_found_proves_its_target(tmp_path: Path) -> None:
    """Nothing else tells: the log is that of a run with as much noise."""
    honest = audit_budget(earlier(tmp_path / "honest", "avg-target"))
    assert "plan-below-target" not in {hazard.id for hazard in honest.hazards}
    folder = forged(tmp_path, "avg-target", twice_the_noise)
    assert comparison(folder).differences == ()
    for report in (audit_budget(folder), read_page(folder).budget):
        (hazard,) = (hazard for hazard in report.hazards if hazard.id == "plan-below-target")
        assert hazard.severity == "error"
        assert hazard.says.startswith("Noise was searched for epsilon 8, and the plan comes to 3.")
        assert not report.ok
    with pytest.raises(InvalidInput):
        attack(folder, append=False)


NOISE_SEARCH_SLACK_RELATIVE = {
    "sampled": ("uldp-avg", "sampling_rate = 0.3"),
    "masked": ("uldp-avg", '[security]\naggregation = "masked"\ndropouts = 1'),
    "for a coalition": ("uldp-avg", 'observer = "server+1"\n[security]\naggregation = "masked"'),
    "private weights": ("uldp-avg", '[security]\naggregation = "private-weighting"'),
    "moments": ("uldp-avg", "normalisation_noise = 5.0"),
    "steps": ("uldp-sgd", 'neighbours = "replace-one"'),
    "silos": ("uldp-naive", 'observer = "server"'),
    "groups": ("uldp-group", "[uldp]\ngroup_records = 4\nrecord_rate = 0.1"),
}


@for_each("name", NOISE_SEARCH_SLACK_RELATIVE)
def test_every_search_ends_at_its_target(name: str) -> None:
    """Far within what a log may stay below it."""
    pytest.importorskip("torch")
    pytest.importorskip("sklearn")
    from privplan.fl.running.preparation import prepare

    system, more = NOISE_SEARCH_SLACK_RELATIVE[name]
    moments = 'normalisation = "private"' * ("normalisation_noise" in more)
    opening = prepare(
        parse(
            f'[run]\nsystem = "{system}"\nrounds = 3\n[data]\nname = "breast-cancer"\nusers = 40\n'
            f"silos = 4\n{moments}\n[privacy]\nepsilon = 8.0\n{more}\n".encode(),
            "run.toml",
        )
    ).opening
    claim = opening.claim
    event = opening.plan.events[claim.observer]
    proven = total({event: 1}, delta=claim.delta, neighbours=claim.neighbours).upper
    assert 8.0 * (1.0 - SLACK / 5.0) <= proven <= 8.0


_WITHOUT = """
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("torch", "cryptography", "nacl", "gmpy2"):
            raise ModuleNotFoundError(name, name=name)
sys.meta_path.insert(0, Absent())
from privplan.audit.budget import audit_budget
for folder in sys.argv[1:]:
    found = audit_budget(folder)
    print(found.ok, *found.not_stated, sep="|")
"""


def test_neither_torch_nor_the_packages_of_a_protocol_are_needed(runs: Path) -> None:
    names = (PLAIN, "avg-private-slots", "group-plain", "naive-plain", "avg-dropouts")
    done = subprocess.run(
        [sys.executable, "-c", _WITHOUT, *(str(runs / name) for name in names)],
        capture_output=True,
        text=True,
        check=True,
    )
    lines = done.stdout.splitlines()
    assert all(line.startswith("True") for line in lines)
    assert "security." not in done.stdout
