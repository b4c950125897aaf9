"""Data sets: read from files that the user names, bundled with scikit-learn, or generated.

`load` reads one by name, `federate` allocates its records to users and silos, and `normalise`
scales features by public constants, or by moments that a mechanism released.

- `registry`, `federate`, `dataset`: data sets by name; dealt to users and silos; what a data set
  is.
- `files`, `published`, `bundled`, `idx`: finding and checking files, what papers' files must be,
  scikit-learn's, IDX.
- `breast_cancer`, `digits`, `digits_32`, `heart_disease`, `tcga_brca`, `creditcard`: tables and
  small images.
- `mnist`, `emnist`, `cifar_10`: images.
- `low_rank`, `synthetic_digits`: generated: nobody's data.
- `ratings`, `rating_files`: ratings of users and films.
"""

from __future__ import annotations

from .dataset import Dataset
from .federate import federate
from .registry import NAMES, load

__all__ = ["NAMES", "Dataset", "federate", "load"]
