"""What follows from the facts of a run, and which of them cannot be true together."""

from __future__ import annotations

from collections.abc import Mapping

from .delta_facts import complete_delta
from .fact import Fact
from .noise_facts import complete_noise
from .sampling_facts import complete_sampling
from .schedule_facts import complete_schedule
from .working_facts import WorkingFacts


def what_follows(facts: Mapping[str, Fact]) -> WorkingFacts:
    """Return the facts with all that follow from them, and the contradictions among them."""
    working = WorkingFacts(facts)
    complete_noise(working)
    complete_sampling(working)
    complete_schedule(working)
    complete_delta(working)
    return working
