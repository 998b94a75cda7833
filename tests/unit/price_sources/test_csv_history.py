"""A history's rows become readings of their own days; a broken file is told by line and column."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from plumbline.declarations import Provider
from plumbline.price_sources import NoPrice, PriceSourceDown
from plumbline.price_sources.csv_history import CsvPrices, HistoryError, read_history

HEADER = "date,provider,region,instance_type,gpu,gpus,purchase,usd_per_gpu_hour\n"
ROWS = """\
2026-11-01,aws,us-east-1,p5.48xlarge,H100,8,on-demand,6.88
2026-11-01,aws,us-east-1,p5.48xlarge,H100,8,reserved-3y,3.10
2026-11-01,aws,eu-west-1,p5.48xlarge,H100,8,on-demand,7.10
2026-11-15T21:01:58Z,aws,us-east-1,p5.48xlarge,H100,8,spot,3.3
2026-11-20,aws,us-east-1,p5.48xlarge,H100,8,on-demand,6.20
2026-12-01,aws,us-east-1,p5.48xlarge,H100,8,on-demand,5.00
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "history.csv"
    path.write_text(HEADER + ROWS)
    return path


def test_a_provider_gets_the_newest_row_of_each_purchase_that_is_not_of_the_future(
    file: Path, provider: Callable[..., Provider], at: datetime
) -> None:
    readings = {(r.purchase, r.term): r for r in CsvPrices(file).read(provider(), at)}
    assert {kind: r.usd_per_gpu_hour for kind, r in readings.items()} == {
        ("on_demand", None): 6.20,
        ("reserved", "3y"): 3.10,
        ("spot", None): 3.3,
    }
    on_demand, spot = readings["on_demand", None], readings["spot", None]
    assert (on_demand.provider, on_demand.source_version, on_demand.gpus) == ("eks-p5", "history.csv", 8)
    assert on_demand.observed_at == datetime(2026, 11, 20, tzinfo=timezone.utc), "when it was seen, not when it is read"
    assert spot.observed_at == datetime(2026, 11, 15, 21, 1, 58, tzinfo=timezone.utc)


def test_the_same_row_read_on_two_days_is_one_reading(file: Path, provider: Callable[..., Provider], at: datetime) -> None:
    first = [r.reading_id for r in CsvPrices(file).read(provider(), at)]
    file.write_text(HEADER + ROWS + "2026-11-20,gcp,us-central1,a3-highgpu-8g,H100,8,on-demand,11.06\n")
    assert [r.reading_id for r in CsvPrices(file).read(provider(), at.replace(hour=23))] == first


def test_a_history_as_a_whole_names_cloud_region_and_instance_type(file: Path) -> None:
    readings = list(read_history(file))
    assert len(readings) == 6
    assert {r.provider for r in readings} == {"aws/us-east-1/p5.48xlarge", "aws/eu-west-1/p5.48xlarge"}


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("2026-11-20,", "20.11.2026,", r':6, date is "20.11.2026"; expected a date'),
        ("8,on-demand,6.20", "0,on-demand,6.20", r':6, gpus is "0"; expected a whole number'),
        ("on-demand,6.20", "ondemand,6.20", r':6, purchase is "ondemand"; expected one of on-demand, spot'),
        ("on-demand,6.20", "on-demand,", r':6, usd_per_gpu_hour is ""; expected a number'),
        ("on-demand,6.20", "on-demand,nan", r':6, usd_per_gpu_hour is "nan"'),
        ("on-demand,6.20", "on-demand,-6.20", r':6, usd_per_gpu_hour is "-6.20"'),
        ("on-demand,6.20", "on-demand,0", r':6, usd_per_gpu_hour is "0"; expected a number above 0'),
        ("on-demand,6.20", 'on-demand,"6,20"', r':6, usd_per_gpu_hour is "6,20"'),
        ("on-demand,6.20", "on-demand,6,20", r":6 has more columns than the header"),
        ("on-demand,6.20", "on-demand,$6.20", r':6, usd_per_gpu_hour is "\$6.20"; expected .*without a currency'),
        ("on-demand,6.20", "on-demand,6_20", r':6, usd_per_gpu_hour is "6_20"'),
        ("2026-11-20,", "2096-11-20,", r':6, date is "2096-11-20"; expected a day up to'),
        (",usd_per_gpu_hour", ",price", r":1 has no column usd_per_gpu_hour; expected a header"),
    ],
)
def test_a_broken_row_is_told_by_line_and_column(
    file: Path, provider: Callable[..., Provider], at: datetime, old: str, new: str, said: str
) -> None:
    file.write_text(file.read_text().replace(old, new, 1))
    with pytest.raises(HistoryError, match=said):
        read_history(file, until=at + timedelta(days=366))
    with pytest.raises(PriceSourceDown, match=said) as error:
        CsvPrices(file).read(provider(), at)
    assert (error.value.source, error.value.provider) == ("csv", "eks-p5")


