"""The code that a configuration names, found by who runs it: with its digest in the settings.

Nothing of it is executed here.  An audit, which reads configurations and logs of strangers, does
not come through this door.
"""

from __future__ import annotations

from dataclasses import replace

from ..declarations.own_code import CodeFile, OwnCode, found_code, is_own
from ..settings.schema import Settings


def with_found_code(settings: Settings) -> Settings:
    """Return settings that carry the code which they name, with its digests.

    Raises `InvalidInput` where it is not there.
    """
    training = settings.training
    if not is_own(training.model):
        return settings
    return with_code(settings, found_code(training.model, training.loss))


def with_code(
    settings: Settings,
    code: OwnCode,
    model_digest: str | None = None,
    loss_digest: str | None = None,
) -> Settings:
    """Return settings that carry code; digests are those of its files, or of objects as given."""
    if isinstance(code.model, CodeFile):
        model_digest = code.model.digest
    if isinstance(code.loss, CodeFile):
        loss_digest = code.loss.digest
    carrying = replace(
        settings.training, executable=code, model_digest=model_digest, loss_digest=loss_digest
    )
    return replace(settings, training=carrying)


def without_code(settings: Settings) -> Settings:
    """Return what a configuration alone says."""
    stripped = replace(settings.training, executable=None, model_digest=None, loss_digest=None)
    return settings if stripped == settings.training else replace(settings, training=stripped)
