"""gpuhunt's catalog, from a folder and downloaded: the right instance in the right place, or the reason why there is no price."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from pathlib import Path

import pytest
from tests.fakes.gpuhunt_catalog import OFFLINE, CatalogServer, offer, write_catalog
from tests.fakes.listening import somewhere
from tests.fakes.trials import CONFIG

from plumbline.declarations import Provider, load
from plumbline.declarations.providers.provider import Accelerator, GpuhuntSource
from plumbline.price_sources import NoPrice, PriceSourceDown
from plumbline.price_sources.gpuhunt import GpuhuntPrices
from plumbline.price_sources.gpuhunt_catalog import load_version
from plumbline.results.price_reading import Reading

gpuhunt = pytest.importorskip("gpuhunt")
gpuhunt_base = pytest.importorskip("gpuhunt.providers.base")
SHIPPED = load(CONFIG)

P5, A3 = "p5.48xlarge", "a3-highgpu-8g"
AWS = [
    offer(P5, "us-east-1", 55.04),
    offer(P5, "us-east-1", 21.5, spot=True),
    offer(P5, "eu-north-1", 61.0),
    offer("p5.4xlarge", "us-east-1", 6.88, gpus=1),
]
GCP = [
    offer(A3, "us-central1-a", 88.49),
    offer(A3, "us-central1-b", 88.49),
    offer(A3, "us-central1-a", 40.1, flags="gcp-dws-calendar-mode"),
    offer(A3, "us-central1-a", 30.0, spot=True),
    offer(A3, "us-central1-b", 33.0, spot=True),
    offer(A3, "us-central10-a", 99.0),
    offer("a2-highgpu-1g", "us-central1-c", 3.67, gpus=1),
    offer("a2-highgpu-1g", "us-central1-d", 3.67, gpus=1),
]

Read = Callable[..., list[Reading]]


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    """The package keeps its default catalog for the life of the process, and we each pinned one: a test starts with none."""
    gpuhunt.default_catalog.cache_clear()
    load_version.cache_clear()
    yield
    gpuhunt.default_catalog.cache_clear()
    load_version.cache_clear()


@pytest.fixture
def read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, provider: Callable[..., Provider], at: datetime) -> Read:
    """read(source={…}, cloud="gcp", …): what the folder's catalog says of a provider."""
    monkeypatch.setenv("GPUHUNT_CATALOG_DIR", str(write_catalog(tmp_path / "catalog", aws=AWS, gcp=GCP, oci=AWS)))

    def asked(source: dict[str, str] | None = None, **fields: object) -> list[Reading]:
        return GpuhuntPrices(GpuhuntSource(kind="gpuhunt", **(source or {}))).read(provider(**fields), at)

    return asked


def test_on_demand_and_spot_of_the_whole_instance_in_its_region(read: Read, at: datetime) -> None:
    on_demand, spot = read()
    assert (on_demand.purchase, on_demand.usd_per_instance_hour, on_demand.usd_per_gpu_hour) == ("on_demand", 55.04, pytest.approx(6.88))
    assert (spot.purchase, spot.usd_per_instance_hour) == ("spot", 21.5)
    assert (on_demand.provider, on_demand.source, on_demand.observed_at) == ("eks-p5", "gpuhunt", at)


def test_a_zone_is_taken_by_name_and_capacity_for_fixed_dates_is_no_price_on_demand(read: Read) -> None:
    on_demand, spot = read(cloud="gcp", region="us-central1", zone="us-central1-a", instance_type=A3)
    assert (on_demand.usd_per_instance_hour, spot.usd_per_instance_hour) == (88.49, 30.0)
    assert read(zone="us-east-1a")[0].usd_per_instance_hour == 55.04, "a cloud that prices regions has one price for their zones"


def test_zones_that_differ_need_a_declared_zone_and_zones_that_agree_do_not(read: Read) -> None:
    with pytest.raises(NoPrice, match=r"us-central1-a, .*us-central1-b; .*zone"):
        read(cloud="gcp", region="us-central1", instance_type=A3)
    with pytest.raises(NoPrice, match="a2-highgpu-1g 1 ") as error:
        read(cloud="gcp", region="us-central1", instance_type="a2-highgpu-1g")
    assert error.value.why.endswith(" 8") and "accelerator.count" in error.value.remedy
    assert len(read({"location": "us-central1-b"}, cloud="gcp", region="us-central1", instance_type=A3)) == 2


