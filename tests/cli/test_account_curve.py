"""`privplan account --curve`, and a Renyi curve in the place of an event."""

from __future__ import annotations

import csv
import json
import math
from pathlib import Path

import pytest

import privplan as pp
from privplan.accountant import events as ev
from privplan.cli.inputs.curve_file import CURVE_HEADER, MAX_CURVE_BYTES
from privplan.cli.reports.curve import CURVE_ORDERS

from ..cases import for_each
from .conftest import Refused, Run


@pytest.fixture
def gaussian() -> str:
    Path("event.json").write_text(json.dumps(ev.Gaussian(1.0).to_json()))
    return "event.json"


def rows(path: str) -> list[dict[str, str]]:
    with Path(path).open(newline="") as file:
        return list(csv.DictReader(file))


def test_a_curve_is_written_beside_the_answer(run: Run, gaussian: str) -> None:
    outcome = run("account", gaussian, "--delta", "1e-5", "--curve", "curve.csv")
    assert outcome.code == 0
    assert "epsilon 4.378" in outcome.out
    assert "curve.csv: 41 epsilons and 53 orders\n" in outcome.out
    written = rows("curve.csv")
    assert tuple(written[0]) == CURVE_HEADER
    assert {row["neighbours"] for row in written} == {"add-remove"}
    profile = [row for row in written if row["kind"] == "privacy-profile"]
    epsilons = [float(row["x"]) for row in profile]
    truth = pp.privacy_profile(ev.Gaussian(1.0), epsilons)
    assert [float(row["lower"]) for row in profile] == truth.lower.tolist()
    assert [float(row["upper"]) for row in profile] == truth.upper.tolist()
    assert epsilons[20] == 0.0
    assert epsilons == [-epsilon for epsilon in reversed(epsilons)]
    assert float(profile[-1]["upper"]) == pytest.approx(1e-10, rel=2.0)
    renyi = [row for row in written if row["kind"] == "renyi"]
    assert [float(row["x"]) for row in renyi] == list(CURVE_ORDERS)
    for row in renyi:
        assert float(row["lower"]) <= float(row["x"]) / 2 <= float(row["upper"])


def test_the_json_names_the_file(run: Run, gaussian: str) -> None:
    result = run("account", gaussian, "--curve", "curve.csv", "--json").json["result"]
    assert result["curve"] == {"path": "curve.csv", "epsilons": 41, "orders": 53}


def test_a_curve_comes_back_as_an_event(run: Run, gaussian: str) -> None:
    run("account", gaussian, "--curve", "curve.csv")
    result = run("account", "curve.csv", "--delta", "1e-5", "--json").json["result"]
    direct = pp.account(ev.Gaussian(1.0), delta=1e-5, engine="rdp").epsilon.upper
    assert direct <= result["epsilon"]["upper"] <= 1.01 * direct
    assert result["engine"] == "rdp"
    assert "a Renyi curve at 53 orders" in run("account", "curve.csv").out


def test_a_curve_of_another_relation_is_refused(run: Run, gaussian: str, refused: Refused) -> None:
    run("account", gaussian, "--curve", "curve.csv")
    message = refused("account", "curve.csv", "--neighbours", "replace-one")
    assert "holds for add-remove" in message
    run("account", gaussian, "--curve", "curve.csv", "--neighbours", "replace-one")
    assert run("account", "curve.csv", "--neighbours", "replace-one").code == 0


def test_an_earlier_curve_is_replaced_and_nothing_else(
    run: Run, gaussian: str, refused: Refused
) -> None:
    run("account", gaussian, "--curve", "curve.csv")
    outcome = run("account", gaussian, "--curve", "curve.csv")
    assert "in the place of an earlier curve\n" in outcome.out
    Path("notes.csv").write_text("mine\n")
    assert "is no curve" in refused("account", gaussian, "--curve", "notes.csv")
    assert Path("notes.csv").read_text() == "mine\n"
    before = Path(gaussian).read_bytes()
    assert "is no curve" in refused("account", gaussian, "--curve", gaussian)
    assert Path(gaussian).read_bytes() == before
    Path("link.csv").symlink_to("curve.csv")
    assert "is no curve" in refused("account", gaussian, "--curve", "link.csv")
    assert "its folder does not exist" in refused("account", gaussian, "--curve", "away/c.csv")
    assert "it is a folder" in refused("account", gaussian, "--curve", ".")


