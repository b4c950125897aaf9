"""What a verdict takes to be so where nobody mentions it: a closed list, each with an id."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final

from ...accountant.guarantee import Bounds
from ...accountant.neighbours import NEIGHBOURS
from .bounds import Proof
from .checked_run import CheckedRun
from .completions.designs import silos_are_clients
from .completions.facts import NOT_GAUSSIAN
from .proving import prove


@dataclass(frozen=True)
class Convention:
    """A convention: its `id`, the sentence that it `says`, and the `value` that `key` takes by it.

    A stated fact under the key cancels it.
    """

    id: str
    key: str
    value: object
    says: str


RELATION: Final = "relation"
CHOSEN_RATE: Final = "chosen-rate"
USER_CLIP: Final = "user-clip"
RECORD_CLIP: Final = "record-clip"
SILO_CLIP: Final = "silo-clip"
SILO_CLIENTS: Final = "silo-clients"
GAUSSIAN_RELEASES: Final = "gaussian-releases"
EVEN_RELEASES: Final = "even-releases"
OF_RELEASES: Final = (GAUSSIAN_RELEASES, EVEN_RELEASES)

CONVENTIONS: Final = (
    Convention(
        "constant-clip", "noise.clip_source", "constant", "The clipping norm is a constant."
    ),
    Convention("unit-record", "claim.unit", "record", "One record is protected."),
    Convention(
        USER_CLIP,
        "data.records_per_user",
        "clipped and drawn as a whole",
        "A user is drawn by itself, as a whole, and what it contributes is clipped as a whole.",
    ),
    Convention(
        RECORD_CLIP,
        "data.records_per_user",
        "drawn and clipped by itself",
        "A record is drawn and clipped by itself, whoever else's there are of its user.",
    ),
    Convention(
        SILO_CLIP,
        "noise.clip_bounds",
        "unit",
        "What a silo contributes to a step is clipped as a whole.",
    ),
    Convention(
        SILO_CLIENTS,
        "sampling.sampled",
        "silos",
        "The clients that are sampled are silos, each with all of its records.",
    ),
    Convention("no-accumulation", "schedule.accumulation", 1, "A noise draw takes one batch."),
    Convention("one-run", "schedule.restarts", 1, "One accountant counted all that was released."),
    Convention("no-tuning", "tuning.runs", 1, "No other model was trained to choose this one."),
    Convention(
        "records-public",
        "data.records_public",
        True,
        "Everybody may know how many records there are.",
    ),
    Convention(
        CHOSEN_RATE,
        "sampling.rate",
        "exact",
        "A rate of one digit, or of one over whole batches, was chosen so and is exact.",
    ),
    Convention(
        GAUSSIAN_RELEASES,
        "releases",
        "gaussian",
        "What is released besides has Gaussian noise, where nobody said which.",
    ),
    Convention(
        EVEN_RELEASES,
        "releases",
        "as many in each step",
        "What is released besides, of batches, is released as often in each step.",
    ),
    Convention(
        RELATION,
        "claim.neighbours",
        "add-remove",
        "A unit is there or not; a claim is called false only if it is so under every relation.",
    ),
)


def conventions_of(run: CheckedRun) -> tuple[Convention, ...]:
    """Return the conventions that the verdict about a run rests on."""
    return tuple(
        each
        for each in CONVENTIONS
        if _is_unsaid(run, each)
        and not (each.id == "records-public" and run.settings.neighbours != "add-remove")
        and not (each.id == "unit-record" and run.of_users is not None)
        and not (each.id == USER_CLIP and not _users_are_wholes(run))
        and not (each.id == SILO_CLIP and not _silos_are_wholes(run))
        and not (each.id == SILO_CLIENTS and not silos_are_clients(run))
        and not (each.id == RECORD_CLIP and not _records_are_alone(run))
    )


def _is_unsaid(run: CheckedRun, convention: Convention) -> bool:
    """Return whether nobody said what a convention is about."""
    releases = run.settings.releases
    if convention.id == CHOSEN_RATE:
        return run.chosen_rate
    if convention.id == GAUSSIAN_RELEASES:
        unsaid = any(each.family is None and each.noise_multiplier for each in releases)
        return unsaid and run.settings.family not in NOT_GAUSSIAN  # with which it is open
    if convention.id == EVEN_RELEASES:
        return any(each.of_batch is not False and each.count > 1 for each in releases)
    return convention.key not in run.known


def _users_are_wholes(run: CheckedRun) -> bool:
    """Return whether users may be protected, and nobody said how they are drawn and clipped."""
    users = run if run.of_users is None else run.of_users
    said = (users.settings.clip_bounds, users.settings.sampled)
    # Where it is by records, a proof asks for how many a user has.
    is_said = said == ("unit", "users") or "record" in said or "records" in said
    return users.settings.unit == "user" and users.event is None and not is_said


def _silos_are_wholes(run: CheckedRun) -> bool:
    return run.settings.unit == "silo" and run.event is None


def _records_are_alone(run: CheckedRun) -> bool:
    """Return whether a record is protected, others hold it, and nobody said who is drawn."""
    settings = run.settings
    # That rate and batch tell who is drawn says nothing of the clip.
    drawn_as_users = settings.sampled == "users" or "sampling.sampled" in run.stated
    said = drawn_as_users or settings.clip_bounds is not None
    if settings.unit != "record" or run.event is not None or said:
        return False
    of_clients = settings.clients_rate is not None
    held = (settings.users is not None or settings.silos is not None) and run.of_users is None
    return of_clients or held


def _may_have_several_records(run: CheckedRun) -> bool:
    """Return whether a user may have several records, mentioned or not."""
    of_users = run.settings.unit == "record" or run.of_users is not None or _users_are_wholes(run)
    return of_users and run.event is None and "data.records_per_user" not in run.known


def _with_several_records(run: CheckedRun) -> CheckedRun:
    users = run.of_users
    if users is None and run.settings.unit == "record":
        return replace(run, records_of_user=2)
    if users is None:
        return run.with_settings(records_per_user=2)
    return replace(run, of_users=users.with_settings(records_per_user=2))


def without_conventions(run: CheckedRun, proof: Proof) -> Proof:
    """Return the proof with every convention opened: most then leave no upper end.

    Only the relation is a choice of three; any number of accumulated batches, of other runs or of
    records of a unit has no bound.
    """
    if proof.bounds is None or proof.refused:
        return proof
    in_force = conventions_of(run)
    keys = tuple(each.key for each in in_force if each.id != RELATION)
    if keys:
        why = "Conventions are opened (--strict), and without them nothing bounds the run."
        lower = proof.bounds.lower
        if _may_have_several_records(run):
            # Users of several records may be drawn, or clipped, record by record.
            several = prove(_with_several_records(run)).bounds
            lower = 0.0 if several is None else min(lower, several.lower)
        if any(each.id == SILO_CLIENTS for each in in_force):
            lower = 0.0  # a silo may have any share of the clients
        if any(each.id in OF_RELEASES for each in in_force):
            without = prove(run.with_settings(releases=())).bounds
            lower = 0.0 if without is None else min(lower, without.lower)
        upper = Bounds(lower, math.inf)
        return replace(proof, bounds=upper, unbounded=why, lacking=(*proof.lacking, *keys))
    if not in_force:
        return proof
    ends = [prove(run.under(relation)).bounds for relation in NEIGHBOURS]
    # A relation under which nothing is proven leaves both ends open.
    least = min(0.0 if end is None else end.lower for end in ends)
    most = max(math.inf if end is None else end.upper for end in ends)
    hull = Bounds(least, most)
    return replace(proof, bounds=hull, lacking=(*proof.lacking, "claim.neighbours"))