def test_a_cloud_goes_by_gpuhunts_name(read: Read) -> None:
    assert read(cloud="oracle")[0].usd_per_instance_hour == 55.04
    assert read({"cloud": "aws", "location": "eu-north-1"}, cloud="mine")[0].usd_per_instance_hour == 61.0


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"instance_type": "p9.48xlarge"}, r"does not list p9\.48xlarge"),
        ({"region": "sa-east-1"}, r"lists p5\.48xlarge in eu-north-1, us-east-1, not in sa-east-1"),
        ({"instance_type": "p5.4xlarge"}, r"p5\.4xlarge 1 .* 8;"),
    ],
)
def test_what_the_catalog_does_not_have_is_no_price(read: Read, fields: dict[str, str], said: str) -> None:
    with pytest.raises(NoPrice, match=said) as error:
        read(**fields)
    assert (error.value.source, error.value.provider) == ("gpuhunt", "eks-p5")


def test_a_folder_may_hold_a_cloud_that_gpuhunt_does_not_know(read: Read, tmp_path: Path) -> None:
    write_catalog(tmp_path / "catalog", mine=AWS)
    assert read(cloud="mine")[0].usd_per_instance_hour == 55.04


def test_a_folder_without_the_clouds_file_is_down(read: Read) -> None:
    with pytest.raises(PriceSourceDown, match=r"azure\.csv.* GPUHUNT_CATALOG_DIR"):
        read(cloud="azure")


def test_the_version_of_a_folder_is_its_own_name_or_the_hash_of_what_it_says(read: Read, tmp_path: Path) -> None:
    first = read()[0].source_version
    write_catalog(tmp_path / "catalog", aws=[*AWS, offer("new", "us-east-1", 1.0)])
    assert first.startswith("sha256:") and read()[0].source_version != first
    (tmp_path / "catalog" / "version").write_text("20261121-1\n")
    assert read({"catalog": "20261121-1"})[0].source_version == "20261121-1"
    with pytest.raises(PriceSourceDown, match=r"20261121-1, .*20260101-1"):
        read({"catalog": "20260101-1"})


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[CatalogServer]:
    monkeypatch.delenv("GPUHUNT_CATALOG_DIR", raising=False)
    with CatalogServer({"aws": AWS}, version="20261121-7") as running:
        monkeypatch.setenv("GPUHUNT_CATALOG_URL", running.url)
        yield running


def test_the_newest_catalog_is_downloaded_and_named(server: CatalogServer, provider: Callable[..., Provider], at: datetime) -> None:
    before = socket.getdefaulttimeout()
    on_demand, _ = GpuhuntPrices(GpuhuntSource(kind="gpuhunt")).read(provider(), at)
    assert (on_demand.usd_per_instance_hour, on_demand.source_version) == (55.04, "20261121-7")
    assert socket.getdefaulttimeout() == before


def test_a_pinned_catalog_is_downloaded_by_its_name_once(server: CatalogServer, provider: Callable[..., Provider], at: datetime) -> None:
    source = GpuhuntPrices(GpuhuntSource(kind="gpuhunt", catalog="20261121-7"))
    assert source.read(provider(), at)[0].source_version == "20261121-7"
    assert source.read(provider(), at)[0].usd_per_instance_hour == 55.04
    assert not any(path.endswith("/version") for path in server.asked)
    assert server.asked.count("/aws/20261121-7/catalog.zip") == 1
    with pytest.raises(PriceSourceDown, match="20200101-1"):
        GpuhuntPrices(GpuhuntSource(kind="gpuhunt", catalog="20200101-1")).read(provider(), at)


