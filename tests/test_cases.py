"""Tests of a test for many cases: nothing is left out, and every failure is named."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from .cases import Case, for_each, shares

pytest_plugins = ("pytester",)


def run_all(test, **fixtures):
    """Run a test for all of its cases, as one item does."""
    test(case_share=test.cases, **fixtures)


def test_every_case_runs_once() -> None:
    seen = []

    @for_each("b", ["x", "y"])
    @for_each("a", [1, 2, 3])
    def test(a: int, b: str) -> None:
        seen.append((a, b))

    run_all(test)
    assert sorted(seen) == [(a, b) for a in (1, 2, 3) for b in "xy"]


def test_every_failing_case_is_named_and_the_others_run() -> None:
    seen = []

    @for_each(
        ("low", "high"), [(1, 2), (2, 1), (0, 3), (5, 4)], ids=["good", "bad", "fine", "worse"]
    )
    def test(low: int, high: int) -> None:
        seen.append(low)
        assert low < high

    with pytest.raises(BaseExceptionGroup, match=r"2 of 4 cases failed:\n  bad\n  worse") as caught:
        run_all(test)
    assert seen == [1, 2, 0, 5]
    assert [error.__notes__ for error in caught.value.exceptions] == [
        ["in case [bad] of test"],
        ["in case [worse] of test"],
    ]


def test_one_failure_is_raised_as_it_is() -> None:
    @for_each("number", [0.5, 0.0, 2.0])
    def test(number: float) -> None:
        assert 1.0 / number

    with pytest.raises(ZeroDivisionError) as caught:
        run_all(test)
    assert caught.value.__notes__ == ["in case [0.0] of test"]


def test_fail_counts_as_a_failure_and_an_interrupt_ends_all() -> None:
    @for_each("error", [pytest.fail.Exception("wrong"), KeyboardInterrupt(), ValueError("late")])
    def test(error: BaseException) -> None:
        raise error

    with pytest.raises(KeyboardInterrupt):
        run_all(test)
    with pytest.raises(pytest.fail.Exception, match="wrong"):
        test(case_share=test.cases[:1])


def test_skipped_cases_hide_no_other() -> None:
    @for_each("present", [False, True, False])
    def test(present: bool) -> None:
        if not present:
            pytest.skip("absent")
        assert not present

    with pytest.raises(AssertionError):
        run_all(test)
    with pytest.raises(pytest.skip.Exception):
        test(case_share=[case for case in test.cases if not case.arguments["present"]])


def test_each_case_has_a_folder_and_patches_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    @for_each("text", ["a", "b"])
    def test(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        assert list(tmp_path.iterdir()) == []
        assert "PATCHED" not in os.environ
        (tmp_path / "file").write_text(text)
        monkeypatch.setenv("PATCHED", text)

    run_all(test, tmp_path=tmp_path, monkeypatch=monkeypatch)


def test_slow_cases_make_an_item_of_their_own() -> None:
    @for_each("number", [1, pytest.param(2, marks=pytest.mark.slow), 3, pytest.param(4, id="four")])
    def test(number: int) -> None: ...

    def numbers(cases: list[Case]) -> list[int]:
        return [case.arguments["number"] for case in cases]

    parts = {name: numbers(cases) for name, cases in shares(test, quick=None, holding=None)}
    assert parts == {"quick": [1, 3, 4], "slow": [2]}
    parts = {name: numbers(cases) for name, cases in shares(test, quick=2, holding=None)}
    assert parts == {"quick": [1, 3], "slow": [2, 4]}
    assert [numbers(cases) for _, cases in shares(test, quick=None, holding="four")] == [[4]]


def test_cases_are_spread_over_the_items_that_are_asked() -> None:
    @for_each("number", range(10), items=3)
    def test(number: int) -> None: ...

    parts = shares(test, quick=None, holding=None)
    assert [name for name, _ in parts] == ["quick-1", "quick-2", "quick-3"]
    numbers = [case.arguments["number"] for _, cases in parts for case in cases]
    assert numbers == list(range(10))


@for_each(
    ("values", "message"),
    [
        ([(1, 2, 3)], "3 values for 2"),
        ([pytest.param(1, 2, marks=pytest.mark.skip)], "slow or not at all"),
    ],
)
def test_cases_that_do_not_fit_are_refused(values: list, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        for_each("low, high", values)


def test_a_name_that_the_test_lacks_is_refused() -> None:
    with pytest.raises(ValueError, match="no argument 'number'"):
        for_each("number", [1])(lambda _: None)


def test_pytest_counts_items_marks_and_cases(pytester: pytest.Pytester) -> None:
    """Run as pytest does: marks, fixtures, a class, the option and the slow item."""
    for name in ("cases.py", "conftest.py"):
        text = (Path(__file__).parent / name).read_text()
        pytester.makepyfile(**{name[:-3]: text.replace("from .cases", "from cases")})
    pytester.makeini("[pytest]\nmarkers =\n    slow\n    quick(n)\npythonpath = .")
    pytester.makepyfile(
        test_some="""
        import pytest
        from cases import for_each

        @pytest.fixture
        def word():
            return "w"

        class TestIt:
            @pytest.mark.quick(2)
            @for_each("number", range(5))
            def test_method(self, word, number):
                assert word == "w" and number != 4

        @for_each("number", [7, 8])
        def test_plain(number):
            assert number
        """
    )
    result = pytester.runpytest_subprocess("-p", "no:randomly", "-v", "-m", "not slow")
    result.assert_outcomes(passed=2, deselected=1)
    result.stdout.fnmatch_lines(["*::test_method[[]quick] PASSED*", "*::test_plain PASSED*"])
    result = pytester.runpytest_subprocess("-p", "no:randomly", "-m", "slow")
    result.assert_outcomes(failed=1, deselected=2)
    result.stdout.fnmatch_lines(["*in case [[]4] of test_method*"])
    result = pytester.runpytest_subprocess("-p", "no:randomly", "--case", "3")
    result.assert_outcomes(passed=1, skipped=1)
