"""What [evaluation] demands of a configuration: somebody says that test data are public."""

from __future__ import annotations

from ..declarations.declaration import Complaint, Given
from .public_test_data import BUNDLED_SOURCES


def evaluation_complaint(given: Given) -> Complaint | None:
    said, data = given.get("evaluation", {}), given["data"]
    test, source = said.get("test"), said.get("source")
    bundled = data["name"] in BUNDLED_SOURCES
    if test == "public" and source is None and not bundled:
        return (
            'has test = "public" in [evaluation], and lacks `source` there',
            f"{data['name']} is read from a path, and whether it is public nobody can see from it.",
            'Write source = "who published the test data, and where" under [evaluation], or '
            'test = "none".',
        )
    if source is not None and (test == "none" or (test is None and not bundled)):
        return (
            "gives `source` in [evaluation], which has no effect",
            'It says why test = "public" is so.',
            'Write test = "public" beside it, or leave it out.',
        )
    if source is not None and any(
        str(data.get(key, "\0")) in source for key in ("path", "columns")
    ):
        return (
            "names its `path` of [data] in `source` of [evaluation]",
            "The source stands in the log, which may be published, and a path may name somebody.",
            "Say who published the data, and where: a title, a DOI or a web address.",
        )
    every = given["run"].get("evaluate_every")
    if every == 0 and test == "public":
        return (
            'has test = "public" in [evaluation] and evaluate_every = 0 in [run]',
            "With 0 the model is never measured.",
            "Leave one of them out.",
        )
    if every and test == "none":
        return (
            f'gives evaluate_every = {every} in [run], and has test = "none" in [evaluation]',
            "Without test data nothing is measured.",
            "Leave one of them out.",
        )
    return None