def test_a_catalog_that_cannot_be_downloaded_is_down_and_not_free(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, provider: Callable[..., Provider], at: datetime
) -> None:
    monkeypatch.delenv("GPUHUNT_CATALOG_DIR", raising=False)
    with CatalogServer({}, version="1") as gone:
        url = gone.url
    monkeypatch.setenv("GPUHUNT_CATALOG_URL", url)
    with pytest.raises(PriceSourceDown, match=r"aws .*refused"):
        GpuhuntPrices(GpuhuntSource(kind="gpuhunt")).read(provider(), at)
    with pytest.raises(PriceSourceDown, match=r"aws .*20200101-1 .*refused"):
        GpuhuntPrices(GpuhuntSource(kind="gpuhunt", catalog="20200101-1")).read(provider(), at)
    assert caplog.records == [], "nine clouds' tracebacks would bury the one sentence"


def test_a_cloud_that_gpuhunt_does_not_know_is_told(server: CatalogServer, provider: Callable[..., Provider], at: datetime) -> None:
    with pytest.raises(NoPrice, match="mine"):
        GpuhuntPrices(GpuhuntSource(kind="gpuhunt")).read(provider(cloud="mine"), at)


def test_a_cloud_whose_download_failed_is_down(server: CatalogServer, provider: Callable[..., Provider], at: datetime) -> None:
    with pytest.raises(PriceSourceDown, match=" gcp "):
        GpuhuntPrices(GpuhuntSource(kind="gpuhunt")).read(provider(cloud="gcp"), at)


@pytest.mark.parametrize(
    ("place", "source"),
    [(p, s) for p in SHIPPED.providers.values() for s in p.price_sources if isinstance(s, GpuhuntSource)],
    ids=lambda value: getattr(value, "name", ""),
)
def test_the_shipped_examples_name_clouds_that_gpuhunt_knows(
    place: Provider, source: GpuhuntSource, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: datetime
) -> None:
    instance_type, location = source.instance_type or place.instance_type, source.location or place.zone or place.region
    clouds = {cloud: [offer(instance_type, location, 50.0)] for cloud in OFFLINE}
    monkeypatch.setenv("GPUHUNT_CATALOG_DIR", str(write_catalog(tmp_path, **clouds)))
    assert [r.usd_per_instance_hour for r in GpuhuntPrices(source).read(place, at)] == [50.0]


def test_a_file_of_another_layout_is_told_by_its_first_bad_line(read: Read, tmp_path: Path) -> None:
    (tmp_path / "catalog" / "aws.csv").write_text("name,price\np5.48xlarge,55.04\n")
    with pytest.raises(PriceSourceDown, match=r" aws .*line 2"):
        read()


def test_a_server_that_never_answers_is_down(monkeypatch: pytest.MonkeyPatch, provider: Callable[..., Provider], at: datetime) -> None:
    monkeypatch.delenv("GPUHUNT_CATALOG_DIR", raising=False)
    with somewhere() as port:
        monkeypatch.setenv("GPUHUNT_CATALOG_URL", f"http://127.0.0.1:{port}")
        with pytest.raises(PriceSourceDown, match=r" aws .*timed out"):
            GpuhuntPrices(GpuhuntSource(kind="gpuhunt"), timeout_s=0.2).read(provider(), at)


def test_one_name_that_is_sold_with_several_numbers_of_gpus(read: Read, tmp_path: Path) -> None:
    sizes = [offer("NVIDIA H100", "EU-1", 2.5 * gpus, gpus=gpus) for gpus in (1, 4, 8)]
    write_catalog(tmp_path / "catalog", runpod=sizes)
    asked = {"instance_type": "NVIDIA H100", "location": "EU-1"}
    assert [r.usd_per_gpu_hour for r in read(asked, cloud="runpod")] == [2.5]
    write_catalog(tmp_path / "catalog", runpod=sizes[:2])
    with pytest.raises(NoPrice, match="1 or 4") as error:
        read(asked, cloud="runpod")
    assert error.value.why.endswith(" 8")


@pytest.mark.parametrize("price", ["nan", "-1.0", "0.0", "inf"])
def test_a_figure_that_is_no_price_is_refused(read: Read, tmp_path: Path, price: str) -> None:
    write_catalog(tmp_path / "catalog", aws=[offer(P5, "us-east-1", float(price))])
    with pytest.raises(NoPrice, match=rf"lists p5\.48xlarge at {price} USD/h, which is no on-demand price"):
        read()
    write_catalog(tmp_path / "catalog", aws=[offer(P5, "us-east-1", float(price)), *AWS])
    assert [r.usd_per_instance_hour for r in read()] == [55.04, 21.5]


