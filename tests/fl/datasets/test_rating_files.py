"""Files of ratings: both formats, and refusals that name a line and never a user or a rating."""

from __future__ import annotations

from pathlib import Path

import pytest

from privplan.accountant.errors import InvalidInput
from privplan.fl.datasets.rating_files import listed_films, rating_lines

from ...cases import for_each

SECRET = "anna.secret@example.org"


def file(folder: Path, content: str | bytes, name: str = "ratings.csv") -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def cells(path: Path, largest: float = 5.0) -> list[tuple[str, str, float, int]]:
    found = rating_lines(path, largest)
    columns = (found.user.tolist(), found.film.tolist(), found.value.tolist(), found.line.tolist())
    return [
        (found.users[user], found.films[film], value, line)
        for user, film, value, line in zip(*columns, strict=True)
    ]


def test_movielens_with_tabs_has_no_header(tmp_path: Path) -> None:
    path = file(tmp_path, "196\t242\t3\t881250949\n186\t302\t3\t891717742\n196\t302\t1\t0\n")
    assert cells(path) == [("196", "242", 3.0, 1), ("186", "302", 3.0, 2), ("196", "302", 1.0, 3)]


HEADERS = ["userId,movieId,rating", "user,item,rating", "user id,filmId,rating"]


@for_each("header", [*HEADERS, " User_ID , film,RATING"])
def test_columns_are_known_by_their_names(tmp_path: Path, header: str) -> None:
    found = cells(file(tmp_path, f"{header}\na,x,0.5\nb, y ,5\n"))
    assert found == [("a", "x", 0.5, 2), ("b", "y", 5.0, 3)]


def test_columns_may_stand_in_any_order_with_others_between(tmp_path: Path) -> None:
    content = 'rownames,title,rating,timestamp,movieId,userId\r\n1,"A, then B",4.5,12,7,3\r\n\r\n'
    assert cells(file(tmp_path, content)) == [("3", "7", 4.5, 2)]


def test_a_mark_of_byte_order_is_no_part_of_the_header(tmp_path: Path) -> None:
    assert cells(file(tmp_path, b"\xef\xbb\xbfuserId,movieId,rating\n1,2,3\n"))