def test_nothing_is_left_where_the_event_is_refused(run: Run) -> None:
    event = ev.Poisson(0.1, ev.ZCDP(1.0))
    Path("event.json").write_text(json.dumps(event.to_json()))
    assert run("account", "event.json", "--curve", "curve.csv").code == 3
    assert sorted(path.name for path in Path().iterdir()) == ["event.json"]


def test_an_event_without_a_renyi_curve_has_a_profile(run: Run) -> None:
    event = ev.Poisson(0.1, ev.DiscreteGaussian(2.0, 1))
    Path("event.json").write_text(json.dumps(event.to_json()))
    outcome = run("account", "event.json", "--neighbours", "replace-one", "--curve", "curve.csv")
    assert outcome.code == 0
    assert {row["kind"] for row in rows("curve.csv")} == {"privacy-profile"}
    assert "41 epsilons" in outcome.out
    assert "rdp engine cannot" in outcome.err


def test_runs_by_options_have_curves_too(run: Run) -> None:
    words = ("--noise-multiplier", "2", "--rate", "1", "--rounds", "4")
    outcome = run("account", *words, "--curve", "curve.csv")
    assert outcome.code == 0
    renyi = [row for row in rows("curve.csv") if row["kind"] == "renyi"]
    assert float(renyi[0]["upper"]) == pytest.approx(float(renyi[0]["x"]) / 2)


def test_a_curve_from_elsewhere(run: Run) -> None:
    Path("theirs.csv").write_text("order, value\n2, 1.0\n4, 2.0\n\n8, inf\n")
    result = run("account", "theirs.csv", "--delta", "1e-5", "--json").json["result"]
    listed = pp.account(ev.Renyi([2.0, 4.0], [1.0, 2.0]), delta=1e-5).epsilon.upper
    assert result["epsilon"]["upper"] == pytest.approx(listed, rel=1e-5)
    assert result["epsilon"]["lower"] == 0.0


@for_each(
    "text",
    [
        "alpha,epsilon\n2,1.0\n4,2.0\n",
        "orders,rdp\n2,1.0\n4,2.0\n",
        "Order;Value\n2;1.0\n4;2.0\n",
        "order\tvalue\n2\t1.0\n4\t2.0\n",
        "# by Alice, in nats\norder,value\n2,1.0\n# all\n4,2.0\n",
        "rdp,alpha\n1.0,2\n2.0,4\n",
        "order,value\r\n2,1.0\r\n4,2.0\r\n",
    ],
)
def test_the_usual_headers_of_others_are_read(text: str, run: Run) -> None:
    Path("theirs.csv").write_bytes(text.encode())
    result = run("account", "theirs.csv", "--delta", "1e-5", "--json").json["result"]
    listed = pp.account(ev.Renyi([2.0, 4.0], [1.0, 2.0]), delta=1e-5).epsilon.upper
    assert result["epsilon"]["upper"] == pytest.approx(listed, rel=1e-5)


def test_a_curve_is_explained_as_it_is_accounted(run: Run, refused: Refused) -> None:
    Path("theirs.csv").write_text("order,value\n2,1.0\n4,2.0\n")
    explained = run("explain", "theirs.csv", "--delta", "1e-5")
    assert "How it follows" in explained.out
    assert explained.out.splitlines()[0] == run("account", "theirs.csv").out.splitlines()[0]
    assert "is no Renyi curve: it cannot be read" in refused("explain", "missing.csv")


def test_lines_are_numbered_as_in_the_file(refused: Refused) -> None:
    Path("curve.csv").write_text("# theirs\norder,value\n\n2,1\n4;2\n")
    assert "line 5, column 1 is no number" in refused("account", "curve.csv")
    Path("curve.csv").write_text("order;value\n2;0,5\n")
    said = refused("account", "curve.csv")
    assert "line 2, column 2 is no number" in said
    assert "Write numbers with a decimal point." in said