def test_the_place_is_chosen_for_each_purchase(read: Read, tmp_path: Path) -> None:
    """AWS prices on demand by region, and spot by zone."""
    spots = [offer(P5, f"us-east-1{zone}", price, spot=True) for zone, price in (("a", 20.8), ("c", 23.4))]
    write_catalog(tmp_path / "catalog", aws=[AWS[0], *spots])
    assert [r.usd_per_instance_hour for r in read(zone="us-east-1a")] == [55.04, 20.8]
    assert [r.usd_per_instance_hour for r in read(zone="us-east-1d")] == [55.04], "none is sold there"
    with pytest.raises(NoPrice, match=r"20\.8 USD/h in us-east-1a, 23\.4 USD/h in us-east-1c; declare the provider's zone") as error:
        read()
    assert [r.usd_per_instance_hour for r in error.value.readings] == [55.04], "the other purchase has its price"


def test_previews_and_clusters_are_other_products_than_the_instance(read: Read, tmp_path: Path) -> None:
    zone = {"region": "us-central1", "zone": "us-central1-b", "cloud": "gcp", "instance_type": "g4"}
    preview = offer("g4", "us-central1-b", 2.0, flags="gcp-g4-preview")
    write_catalog(tmp_path / "catalog", gcp=[preview, offer("g4", "us-central1-b", 4.5, flags="gcp-g4")])
    assert [r.usd_per_instance_hour for r in read(**zone)] == [4.5]
    write_catalog(tmp_path / "catalog", gcp=[preview])
    with pytest.raises(NoPrice, match=r"lists g4 only as a preview or for fixed dates; declare what you pay"):
        read(**zone)
    twins = [offer("H100 SXM", "EU-1", 27.92, flags="runpod-cluster"), offer("H100 SXM", "EU-1", 23.92)]
    write_catalog(tmp_path / "catalog", runpod=twins)
    asked = {"instance_type": "H100 SXM", "location": "EU-1"}
    assert [r.usd_per_instance_hour for r in read(asked, cloud="runpod")] == [23.92]
    write_catalog(tmp_path / "catalog", runpod=[twins[1], offer("H100 SXM", "EU-1", 25.0)])
    with pytest.raises(NoPrice, match=r"lists 2 on-demand prices: .*; it does not say which of them is yours") as error:
        read(asked, cloud="runpod", zone="EU-1")
    assert "zone" not in error.value.remedy


def test_a_purchase_that_is_not_sold_in_the_size_is_left_out(read: Read, tmp_path: Path) -> None:
    write_catalog(tmp_path / "catalog", aws=[AWS[0], offer(P5, "us-east-1", 2.0, gpus=1, spot=True)])
    assert [r.usd_per_instance_hour for r in read()] == [55.04]


def test_a_part_of_a_gpu_has_not_the_price_of_the_whole(read: Read) -> None:
    with pytest.raises(NoPrice, match=r"MIG 1g\.10gb, and catalogs count whole GPUs; .*declare what you pay"):
        read(accelerator=Accelerator(kind="nvidia", product="NVIDIA-H100-80GB-HBM3-MIG-1g.10gb", count=8))


def test_a_marketplace_has_no_instance_types(read: Read, tmp_path: Path) -> None:
    write_catalog(tmp_path / "catalog", vastai=[offer("30000000", "US", 2.2, gpus=8)])
    with pytest.raises(NoPrice, match=r"vastai is a marketplace: .*declare what you pay"):
        read({"instance_type": "30000000", "location": "US"}, cloud="vastai")


def test_an_entry_that_contradicts_its_own_kind_elsewhere_is_not_the_declarations_fault(read: Read, tmp_path: Path) -> None:
    write_catalog(tmp_path / "catalog", aws=[offer(P5, "us-east-1", 117.0, gpus=12), offer(P5, "us-west-2", 98.32)])
    with pytest.raises(NoPrice, match=r"gives p5\.48xlarge 12 accelerators, the provider declares 8; it gives 8 in us-west-2"):
        read()
    with pytest.raises(NoPrice, match=r"does not list 5\.48xlarge; .*it lists p5\.48xlarge"):
        read(instance_type="5.48xlarge")


