"""What must be true of a run, beyond its log, for the derived numbers to hold."""

from __future__ import annotations

from ...accountant import events as ev
from ...accountant.errors import counted, with_article
from ...fl.declarations.own_code import is_own
from ...fl.declarations.toml_keys import CODE_DIGESTS, CODE_REFERENCES
from ...fl.observers.assumptions import COUNTS_UNKNOWN
from ...fl.observers.names import SILO, SILO_WITH_RECORDS, coalition_of
from ...fl.settings.logged_tables import is_of_loop
from ..derivation.round_facts import noise_is_removed
from ..evidence.evidence import Evidence
from ..ledger.entries import Ledger
from ..ledger.phases import configured_value


def _of_protocol(evidence: Evidence) -> list[str]:
    """Return what must be true of how silos' updates were summed and weighted."""
    security = evidence.ledger.opened.security
    private = security is not None and security.protocol == "private-weighting"
    sentences = []
    if security is not None:
        sentences.append(
            f"The protocol `{security.protocol}` was carried out with these parameters, by "
            "parties that follow it."
        )
    if private:
        sentences.append(
            "The server does not collude with any silo: together they know how many records each "
            "user has, and what is said against either of them is void."
        )
    elif evidence.setting.silos > 1 and any(
        kind.facts.weights.rule == "records" for kind in evidence.kinds
    ):
        sentences.append(
            f"{COUNTS_UNKNOWN}: the silos make a user's weights from it, and no message carries it."
        )
    return sentences


def _of_grams(evidence: Evidence) -> list[str]:
    """Return what must be true of the rows whose products are summed, of each unit once."""
    bounded = dict.fromkeys(
        (kind.facts.contribution.unit, kind.facts.contribution.gram.rows)
        for kind in evidence.kinds
        if kind.facts.contribution.gram is not None and not kind.facts.voids
    )
    return [
        f"Of {with_article(unit)} {counted(rows, 'row')} at most counts in all silos together, "
        f"each clipped to the public row norm; which, follows from that {unit}'s rows in that "
        "silo alone."
        for unit, rows in bounded
    ]


def _of_products(evidence: Evidence) -> list[str]:
    """Return what must be true of products: of their rows, of Z, and of the noise that stays."""
    kinds = [
        kind
        for kind in evidence.kinds
        if kind.facts.contribution.product is not None and not kind.facts.voids
    ]
    caps = dict.fromkeys(
        kind.facts.contribution.product.rows
        for kind in kinds
        if kind.facts.contribution.product is not None and kind.facts.contribution.unit == "silo"
    )
    sentences = [
        "Each row was clipped to the public row norm, and the matrix that rows are multiplied by "
        "was made of earlier releases alone, with spectral norm at most 1."
    ] * bool(kinds)
    sentences += [f"Of a silo {counted(rows, 'row')} at most counts." for rows in caps]
    if any(noise_is_removed(kind.facts, evidence.setting) for kind in kinds):
        sentences.append(
            "The server follows the protocol: in each round it draws anew and evenly whose noise "
            "stays, tells nobody, and has no more noise taken off. Nothing in a log shows it."
        )
    return sentences


def _of_blocks(evidence: Evidence) -> list[str]:
    """Return what must be true of rounds that share correlated noise."""
    separations = dict.fromkeys(
        kind.facts.block.separation for kind in evidence.kinds if kind.facts.block is not None
    )
    return [
        f"Within a block of rounds each {evidence.setting.unit} takes part in every "
        f"{separation:,}th round at most, by a public schedule that no data decide; and each silo "
        "adds to its clipped sum those of its last rounds, times the coefficients of the strategy "
        "that the log names, and noise that is drawn anew."
        for separation in separations
    ]


def _of_own_code(ledger: Ledger) -> list[str]:
    """Return whose code was trained: a log shows what it was called, and not what it does."""
    said = [configured_value(ledger, "training", key) for key in CODE_REFERENCES]
    digests = [configured_value(ledger, "training", key) for key in CODE_DIGESTS]
    return [
        f"The {key} is code of the run's owner, {reference:.60} "
        f"({digest if isinstance(digest, str) else 'of no stated digest':.100}): what it makes of "
        "a unit follows from that unit's records alone. Nothing in a log shows that, and no audit "
        "executes it."
        for key, reference, digest in zip(CODE_REFERENCES, said, digests, strict=True)
        if isinstance(reference, str) and is_own(reference)
    ]


def _of_loop(ledger: Ledger) -> list[str]:
    """Return what a log of a training loop of others cannot know of it."""
    if not is_of_loop(ledger.opened):
        return []
    return [
        "The training loop is code of the run's owner: each step summed the clipped terms of its "
        "batch and nothing else, with the noise that is stated, and nothing else of the data was "
        "released.  No log shows that.",
        "A clip, a rate and a divisor that are stated as public follow from no private record.",
    ]


def _of_test_data(ledger: Ledger) -> list[str]:
    """Return whose word it is that the data of evaluations are public."""
    declared = [
        evaluation for _, evaluation in ledger.evaluations if evaluation.data == "declared-public"
    ]
    stated = dict.fromkeys(evaluation.source for evaluation in declared)
    return [
        "The test data are public: declared public, "
        + ("source not stated." if source is None else f"source: {source:.300}.")
        for source in stated
    ]


def assumptions_of(evidence: Evidence) -> tuple[str, ...]:
    """Return what must be true of the run for the numbers to hold."""
    ledger, names = evidence.ledger, evidence.observers
    sentences = [
        "Clip, weights, sampling and noise were as the log states them; nothing that it says about "
        "epsilon is used.",
        "Every release drew fresh noise from a source that nobody can predict.",
        "What was to be released was fixed before the first release.",
    ]
    if evidence.setting.scheduled:
        sentences.append(
            "Who takes part in which round is public and was fixed before; each number counts the "
            "rounds of the silo that it is worst for."
        )
    names_coalition = any(coalition_of(name) is not None for name in names)
    if SILO in names:
        sentences.append(
            "Noise was added inside each silo, before its update left it, and silos do not collude "
            "with each other or with the server"
            f"{', but for coalitions that are named here' * names_coalition}."
        )
    if SILO in names:
        # Where k records of a user take part, a silo that holds some may learn of the others.
        other = SILO_WITH_RECORDS in names or evidence.setting.group > 1
        held = " of which it holds nothing itself" if other else ""
        unit = with_article(evidence.setting.unit)
        sentences.append(f"Before `{SILO}` the unit is what others hold of {unit}{held}.")
    sentences += _of_protocol(evidence)
    sentences += _of_grams(evidence)
    sentences += _of_products(evidence)
    sentences += _of_blocks(evidence)
    if any(kind.facts.noise.std == 0.0 and not kind.facts.voids for kind in evidence.kinds):
        sentences.append(
            "The epsilon of local randomizers stands in their event, and was not checked."
        )
    if evidence.spent_total(ledger.opened.claim.observer).epsilon.lower > 0.0:
        sentences.append(
            "The lower end is for a unit that may contribute anything within its bound, in every "
            "released round."
        )
    if any(isinstance(evaluation.event, ev.Event) for _, evaluation in ledger.evaluations):
        sentences.append("Measurements of private data cost what their events say.")
    sentences += _of_own_code(ledger)
    sentences += _of_loop(ledger)
    sentences += _of_test_data(ledger)
    return tuple(sentences)