def test_a_missing_file_is_down_and_not_free(tmp_path: Path, provider: Callable[..., Provider], at: datetime) -> None:
    with pytest.raises(PriceSourceDown, match=r"nowhere\.csv") as error:
        CsvPrices(tmp_path / "nowhere.csv").read(provider(), at)
    assert error.value.__cause__ is not None and isinstance(error.value.__cause__.__cause__, FileNotFoundError)


def test_an_instance_type_without_rows_has_no_price(file: Path, provider: Callable[..., Provider], at: datetime) -> None:
    with pytest.raises(NoPrice, match=r"aws/us-east-1/p5e\.48xlarge .*2026-11-21"):
        CsvPrices(file).read(provider(instance_type="p5e.48xlarge"), at)


def test_another_number_of_gpus_is_another_machine(file: Path, provider: Callable[..., Provider], at: datetime) -> None:
    file.write_text(file.read_text().replace("H100,8,", "H100,4,"))
    with pytest.raises(NoPrice, match=r"aws/us-east-1/p5\.48xlarge 4 ") as error:
        CsvPrices(file).read(provider(), at)
    assert error.value.why.endswith(" 8") and "accelerator.count" in error.value.remedy


def test_a_history_that_nobody_writes_any_more_is_down(file: Path, provider: Callable[..., Provider], at: datetime) -> None:
    two_days = CsvPrices(file, max_age_s=2 * 86400.0)
    assert len(two_days.read(provider(), at)) == 3, "one new row shows that the file is kept"
    with pytest.raises(PriceSourceDown, match=r"aws/us-east-1/p5\.48xlarge .*2026-11-20.* max_age;"):
        two_days.read(provider(), at.replace(day=23))
    assert CsvPrices(file).read(provider(), at.replace(day=23))


def test_every_wrong_line_is_named_at_once(file: Path, provider: Callable[..., Provider], at: datetime) -> None:
    file.write_text(file.read_text().replace("on-demand", "On-Demand", 1).replace(",6.20", ",").replace(",3.3\n", ",0\n"))
    with pytest.raises(HistoryError, match=r"(?s)has 3 wrong lines.*:2, .*:5, .*:6, "):
        read_history(file)
    with pytest.raises(PriceSourceDown, match=r"(?s):2, .*:5, .*:6, "):
        CsvPrices(file).read(provider(), at)


def test_two_prices_of_one_moment_are_an_error(file: Path) -> None:
    again = "2026-11-20T02:00:00+02:00,aws,us-east-1,p5.48xlarge,H100,8,on-demand,"
    file.write_text(HEADER + ROWS + again + "6.20\n")
    assert len(read_history(file)) == 7, "the same price twice contradicts nothing"
    file.write_text(HEADER + ROWS + again + "12.29\n")
    with pytest.raises(HistoryError, match=r':8, usd_per_gpu_hour is "12.29"; expected one price of one moment: line 6 says 6.2'):
        read_history(file)


def test_other_separators_are_named_and_a_byte_order_mark_is_none(file: Path) -> None:
    file.write_text((HEADER + ROWS).replace(",", ";"))
    with pytest.raises(HistoryError, match=r":1 separates columns by ';'; expected commas"):
        read_history(file)
    file.write_text(HEADER + ROWS, encoding="utf-8-sig")
    assert len(read_history(file)) == 6


def test_what_the_file_says_of_the_same_product_and_size_elsewhere_is_typical(
    file: Path, provider: Callable[..., Provider], at: datetime
) -> None:
    def typical() -> tuple[float, float] | None:
        return CsvPrices(file).read(provider(), at)[0].typical

    assert typical() == (7.10, 7.10), "another region, at another price"
    file.write_text(file.read_text().replace("7.10", "6.20"))
    assert typical() is None, "a wrong price is wrong everywhere"
    other = "2026-11-01,azure,eastus,ND96isr,H100,8,on-demand,12.29\n2026-11-02,gcp,us-central1,a3,H100,8,on-demand,11.06\n"
    file.write_text(file.read_text() + other + other.replace("H100,8", "H100,1").replace("12.29", "99"))
    assert typical() == (11.06, 12.29)
    file.write_text(file.read_text() + "2026-11-02,x,y,z,H100,8,on-demand,0.01\n2026-11-02,x,y,w,H100,8,on-demand,?\n")
    assert typical() == (11.06, 12.29), "another's mistake is none of ours"