def test_the_catalogs_own_date_is_the_observations(read: Read, tmp_path: Path, at: datetime) -> None:
    version = tmp_path / "catalog" / "version"
    version.write_text("\ufeff20241220-3\n", encoding="utf-8")
    assert read()[0].observed_at == datetime(2024, 12, 20, 0, 0, 3, tzinfo=timezone.utc)
    version.write_text("20261122-1")
    assert read()[0].observed_at == at, "a day ahead is another clock"
    version.write_text("20991231-1")
    with pytest.raises(PriceSourceDown, match="20991231-1 is dated 2099-12-31, after 2026-11-21"):
        read()
    for undated in ("", "20261340-1", "mine"):
        version.write_text(undated)
        os.utime(tmp_path / "catalog" / "aws.csv", (1.75e9, 1.75e9))
        assert read()[0].observed_at == datetime.fromtimestamp(1.75e9, timezone.utc), "the file's age says what the version does not"


def test_typical_is_what_the_catalog_lists_elsewhere_for_the_product_and_size(read: Read, tmp_path: Path) -> None:
    folder = tmp_path / "catalog"
    (folder / "oci.csv").unlink()
    write_catalog(folder, gcp=[one for one in GCP if one["location"] != "us-central10-a"])
    on_demand, spot = read(zone="us-east-1a")
    assert on_demand.typical == (88.49 / 8, 88.49 / 8), "gcp's, in the same folder; not capacity for fixed dates, and not another size"
    assert spot.typical == (30.0 / 8, 33.0 / 8)
    azure = [offer("ND96isr", "eastus", price) for price in (98.32, 0.0, 0.8)] + [offer("ND96isr", "eastus", 1.0, spot=True)]
    write_catalog(folder, azure=azure)
    assert read(zone="us-east-1a")[0].typical == (88.49 / 8, 98.32 / 8), "0 is no price, and 0.8 USD is its own error"
    (folder / "gcp.csv").unlink()
    (folder / "azure.csv").unlink()
    assert read()[0].typical == (61.0 / 8, 61.0 / 8), "its own price in another region, which differs"
    write_catalog(folder, aws=[offer(P5, region, 0.8) for region in ("us-east-1", "us-east-2", "us-west-2")])
    assert read()[0].typical is None, "a wrong price is wrong everywhere"


def test_a_downloaded_catalog_is_typical_too(provider: Callable[..., Provider], at: datetime, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GPUHUNT_CATALOG_DIR", raising=False)
    with CatalogServer({"aws": AWS, "gcp": GCP}, version="20261121-7") as running:
        monkeypatch.setenv("GPUHUNT_CATALOG_URL", running.url)
        (on_demand, _) = GpuhuntPrices(GpuhuntSource(kind="gpuhunt")).read(provider(), at)
    assert on_demand.typical == (88.49 / 8, 99.0 / 8)


def test_a_cloud_that_is_asked_live_says_so_in_its_version(server: CatalogServer, provider: Callable[..., Provider], at: datetime) -> None:
    class Hotaisle(gpuhunt_base.OnlineProvider):  # type: ignore[misc]
        """A cloud with an account of its own, as the package asks it."""

        NAME = "hotaisle"

        def get(self, **_: object) -> list[object]:
            return [gpuhunt.CatalogItem("hotaisle", "8x", "us", 16.0, 192, 2048.0, 8, "MI300X", 192.0, False, None, "amd")]

        @classmethod
        def from_env(cls) -> Hotaisle:
            return cls()

    gpuhunt.default_catalog().add_provider(Hotaisle())
    (reading,) = GpuhuntPrices(GpuhuntSource(kind="gpuhunt")).read(provider(cloud="hotaisle", region="us", instance_type="8x"), at)
    assert reading.usd_per_instance_hour == 16.0 and reading.source_version.startswith("asked live, gpuhunt ")
