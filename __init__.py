"""privplan: plan noise, account for it from both sides, and say how every number follows.

>>> import privplan as pp
>>> pp.account(pp.events.Gaussian(1.0), delta=1e-5).engine
'gdp'

`check` says whether an epsilon that is said of a run holds, and why not, if it does not.
`plan_run`, `run` and `resume` plan a run, carry it out under its plan, and go on with one that was
cut off; a `Table` hands them rows of a frame.  They need the extra `fl`.  `PrivateStatistics`
releases X^T X and X^T Y once, and `PrivatePCA`, `PrivateRidge` and `PrivateLogistic` are fitted
from them at no further cost.  A `RunLog` writes the log of a training loop that is not ours, under
a public `TrainingPlan`, and `logged` that of a training with Opacus.  `Ledger` is a budget that
others spend from as well.  `audit_scores` attacks a model that anybody trained by its scores,
`audit_model` a training, and `draw_canaries` draws examples to insert into one, which bound its
epsilon from below.  `plot` draws results, with the extra `plots`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .accountant import errors, events
    from .accountant.account import account
    from .accountant.account_release import account_release
    from .accountant.calibrate import calibrate
    from .accountant.calibration_aims import Calibration
    from .accountant.curves import (
        GdpGuarantee,
        PrivacyProfile,
        RenyiCurve,
        ZcdpGuarantee,
        from_rdp,
        gdp,
        noise_for_rho,
        privacy_profile,
        rdp,
        zcdp,
    )
    from .accountant.guarantee import Bounds, Guarantee, Step
    from .accountant.odometer import Odometer
    from .accountant.plan import Phase, Plan, plan
    from .accountant.risk import Risk, RocCurve, risk, roc
    from .accountant.sensitivity.matrix import MatrixSensitivity, sensitivity
    from .accountant.sensitivity.silos import unit_in_silos
    from .audit import plots as plot
    from .audit.adapters import logged
    from .audit.adapters.run_log import RunLog
    from .audit.adapters.training_plan import TrainingPlan
    from .audit.check.front import check
    from .audit.model_audits.canary_draw import draw_canaries
    from .audit.model_audits.model_audit import audit_model
    from .audit.model_audits.score_audit import audit_scores
    from .fl.ledger_client.ledger import Ledger
    from .fl.running import plan_run, resume, run
    from .fl.statistics.estimators import PrivateLogistic, PrivatePCA, PrivateRidge
    from .fl.statistics.private_statistics import PrivateStatistics
    from .fl.tables.table import Table

__version__ = "0.1.0"

__all__ = [
    "Bounds",
    "Calibration",
    "GdpGuarantee",
    "Guarantee",
    "Ledger",
    "MatrixSensitivity",
    "Odometer",
    "Phase",
    "Plan",
    "PrivacyProfile",
    "PrivateLogistic",
    "PrivatePCA",
    "PrivateRidge",
    "PrivateStatistics",
    "RenyiCurve",
    "Risk",
    "RocCurve",
    "RunLog",
    "Step",
    "Table",
    "TrainingPlan",
    "ZcdpGuarantee",
    "account",
    "account_release",
    "audit_model",
    "audit_scores",
    "calibrate",
    "check",
    "draw_canaries",
    "errors",
    "events",
    "from_rdp",
    "gdp",
    "logged",
    "noise_for_rho",
    "plan",
    "plan_run",
    "plot",
    "privacy_profile",
    "rdp",
    "resume",
    "risk",
    "roc",
    "run",
    "sensitivity",
    "unit_in_silos",
    "zcdp",
]

_HOME = {
    "Bounds": "accountant.guarantee",
    "Calibration": "accountant.calibration_aims",
    "GdpGuarantee": "accountant.curves",
    "Guarantee": "accountant.guarantee",
    "Ledger": "fl.ledger_client.ledger",
    "MatrixSensitivity": "accountant.sensitivity.matrix",
    "Odometer": "accountant.odometer",
    "Phase": "accountant.plan",
    "Plan": "accountant.plan",
    "PrivacyProfile": "accountant.curves",
    "PrivateLogistic": "fl.statistics.estimators",
    "PrivatePCA": "fl.statistics.estimators",
    "PrivateRidge": "fl.statistics.estimators",
    "PrivateStatistics": "fl.statistics.private_statistics",
    "RenyiCurve": "accountant.curves",
    "Risk": "accountant.risk",
    "RocCurve": "accountant.risk",
    "RunLog": "audit.adapters.run_log",
    "Step": "accountant.guarantee",
    "Table": "fl.tables.table",
    "TrainingPlan": "audit.adapters.training_plan",
    "ZcdpGuarantee": "accountant.curves",
    "account": "accountant.account",
    "account_release": "accountant.account_release",
    "audit_model": "audit.model_audits.model_audit",
    "audit_scores": "audit.model_audits.score_audit",
    "calibrate": "accountant.calibrate",
    "check": "audit.check.front",
    "draw_canaries": "audit.model_audits.canary_draw",
    "from_rdp": "accountant.curves",
    "gdp": "accountant.curves",
    "logged": "audit.adapters",
    "noise_for_rho": "accountant.curves",
    "plan": "accountant.plan",
    "plan_run": "fl.running",
    "privacy_profile": "accountant.curves",
    "rdp": "accountant.curves",
    "resume": "fl.running",
    "risk": "accountant.risk",
    "roc": "accountant.risk",
    "run": "fl.running",
    "sensitivity": "accountant.sensitivity.matrix",
    "unit_in_silos": "accountant.sensitivity.silos",
    "zcdp": "accountant.curves",
}


def __getattr__(name: str) -> object:
    """Load a public name when it is first used, so that importing privplan costs nothing."""
    if name in ("errors", "events"):
        value: object = importlib.import_module(f".accountant.{name}", __name__)
    elif name == "plot":
        value = importlib.import_module(".audit.plots", __name__)
    elif name in _HOME:
        value = getattr(importlib.import_module(f".{_HOME[name]}", __name__), name)
    else:
        raise AttributeError(f"module 'privplan' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