@for_each(
    ("text", "says"),
    [
        ("", "has no rows"),
        ("order,value\n", "has no rows"),
        ("a,b\n1,2\n", "its first line names no columns"),
        ("a,b\n1,2\n", "Make the first line order,value, and keep these two columns."),
        ("epsilon,delta\n1,2\n", "its first line names no columns"),
        ("2,1\n4,2\n", "Make the first line order,value, above the numbers."),
        ("order,value\n2,one\n", "line 2, column 2 is no number"),
        ("order,value\n2\n", "line 2, column 2 is no number"),
        ("order,value\n2,nan\n", "line 2, column 2 is no number"),
        ("order,value\n2,1,5\n", "line 2 has 3 columns, and the header names 2"),
        ("order,value\n2,1\n3,1,5\n", "line 3 has 3 columns"),
        (",".join(CURVE_HEADER) + "\nrenyi,2,0,1,add-remove,7\n", "line 2 has 6 columns"),
        ("order,value\n2,inf\n", "no order has a finite value"),
        ("order,value\n3,1\n2,1\n", "`orders` must be above 1 and ascending"),
        ("order,value\n2,-1\n", "`values[0]`"),
        ('order,value\n"2,1\n', "is no CSV file"),
        (",".join(CURVE_HEADER) + "\nrenyi,2,0,1\n", "line 2 holds for nothing"),
        (",".join(CURVE_HEADER) + "\nprivacy-profile,2,0,1,add-remove\n", "no order has"),
    ],
)
def test_what_is_no_curve_is_refused(text: str, says: str, refused: Refused) -> None:
    Path("curve.csv").write_text(text)
    assert says in refused("account", "curve.csv")


def test_files_that_cannot_be_read(refused: Refused) -> None:
    assert "cannot be read" in refused("account", "missing.csv")
    Path("curve.csv").write_bytes(b"order,value\n\xff\n")
    assert "not UTF-8" in refused("account", "curve.csv")
    Path("long.csv").write_bytes(b"order,value\n" + b"2,1\n" * (MAX_CURVE_BYTES // 4))
    assert "larger than 8 MiB" in refused("account", "long.csv")


def test_an_infinite_epsilon_has_a_curve(run: Run) -> None:
    Path("event.json").write_text(json.dumps(ev.Renyi([2.0], [1.0]).to_json()))
    assert run("account", "event.json", "--curve", "curve.csv").code == 0
    last = [row for row in rows("curve.csv") if row["kind"] == "renyi"][-1]
    assert float(last["upper"]) == math.inf


def test_one_order_is_one_order(run: Run) -> None:
    Path("event.json").write_text(json.dumps(ev.Renyi([2.0], [1.0]).to_json()))
    said = run("account", "event.json").out
    assert "a Renyi divergence at order 2" in said
    assert "1 orders" not in said


@for_each(
    ("body", "says"),
    [
        ("renyi,2,5,.2,add-remove", "lower end above its upper end"),
        ("renyi,2,0,.2,whatever", "whose rows all hold for add-remove"),
        ("renyi,2,0,.2,replace-one", "Ask with --neighbours replace-one"),
        (
            "renyi,2,0,.2,add-remove\nrenyi,3,0,.3,replace-one",
            "line 3 holds for replace-one, and add-remove was asked",
        ),
        (
            "renyi,2,0,.2,replace-one\nrenyi,3,0,.3,zero-out",
            "whose rows all hold for add-remove",
        ),
        ("renyi,1_0,0,.2,add-remove", "line 2, column 2 is no number"),
    ],
)
def test_rows_that_contradict_are_refused(body: str, says: str, refused: Refused) -> None:
    Path("curve.csv").write_text(",".join(CURVE_HEADER) + "\n" + body + "\n")
    assert says in refused("account", "curve.csv")


@pytest.mark.parametrize("name", ["-", "curve.txt", "curve"])
def test_a_curve_is_written_where_it_can_be_read(
    name: str, gaussian: str, refused: Refused
) -> None:
    assert "ends with .csv" in refused("account", gaussian, "--curve", name)
    assert not Path(name).exists()
