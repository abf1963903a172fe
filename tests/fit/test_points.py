"""Measured points and the CSV files that hold them."""

from __future__ import annotations

from pathlib import Path

import pytest

from paceline.fit.points import Point, PointsError, point_of, quantile, read_csv


def csv_file(folder: Path, text: str) -> Path:
    path = folder / "points.csv"
    path.write_text(text, "utf-8")
    return path


def test_columns_may_stand_in_any_order_and_others_are_ignored(tmp_path: Path) -> None:
    path = csv_file(
        tmp_path,
        "color,tpot_ms,deployment,concurrency,osl,isl,ttft_ms\nred,10.5,a,4,128,1024,99\n",
    )
    assert read_csv(path) == {"a": [Point(1024, 128, 4, 99.0, 10.5)]}


def test_deployments_and_points_keep_the_order_of_the_file(tmp_path: Path) -> None:
    rows = "b,8,8,1,1,1\na,8,8,2,1,1\nb,8,8,3,1,1\n"
    found = read_csv(csv_file(tmp_path, "deployment,isl,osl,concurrency,ttft_ms,tpot_ms\n" + rows))
    assert list(found) == ["b", "a"]
    assert [point.users for point in found["b"]] == [1, 3]


def test_a_file_without_deployments_is_one_named_after_it(tmp_path: Path) -> None:
    found = read_csv(csv_file(tmp_path, "ISL,OSL,users,ttft,tpot\n8,8,1,5,6\n"))
    assert found == {"points": [Point(8, 8, 1, 5.0, 6.0)]}


@pytest.mark.parametrize("value", ["", "NaN", "inf", "0", "-3", "fast", "1e300"])
def test_a_time_that_cannot_be_one_was_not_measured(tmp_path: Path, value: str) -> None:
    path = csv_file(tmp_path, f"isl,osl,concurrency,ttft_ms,tpot_ms\n8,8,1,5,{value}\n")
    assert read_csv(path)["points"] == [Point(8, 8, 1, 5.0, 0.0)]


@pytest.mark.parametrize("row", ["0,8,1,5,5", "8,,1,5,5", "8,8,x,5,5", "8,8,1,,", "9e9,8,1,5,5"])
def test_rows_that_say_nothing_are_left_out(tmp_path: Path, row: str) -> None:
    path = csv_file(tmp_path, f"isl,osl,concurrency,ttft_ms,tpot_ms\n{row}\n8,8,2,5,5\n")
    assert [point.users for point in read_csv(path)["points"]] == [2]


def test_one_token_has_no_time_per_token() -> None:
    values = {"isl": 8, "osl": 1, "users": 1, "ttft_ms": 5, "tpot_ms": 7}
    assert point_of(values) == Point(8, 1, 1, 5.0, 0.0)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("osl,concurrency,ttft_ms\n1,1,1\n", "no column isl"),
        ("isl,osl,concurrency\n1,1,1\n", "neither a column ttft_ms nor tpot_ms"),
        ("isl,osl,concurrency,ttft_ms\n", "no usable row"),
        ("", "no column isl"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused(tmp_path: Path, text: str, complaint: str) -> None:
    with pytest.raises(PointsError, match=complaint):
        read_csv(csv_file(tmp_path, text))


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PointsError, match="No such file"):
        read_csv(tmp_path / "none.csv")


def test_quantiles_are_interpolated() -> None:
    assert quantile([3.0, 1.0, 2.0], 0.5) == 2.0
    assert quantile([0.0, 10.0], 0.9) == pytest.approx(9.0)
    assert quantile([], 0.5) is None
