"""The description of a round: what an intent states beside the mechanism."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from .. import events as ev
from .. import records
from ..errors import Unsupported
from .sampled_events import covers


@dataclass(frozen=True)
class RoundDescription:
    """The round of an intent: its number and phase, its sampling, and what other observers see.

    `draws` is how many noisy sums the round releases; where there is sampling, each of them is of
    a sample of its event (several sums of one sample are one longer vector, and one draw).  `views`
    says by observer what those see who see more than the released model.  `event_override`
    replaces the mechanism's event event: by one that is no more private (the plan's, whose last
    digit was rounded elsewhere), or by `NoGuarantee` for a method that is run as it was published.
    `reaches` says by observer what of the round reaches it.  `silos` are those that take part, by
    a public schedule; None: all.
    """

    round: int
    phase: str
    sampling: records.Sampling = field(default_factory=records.Sampling)
    views: Mapping[str, ev.Event] = field(default_factory=dict)
    model_in: str | None = None
    event_override: ev.Event | None = None
    draws: int = 1
    reaches: Mapping[str, records.Reach] | None = None
    silos: tuple[int, ...] | None = None

    @property
    def as_published(self) -> bool:
        """Whether this round is run as its paper prints it, and promises nothing."""
        return isinstance(self.event_override, ev.NoGuarantee)

    def stated_event(self, make_event: Callable[[], ev.Event]) -> ev.Event:
        """Return the event to state; `Unsupported` for one more private than the mechanism's."""
        if self.event_override is not None and self.as_published:
            return self.event_override
        event = make_event()
        if self.event_override is None:
            return event
        # What is stated may be less private than what is done, never more.
        if not covers(self.event_override, event):
            raise Unsupported(
                "The event given for this round is not what its mechanism does.",
                f"The mechanism's event is {event}.",
                "Leave `event_override` out, or give more noise.",
            )
        return self.event_override
