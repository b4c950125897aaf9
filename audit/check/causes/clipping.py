"""How contributions become one sum: weights, divisors, batches, and the norms of clips."""

from __future__ import annotations

from dataclasses import replace

from ...findings import Match, rule
from ..check_case import CheckCase, reference_of
from ..checked_run import normaliser_is_harmless
from ..noise_draws import about_clip


@rule(
    "unequal-weights",
    severity="warning",
    next_step="Clip after weighting, or divide the noise multiplier by the largest weight over 1.",
)
def unequal_weights(case: CheckCase) -> Match | None:
    """Contributions are weighted, and the noise may cover weight 1 only."""
    if case.run.weights != "unequal":
        return None
    says = (
        "Contributions are weighted, so the heaviest moves the sum by more than the mean does; "
        "the noise must be sized for the heaviest."
    )
    return Match(says)


@rule("realised-normaliser", next_step="Divide by the expected batch size, a constant.")
def realised_normaliser(case: CheckCase) -> Match | None:
    """Sums are divided by how many came, which changes with one of them and is not hidden."""
    if case.run.normaliser != "realised" or normaliser_is_harmless(case.run):
        return None
    says = (
        "The noisy sum is divided by how many records really came: that count changes with one "
        "record and nothing hides it, so no epsilon is proven."
    )
    poisson = case.settings.method == "poisson" and case.settings.neighbours == "add-remove"
    return Match(says, severity=None if poisson else "warning")


@rule(
    "fewer-replies",
    next_step="Size each share for the fewest replies, or draw the noise in one place.",
)
def fewer_replies(case: CheckCase) -> Match | None:
    """Fewer parties replied than the shares of noise were sized for."""
    replies, expected = case.run.replies, case.run.expected_replies
    if replies is None or expected is None or replies >= expected or not case.short:
        return None
    all_there = reference_of(replace(case.run, replies=expected))
    return case.changed_by(
        f"{replies:,} of {expected:,} expected parties replied; noise that is drawn in shares is "
        "missing theirs.",
        all_there,
    )


@rule(
    "microbatches",
    next_step="Clip each record by itself, or halve the noise multiplier in the accounts; where "
    "the noise was divided by the number of microbatches, account for what was really added.",
)
def microbatches(case: CheckCase) -> Match | None:
    """Several records are averaged before they are clipped, so one moves the sum by two norms."""
    size = case.settings.microbatches
    near = case.near("microbatches")
    if (size <= 1 or not case.short) and near is None:
        return None
    alone = case.otherwise(microbatches=1)
    says = (
        f"{size:,} records are averaged before they are clipped: one of them can turn the clipped "
        f"mean around, which moves it by two norms.{case.change_text(alone)}"
        if size > 1
        else ""
    )
    says = f"{says} {near.says}".strip() if near is not None else says
    return Match(says, epsilon=case.reference, severity=case.severity(alone))


@rule(
    "accumulation",
    next_step="Give the accountant the expected size of everything before one draw of noise.",
)
def accumulation(case: CheckCase) -> Match | None:
    """Several batches are summed before one draw of noise, and the rate may be that of one."""
    batches = case.settings.accumulation
    near = case.near("accumulation")
    if (batches <= 1 or not case.short) and near is None:
        return None
    alone = case.otherwise(accumulation=1)
    says = (
        f"{batches:,} batches are summed before one draw of noise. If the rate is that of one "
        f"batch, a record joins a step {batches:,} times as often.{case.change_text(alone)}"
        if batches > 1
        else ""
    )
    says = f"{says} {near.says}".strip() if near is not None else says
    return Match(says, epsilon=case.reference, severity=case.severity(alone))


@rule(
    "private-clip",
    next_step="Use a constant, public data, or a noised count that is accounted for.",
)
def private_clip(case: CheckCase) -> Match | None:
    """The clipping norm was computed from the data, or nothing was clipped."""
    source = case.run.clip_source
    if source in ("data", "median"):
        what = "the data" if source == "data" else "the median of the data's own norms"
        says = (
            f"The clipping norm was computed from {what}, and so was the noise: both change with "
            "one record, and no epsilon is proven for that."
        )
        return Match(says)
    if source == "none":
        says = "Nothing was clipped, so one unit may move the sum by any amount, whatever noise."
        return Match(says, next_step="Clip each unit's contribution before the sum.")
    return None


@rule(
    "unpaid-clip-count",
    next_step="State the noised count of each step as a release (its noise multiplier and count), "
    "or the noise multiplier that count and sum have together: (z^-2 + (2 s)^-2)^-1/2.",
)
def unpaid_clip_count(case: CheckCase) -> Match | None:
    """The clipping norm adapts to a count of the data that is released and not accounted for."""
    if case.run.clip_source != "adaptive":
        return None
    releases = case.settings.releases
    counts = [release for release in releases if about_clip(release)]
    if not any(release.noise_multiplier for release in counts):
        free = any(release.noise_multiplier == 0.0 for release in counts)
        says = (
            "The clipping norm adapts to how many contributions lie below it; that count is "
            "released as well, and " + ("it has no noise." if free else "its noise is not stated.")
        )
        return Match(says, severity=None if free else "warning")
    if not case.short:
        return None
    settings = replace(case.settings, releases=())
    without = reference_of(replace(case.run, settings=settings, clip_source="constant"))
    return case.changed_by("The count that the clipping norm follows is a release.", without)


@rule(
    "release-without-noise", next_step="Release it with noise, or do not compute it from the data."
)
def release_without_noise(case: CheckCase) -> Match | None:
    """Something besides the sums was released, without noise."""
    without_noise = [each.what for each in case.settings.releases if each.noise_multiplier == 0.0]
    if not without_noise or case.run.clip_source == "adaptive":
        return None
    return Match(f"`{without_noise[0]}` was released without noise, which no epsilon covers.")


@rule(
    "releases-not-counted", next_step="Account for every release together: privplan account EVENT."
)
def releases_not_counted(case: CheckCase) -> Match | None:
    """Something besides the sums was released, and the number leaves it out."""
    paid = [each for each in case.settings.releases if each.noise_multiplier]
    if not paid or case.run.clip_source == "adaptive" or not case.short:
        return None
    count = sum(each.count for each in paid)
    return case.changed_by(
        f"`{paid[0].what or 'something'}` was released besides"
        f"{'' if count == 1 else f', {count:,} releases in all'}, and accountants that print such "
        "numbers leave it out.",
        case.otherwise(releases=()),
    )
