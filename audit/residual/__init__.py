"""Is the noise that was drawn the noise that was logged?  What a trusted auditor can test.

The tests read the sealed sidecar, so what they find is for the sealed report, never for a log.

- `tier`, `sealed_statistics`: the tier, and the sealed numbers that it reads.
- `noise_tests`, `exact_tests`, `p_values`: tests of the noise, and their p-values.
"""

from .tier import SEALED_REPORT, residual_tier, write_sealed_report

__all__ = ["SEALED_REPORT", "residual_tier", "write_sealed_report"]
