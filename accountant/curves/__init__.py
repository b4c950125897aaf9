"""Whole curves of an event, and single numbers that stand for one: Renyi, profile, rho, mu."""

from .concentrated import ZcdpGuarantee, noise_for_rho, zcdp
from .gaussian_dp import GdpGuarantee, gdp
from .profile import PrivacyProfile, privacy_profile
from .renyi_curve import RenyiCurve, from_rdp, rdp

__all__ = [
    "GdpGuarantee",
    "PrivacyProfile",
    "RenyiCurve",
    "ZcdpGuarantee",
    "from_rdp",
    "gdp",
    "noise_for_rho",
    "privacy_profile",
    "rdp",
    "zcdp",
]