@for_each(
    ("header", "what", "step"),
    [
        ("useId,movieId,rating", "no column of users", "Did you mean useId?"),
        ("userId,moveId,rating", "no column of films", "Did you mean moveId?"),
        ("userId,movieId,ratings", "no column of ratings", "Did you mean ratings?"),
        ("userId,movieId,stars", "no column of ratings", "userId,movieId,rating"),
        ("userId,user,movieId,rating", "2 columns of users", "Keep one"),
    ],
)
def test_a_header_that_lacks_a_column(tmp_path: Path, header: str, what: str, step: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        rating_lines(file(tmp_path, f"{header}\n1,2,3\n"), 5.0)
    assert what in caught.value.what
    assert step in str(caught.value.next_step)


@for_each("first", ["1,31,2.5,1260759144", f"{SECRET},rated,4.5", "usera;film;4"])
def test_a_file_without_a_header_is_refused_and_its_first_line_not_repeated(
    tmp_path: Path, first: str
) -> None:
    with pytest.raises(InvalidInput, match="no column of users") as caught:
        rating_lines(file(tmp_path, f"{first}\n1,32,3.5,1\n"), 5.0)
    said = str(caught.value)
    assert not any(word in said for word in (*first.split(","), "Did you mean"))


NO_RATINGS = ["0", "0.0", "-1", "5.000001", "6", "nan", "inf", "-inf", "1e999", "1e-60"]


@for_each("rating", ["", "x", "1_0", "4,5", *NO_RATINGS])
def test_a_rating_out_of_its_range_is_refused_by_line_alone(tmp_path: Path, rating: str) -> None:
    path = file(tmp_path, f"userId,movieId,rating\nbob,1,4\n{SECRET},film-7,{rating}\n")
    with pytest.raises(InvalidInput, match=r"Line 3 of ratings\.csv") as caught:
        rating_lines(path, 5.0)
    said = str(caught.value)
    assert SECRET not in said
    assert "film-7" not in said
    if "," not in rating:
        assert "above 0 and at most 5" in said
        assert rating in ("", "0", "x") or rating not in said


def test_the_range_is_what_it_is_said_to_be(tmp_path: Path) -> None:
    path = file(tmp_path, "user,item,rating\n1,1,10\n1,2,7\n")
    assert [cell[2] for cell in cells(path, 10.0)] == [10.0, 7.0]
    with pytest.raises(InvalidInput, match=r"at most 9\.5"):
        rating_lines(path, 9.5)


@for_each(
    ("content", "line"),
    [
        ("1\t2\t3\t4\n1\t3\t3\n", 2),
        ("1\t2\t3\n", 1),
        ("1\t2\t3\t4\n1\t3\t3\t4\t5\n", 2),
        ("1\t2\t3\t4\n\n1\t3\t3\t4\n", 2),
        ("userId,movieId,rating\n1,2,3\n1,3\n", 3),
        ("userId,movieId,rating\n1,2,3,4\n", 2),
        ("userId,movieId,rating\n1,2,3\n\n1,3,3\n", 3),
        ("userId,movieId,rating\n,2,3\n", 2),
        ("userId,movieId,rating\n1, ,3\n", 2),
    ],
)
def test_a_torn_line_is_refused_by_its_number(tmp_path: Path, content: str, line: int) -> None:
    with pytest.raises(InvalidInput, match=f"Line {line} of ratings.csv"):
        rating_lines(file(tmp_path, content), 5.0)


@for_each("content", ["", "\n\n", "userId,movieId,rating\n", "userId,movieId,rating"])
def test_an_empty_file_is_refused(tmp_path: Path, content: str) -> None:
    with pytest.raises(InvalidInput, match="holds no ratings"):
        rating_lines(file(tmp_path, content), 5.0)


def test_what_is_no_text_or_no_csv_or_not_there_is_refused(tmp_path: Path) -> None:
    torn = f'userId,movieId,rating\n"{SECRET}" x,2,3\n'
    for path, what in (
        (file(tmp_path, b"PK\x03\x04\xff\xfe\x00", "binary.csv"), "is no text file"),
        (file(tmp_path, torn, "torn.csv"), r"Line 2 .* is no line of a CSV file"),
        (tmp_path / "absent.csv", "There is no file"),
        (tmp_path, "cannot be read"),
    ):
        with pytest.raises(InvalidInput, match=what):
            rating_lines(path, 5.0)


def test_a_refusal_says_what_to_change(tmp_path: Path) -> None:
    """The encoding, what lies between fields, and the key that names the file."""
    with pytest.raises(InvalidInput, match="saved as UTF-8"):
        rating_lines(file(tmp_path, "userId,movieId,rating\nJ\xf6rg,2,3\n".encode("latin-1")), 5.0)
    for between in (";", " ", "::"):
        with pytest.raises(InvalidInput, match="commas between fields"):
            rating_lines(file(tmp_path, between.join(("userId", "movieId", "rating")) + "\n"), 5.0)
    with pytest.raises(InvalidInput, match="has 1 field; each must have 3"):
        rating_lines(file(tmp_path, "userId,movieId,rating\n1\n"), 5.0)
    for missing in (tmp_path / "absent.txt", tmp_path):
        with pytest.raises(InvalidInput, match="Check `columns`"):
            listed_films(missing)
        with pytest.raises(InvalidInput, match="Check `path`"):
            rating_lines(missing, 5.0)


# --- lists of films -------------------------------------------------------------------------------


@for_each(
    "content",
    ["10\n7\n9\n", "movieId\n10\n7\n9\n", 'movieId,title\n10,"A, B"\n7,C\n9,D\n', "item\n10\n7\n9"],
)
def test_a_list_keeps_its_order(tmp_path: Path, content: str) -> None:
    assert listed_films(file(tmp_path, content)) == ("10", "7", "9")


NO_LISTS = [("10\n7\n10\n", "Line 3 .* line 1"), ("10\n\n7\n", "Line 2"), ("", "no film")]


@for_each("content, what", [*NO_LISTS, ("film\n", "no")])
def test_a_list_that_is_none_is_refused(tmp_path: Path, content: str, what: str) -> None:
    with pytest.raises(InvalidInput, match=what):
        listed_films(file(tmp_path, content))
