"""The gate through which all noise is drawn: budget, then intent, then noise, then release.

    gate.open(intent)     the odometer is asked, and the intent is safe in the log
    ticket.stream, draw   only now is anything drawn
    ticket.close(...)     the release is in the log; what was computed may be handed on

Whatever goes wrong leaves the release unmade and the budget spent: an error within the round ends
in `round.abort`, and a recorder that fails shuts the gate, since nobody knows what it kept.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from fractions import Fraction
from typing import Final

from .. import events as ev
from .. import records
from ..errors import BudgetExceeded, InvalidInput, PrivplanError, Unsupported, kind_of
from ..odometer import Odometer
from ..randomness import Stream, Streams
from .round_ticket import Ticket, reason_of

_ALIKE: Final = (
    *("block", "phase", "contribution", "noise", "sensitivity", "weights", "sampling", "silos"),
    "reaches",
)
"""What every round of a block states alike."""


class PaidBlock:
    """The block that one gate has paid last; its rounds are made in their order, each once.

    A gate that is opened for a run that goes on has paid none: no sums of the rounds before are
    left, so what was paid there is spent, and a new block begins.
    """

    def __init__(self) -> None:
        self._first: records.RoundIntent | None = None
        self._last_round = 0

    def require_whole(self, intent: records.RoundIntent) -> None:
        """Raise `Unsupported` where the first round of a block states less than all of it.

        Its event may have no more noise than the intent draws, since the rounds behind the first
        state none that their mechanism could be held to.
        """
        if intent.block is None:
            return
        for event in (intent.event, *intent.views.values()):
            if isinstance(event, ev.NoGuarantee):
                continue
            # The noise of a single round differs by observer, and the rest does not.
            noise = event.noise_multiplier if isinstance(event, ev.MatrixGaussian) else None
            if noise is None or event != intent.block.event(noise):
                raise Unsupported(
                    f"Round {intent.round} begins a block, and does not state the event of all.",
                    "Single rounds that share noise cost less by themselves than they do together.",
                    "State the event of the block.",
                )
        if isinstance(intent.event, ev.MatrixGaussian):
            # Whatever the relation: what one unit moves, over its sensitivity multiplier.
            moved = Fraction(intent.contribution.bound) * Fraction(intent.weights.largest_sum)
            stated = Fraction(intent.event.noise_multiplier) * moved
            if stated > Fraction(intent.noise.std) or intent.noise.draws != 1:
                raise Unsupported(
                    f"Round {intent.round} begins a block, and states more noise than it draws.",
                    "The rounds behind it would be released for less than they cost.",
                    "State the event of the mechanism that draws, with one sum in each round.",
                )

    def paid(self, intent: records.RoundIntent) -> None:
        """Take the first round of a block, once it was paid."""
        if intent.block is not None:
            self._first, self._last_round = intent, intent.round

    def take(self, intent: records.RoundIntent) -> None:
        """Count a later round of the block; raise `BudgetExceeded` where it is not the next."""
        first = self._first
        follows = first is not None and intent.round == self._last_round + 1
        # What it shows is part of what was paid, so it may promise nothing of its own.
        states_nothing = all(
            event == ev.Compose(()) or isinstance(event, ev.NoGuarantee)
            for event in (intent.event, *intent.views.values())
        )
        alike = first is not None and all(
            getattr(first, name) == getattr(intent, name) for name in _ALIKE
        )
        inside = intent.block is not None and intent.round <= intent.block.last
        if not (follows and states_nothing and alike and inside):
            raise BudgetExceeded(
                f"Round {intent.round} is not the next one of a block that was paid.",
                "Rounds with correlated noise are paid together, in the first of them.",
                "Begin a new block, whose first round pays for all of it.",
            )
        self._last_round = intent.round


class Gate:
    """Admits the rounds of one run: each is paid for and written down before it draws noise.

    `odometer` may be None for runs that promise nothing; then every event must be `NoGuarantee`,
    unless `unpromised` says that some pieces of a method as published are sound, and state what
    they are: nothing is paid for them, and nothing is promised.  An odometer of a plan is asked for
    the intent's event; an adaptive one for what each of its observers sees (`views`; the intent's
    event for `model`).  Safe to use from several threads; several tickets may be open at once, with
    streams of different names.  `run_id` is the name of the run, once it has one: sealed items then
    say of which release they are.  `releases` counts those that were recorded; `model` is the last
    one of a model, its number and digest, and `aggregate` the digest of what the last one of all
    released, if it names any.

    A round may open several intents, one after the other or at once, each in a phase of its own and
    with streams of its own; an odometer of a plan whose round is a `Compose` takes them in its
    order.  What is computed from one of them is a release once its ticket is closed, and not
    before.

    Of rounds with correlated noise (`records.Block`) the first is paid for all of them, and this
    gate admits the others in their order.

    Where several parties release together, each with a gate of its own, `drawn_here` is how many
    shares of the noise of every sum this party draws; what the others draw, their gates count.
    """

    def __init__(
        self,
        odometer: Odometer | None,
        recorder: records.Recorder,
        streams: Streams,
        *,
        unpromised: bool = False,
        drawn_here: int | None = None,
    ) -> None:
        self._odometer = odometer
        self._unpromised = unpromised
        self._recorder = recorder
        self._streams = streams
        self._lock = threading.RLock()
        self._broken = False
        self._lent: set[str] = set()
        self._block = PaidBlock()
        self.drawn_here = drawn_here
        self.run_id = ""
        self.releases = 0
        self.model: tuple[int, str] | None = None
        self.aggregate: str | None = None

    def open(self, intent: records.RoundIntent) -> Ticket:
        """Spend and record what is about to be released, and return the ticket to draw it.

        Raises `BudgetExceeded` before anything is recorded, `Unsupported` for a round that no
        odometer covers, and whatever the recorder raises: then the budget stays spent, and this
        gate opens no more.
        """
        _check(intent)
        with self._lock:
            self.check()
            if intent.is_covered:
                self._block.take(intent)  # the first round of its block was paid for all
            else:
                self._block.require_whole(intent)
                self._spend(intent)
                self._block.paid(intent)
            return Ticket(self, self.append(intent), intent)

    @contextmanager
    def before(self, round: int) -> Iterator[None]:
        """Prepare a round, before its intent: a protocol's setup, say.

        Where the block fails, the log has a `round.abort` without an intent: nothing was drawn and
        nothing is spent, and that it failed is not forgotten.
        """
        try:
            yield
        except BaseException as error:
            try:
                self.append(records.RoundAbort(round, None, reason_of(error)))
            except Exception:
                error.add_note("That the round was given up could not be recorded.")
            raise

    def would_exceed(self, event: ev.Event) -> bool:
        """Return whether the odometer would refuse this event; False where there is none."""
        with self._lock:
            return self._odometer is not None and self._odometer.would_exceed(event)

    def check(self) -> None:
        """Raise where the log has failed before."""
        if self._broken:
            raise PrivplanError(
                "The log of this run has failed, so nothing more can be drawn or released.",
                "Nobody knows what the failed log has kept.",
                "Resume the run, which checks and mends its log.",
            )

    def append(self, record: records.Record) -> int:
        """Record, or shut the gate for good; for tickets."""
        with self._lock:
            self.check()
            # Shut until the recorder has kept it: if it raises, nobody knows what it kept.
            self._broken = True
            seq = self._recorder.append(record)
            self._broken = False
            if isinstance(record, records.RoundRelease):
                self.releases += 1
                self.aggregate = record.aggregate
                if record.model_out is not None:
                    self.model = seq, record.model_out
            return seq

    def seal(self, items: Mapping[str, object]) -> dict[str, str]:
        """Keep items in the sealed sidecar, or shut the gate for good; for tickets."""
        with self._lock:
            self.check()
            self._broken = True
            commitments = self._recorder.seal(items)
            self._broken = False
            return commitments

    def lend(self, name: str, ticket: Ticket) -> Stream:
        """Return the stream of a name, to one ticket at a time."""
        with self._lock:
            if name in self._lent:
                raise InvalidInput(
                    f"The stream {name!r} is in use by another open round.",
                    "Two rounds cannot state the same bytes as theirs.",
                    "Close the other round first, or name the streams apart.",
                )
            # The stream checks its ticket at every draw: after the round it gives no bytes.
            stream = self._streams.stream(name).guarded(ticket.check)
            self._lent.add(name)
            return stream

    def take_back(self, names: set[str]) -> None:
        """Free the streams of a ticket that is done."""
        with self._lock:
            self._lent -= names

    def _spend(self, intent: records.RoundIntent) -> None:
        odometer = self._odometer
        if odometer is None:
            if not (self._unpromised or isinstance(intent.event, ev.NoGuarantee)):
                raise Unsupported(
                    "A round that promises something needs an odometer.",
                    "Only runs of methods as they were published go without a budget.",
                    "Give the gate the odometer of the run's plan.",
                )
        elif odometer.mode == "planned":
            odometer.spend(intent.event, silos=intent.silos)
        else:
            views = {observer: _view(intent, observer) for observer in odometer.observers}
            refused = [
                observer
                for observer in views
                if odometer.would_exceed(views[observer], observers=[observer])
            ]
            for observer in refused or views:  # the first to refuse raises, before any is charged
                odometer.spend(views[observer], observers=[observer])


def _check(intent: records.RoundIntent) -> None:
    """Refuse an intent that contradicts itself."""
    if not isinstance(intent, records.RoundIntent):
        raise InvalidInput(f"`intent` must be a RoundIntent; it is {kind_of(intent)}.")
    if intent.views.get("model", intent.event) != intent.event:
        raise InvalidInput(
            "The intent says two things about who sees the model.",
            "Its `event` is what they see, and its views say otherwise.",
            "Leave `model` out of the views.",
        )
    # A promise without noise would be a release in the clear under a private event.
    promises = not isinstance(intent.event, ev.NoGuarantee) and intent.event != ev.Compose(())
    if promises and intent.noise.family == "none":
        raise Unsupported(
            "A round without noise promises something.",
            f"Its intent says {intent.event.type!r}, and that no noise is added.",
            "Release through a mechanism, or state NoGuarantee.",
        )


def _view(intent: records.RoundIntent, observer: str) -> ev.Event:
    if observer == "model":
        return intent.event
    if observer not in intent.views:
        raise InvalidInput(
            f"The intent does not say what {observer!r} sees.",
            "The odometer keeps a balance for this observer.",
            "Add it to the views of the round.",
        )
    return intent.views[observer]
