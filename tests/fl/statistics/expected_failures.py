"""Checks of scikit-learn that the private estimators fail on purpose, each with its reason."""

from __future__ import annotations

from typing import Final

CLASSES_ARE_PUBLIC: Final = (
    "the check takes the classes from its labels; here all classes that there can be are stated "
    "before any label is seen, and a label beyond them is refused"
)
STATED_CLASSES_STAY: Final = (
    "the check counts the classes that occur; here every class that was stated has a score, "
    "whether or not it occurs"
)

EXPECTED: Final[dict[str, dict[str, str]]] = {
    "PrivatePCA": {},
    "PrivateRidge": {},
    "PrivateLogistic": {
        "check_classifiers_classes": CLASSES_ARE_PUBLIC,
        "check_classifiers_train": STATED_CLASSES_STAY,
        "check_decision_proba_consistency": STATED_CLASSES_STAY,
    },
}
"""By estimator, the name of a check and the reason why it fails."""
