"""The records of a log, one class a line: from `run.open` to `run.close`, and their recorder.

Whoever keeps the log offers a `Recorder`; `Progress` is how far an interrupted run had come.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import ClassVar, Final, Literal, Protocol

from .. import events as ev
from .facts import (
    Block,
    Claim,
    Contribution,
    Json,
    Noise,
    Normaliser,
    Planned,
    Population,
    Randomness,
    Reach,
    Sampling,
    Security,
    StreamRange,
    Tuning,
    Weights,
)
from .field_codec import LATER, Fact
from .participation import require_increasing

SCHEMA: Final = "privplan-log/1"


@dataclass(frozen=True)
class Record(Fact):
    """One line of a log; `type` names its kind."""

    type: ClassVar[str] = ""


@dataclass(frozen=True)
class Party(Fact):
    """Whose log it is, of a run that several parties make together, each in a process of its own.

    `name` is `server` or that of a silo, counted from 0 (`silo-2`); `plan` the SHA-256 of the plan
    that all agreed on, `run` the name that the server gave the run.
    """

    name: str
    plan: str
    run: str

    @property
    def silo(self) -> int | None:
        """The number of the silo; None for the server."""
        number = self.name.removeprefix("silo-")
        return int(number) if number.isdecimal() else None


@dataclass(frozen=True)
class RunOpen(Record):
    """The first line: what the run promises, plans and rests on.

    `as_published` marks a method that is run as its paper prints it, although it is not sound.
    `aggregation` says what the server sees: every silo's update (`plain`), only their sum
    (`masked`), or that under weights which nobody sees (`private-weighting`); without a server,
    peers see the sum (`shares`), and a shuffler takes the senders off messages (`shuffle`).
    `security` holds the parameters of the protocol, where there is one.  `dataset` is a commitment;
    `configuration` is what the person asked for; `opened` is the time (UTC, ISO 8601).  `fsync`
    says which records are forced to the disk before the run goes on; the log fills it in (`never`:
    a crash of the machine may lose intents).  `sealed` names, by phase, the items that every
    release seals: the configuration decides them, never the data.  `study` says in a sentence that
    units were dealt at random for a study, so that no real person is one of them; None where they
    are real, or where an earlier version wrote the log.  `party` says whose log it is, where each
    party of a network keeps one; None where one log is of all.
    """

    type: ClassVar[str] = "run.open"
    run_id: str
    system: str
    claim: Claim
    plan: Planned
    population: Population
    randomness: Randomness
    aggregation: Literal["plain", "masked", "private-weighting", "shares", "shuffle"] = "plain"
    security: Security | None = field(default=None, metadata=LATER)
    as_published: bool = False
    tuning: Tuning = field(default_factory=Tuning)
    dataset: str | None = None
    configuration: Json = field(default_factory=dict)
    code: Mapping[str, str] = field(default_factory=dict)
    opened: str = ""
    schema: str = SCHEMA
    fsync: Literal["records", "always", "never"] = "records"
    sealed: Mapping[str, tuple[str, ...]] | None = field(default=None, metadata=LATER)
    study: str | None = field(default=None, metadata=LATER)
    party: Party | None = field(default=None, metadata=LATER)


@dataclass(frozen=True)
class RoundIntent(Record):
    """What is about to be released; written, and safe on disk, before any noise is drawn.

    `event` is what who sees the released model sees; `views` what others see of the same round.
    `sensitivity` is how far one unit moves the noisy sum, for the relation of the claim (L2 for
    Gaussian noise, L1 for Laplace), and `epsilon` of local randomizers stands in `event`.
    `model_in` is the digest of the (released) model that the round starts from.  `reaches` says
    by observer what of the round reaches it; None where that follows from `aggregation` and
    `security` of the first line.

    A round may have several intents, such as a noisy count with a noisy sum: each of a phase of
    its own, the same ones in the same order in all rounds that begin with the first of them, and
    only one of them states a model.

    `silos` are the silos that take part, by a public schedule that depends on no data; None where
    all do.  What is released then depends on the data of no other silo, but for what was released
    before.

    `block` says which rounds share correlated noise with this one.  The first of them states the
    event of all, and the others `Compose(())`: what they show is a part of that.  None where the
    noise of the round is its own.

    Range: `silos` counted from 0, strictly increasing, at least one.  Raises `InvalidInput`.
    """

    type: ClassVar[str] = "round.intent"
    # Next to the types of the fields, so that every way of reading a line asks for it.
    field_checks = MappingProxyType({"silos": require_increasing})
    round: int
    phase: str
    event: ev.Event
    contribution: Contribution
    noise: Noise
    sensitivity: float
    weights: Weights = field(default_factory=Weights)
    sampling: Sampling = field(default_factory=Sampling)
    views: Mapping[str, ev.Event] = field(default_factory=dict)
    model_in: str | None = None
    reaches: Mapping[str, Reach] | None = field(default=None, metadata=LATER)
    silos: tuple[int, ...] | None = field(default=None, metadata=LATER)
    block: Block | None = field(default=None, metadata=LATER)

    @property
    def is_covered(self) -> bool:
        """Whether an earlier round of its block states its event; whether one does, others say."""
        return self.block is not None and self.round != self.block.first


@dataclass(frozen=True)
class RoundRelease(Record):
    """What was released under the intent with sequence number `intent`.

    `shares` is the number of noise shares in the sum, `draws` of the noisy sums made, `streams`
    where their randomness stands.  `aggregate` and `model_out` are digests of noisy values;
    `sealed` holds commitments to what stands in the sidecar.  `state_out` is the digest of what the
    system keeps with its model, a function of released values; None where it keeps nothing.
    `drawn_here` is how many shares of each sum the party of this log drew itself: 1 at a silo of a
    network, 0 at its server; the others stand in the logs of others.  None: all of them.
    """

    type: ClassVar[str] = "round.release"
    round: int
    intent: int
    streams: tuple[StreamRange, ...]
    shares: int = 1
    draws: int = 1
    values: int = 1
    clip_enforced: bool = True
    normaliser: Normaliser | None = None
    aggregate: str | None = None
    model_out: str | None = None
    sealed: Mapping[str, str] = field(default_factory=dict)
    state_out: str | None = field(default=None, metadata=LATER)
    drawn_here: int | None = field(default=None, metadata=LATER)


@dataclass(frozen=True)
class RoundAbort(Record):
    """A round that released nothing; its intent, if it had one, stays spent."""

    type: ClassVar[str] = "round.abort"
    round: int
    intent: int | None
    reason: Literal["error", "interrupted", "missing-party", "refused"]


@dataclass(frozen=True)
class Evaluation(Record):
    """Numbers about the model, from public data, or under an `event` that was accounted.

    `released` numbers are the noised values of one release of the round: their little-endian
    float64 bytes, in the order of their names, have the digest that the release states.

    `source` is who says that the data are public, in the owner's words, and never a path; None
    where that is not stated.
    """

    type: ClassVar[str] = "evaluation"
    round: int
    data: Literal["declared-public", "private", "released"]
    metrics: Mapping[str, str]
    event: ev.Event | None = None
    source: str | None = field(default=None, metadata=LATER)


@dataclass(frozen=True)
class RunRecover(Record):
    """A run goes on after it was cut off.

    `dropped_bytes` is the length of a torn last line that was removed (0 for none), `dangling` the
    intents without a release, which count as spent; `streams` are new from here on.
    """

    type: ClassVar[str] = "run.recover"
    dropped_bytes: int
    dangling: tuple[int, ...]
    next_round: int
    randomness: Randomness


@dataclass(frozen=True)
class AuditResult(Record):
    """What an audit found, as far as it may be published."""

    type: ClassVar[str] = "audit.result"
    tier: str
    result: Json


@dataclass(frozen=True)
class PostProcessing(Record):
    """What was computed later from a release and public settings alone, at no cost.

    `of` is the `seq` of the release, `what` names the computation ("ridge"), `settings` are public,
    and `values` is the SHA-256 of the result, in hex.
    """

    type: ClassVar[str] = "post-processing"
    of: int
    what: str
    settings: Json
    values: str


@dataclass(frozen=True)
class RunClose(Record):
    """The last line: what the run says that it spent.

    `rounds` counts the releases, of which a round may have several.  `epsilon` is by observer, an
    upper bound at the claim's delta; `reason` says why it ended.
    """

    type: ClassVar[str] = "run.close"
    rounds: int
    reason: Literal["finished", "budget", "stopped"]
    events: Mapping[str, ev.Event]
    epsilon: Mapping[str, float]
    delta: float
    engine: str
    model: str | None = None


@dataclass(frozen=True)
class Head(Record):
    """A signature of the line before: Ed25519 over its hash; public `key`, `signature` in hex."""

    type: ClassVar[str] = "head"
    key: str
    signature: str


KINDS: Final[Mapping[str, type[Record]]] = {
    kind.type: kind
    for kind in (
        RunOpen,
        RoundIntent,
        RoundRelease,
        RoundAbort,
        Evaluation,
        RunRecover,
        AuditResult,
        PostProcessing,
        RunClose,
        Head,
    )
}
"""Every kind of record by its `type`."""


class Recorder(Protocol):
    """Takes records in their order, and keeps what may only be seen by a trusted auditor apart."""

    def append(self, record: Record) -> int:
        """Return the sequence number of the record once it is safely kept.

        An intent, a release and a recovery are durable when this returns; if it raises, nothing
        may be drawn or released.
        """

    def seal(self, items: Mapping[str, object]) -> dict[str, str]:
        """Keep items in the sealed sidecar; return a hiding commitment for each, by name."""

    def settle(self) -> None:
        """Return when all that was appended and sealed is safely kept."""


@dataclass(frozen=True)
class Progress:
    """What a run that goes on must know: everything spent, and the last model released.

    `intents` are all intents by sequence number, released or not: each is spent.  `releases` are
    the releases by the sequence number of their intent.  `recoveries` counts how often the run was
    resumed before.

    A round may have several intents: one that was cut off between them has spent those that stand
    here, and the next start goes on behind it.
    """

    opened: RunOpen
    intents: Mapping[int, RoundIntent]
    releases: Mapping[int, RoundRelease]
    recoveries: int

    @property
    def last_round(self) -> int:
        """The last round that was begun, with however many of its intents; 0 before the first."""
        return max((intent.round for intent in self.intents.values()), default=0)

    @property
    def dangling(self) -> tuple[int, ...]:
        """Intents without a release; they count as spent."""
        # Noise may have been drawn for them, and something may have been sent.
        return tuple(sorted(set(self.intents) - set(self.releases)))
