"""How canaries enter Uldp-FL's systems, and what an observer sees of them.

- `dispatch`, `turns`: users of ULDP-AVG and ULDP-SGD; under correlated noise.
- `hidden`: under private weighting.
- `naive`, `group`: ULDP-NAIVE and ULDP-GROUP.
"""
