"""One look at a provider's prices: readings are stored, findings open, go on and end, and the accepted price moves by a person or by rule."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from tests.data.result_documents import document
from tests.fakes.trials import H100, cluster_provider, declared

from plumbline.analysis.prices.book import quote, with_effective_prices
from plumbline.archive import Archive
from plumbline.declarations import Contract, Declarations, Price, Provider, load
from plumbline.declarations.providers.provider import ContractSource, CsvSource
from plumbline.findings.price_check import accepted_price
from plumbline.findings.types.held_price import HeldPrice
from plumbline.results.finding import Finding
from plumbline.words.prices import verdict_reason
from plumbline.workflows import read_prices as read_prices_module
from plumbline.workflows.accept_price import accept_price
from plumbline.workflows.baseline_decision import apply_answer
from plumbline.workflows.read_prices import PriceCheckResult, read_and_store_prices, read_provider_prices
from plumbline.workflows.report import campaign_data

FIRST = datetime(2026, 11, 1, tzinfo=timezone.utc)
ELSEWHERE = [f"2026-10-01,other,there,big,H100,8,{kind}\n" for kind in ("on-demand,2.5", "spot,1.0", "reserved-1y,2.0")]
"""What the file says of another cloud's instance type of the same product and size: first prices near it are plausible."""


class Place:
    """A provider of eight GPUs whose prices a file tells, an archive, and days that pass."""

    def __init__(self, archive: Archive, file: Path, provider: Provider) -> None:
        self.archive, self.file, self.day = archive, file, 0
        source = CsvSource(kind="csv", file=str(file))
        self.provider = provider.model_copy(update={"price_sources": (source,)})
        shipped = declared()
        self.declared = Declarations({self.provider.name: self.provider}, shipped.workloads, shipped.teams, shipped.thresholds)
        file.write_text("date,provider,region,instance_type,gpu,gpus,purchase,usd_per_gpu_hour\n" + "".join(ELSEWHERE))

    def look(self, price: float, purchase: str = "on-demand") -> PriceCheckResult:
        """The next day, on which the file tells this price."""
        at = FIRST + timedelta(days=self.day)
        self.day += 1
        with self.file.open("a") as file:
            file.write(
                f"{at.date()},{self.provider.cloud},{self.provider.region},{self.provider.instance_type},H100,8,{purchase},{price}\n"
            )
        return read_and_store_prices(self.archive, self.declared, self.provider, at + timedelta(hours=6))

    def states(self) -> list[tuple[str, str]]:
        return [(f.detail["subject"], f.state) for f in self.archive.findings_of(self.provider.name)]

    def accepted(self, purchase: str = "on_demand") -> float | None:
        return accepted_price(self.archive, self.provider, purchase, None, (FIRST + timedelta(days=self.day)).date())  # type: ignore[arg-type]


@pytest.fixture
def place(archive: Archive, tmp_path: Path) -> Place:
    return Place(archive, tmp_path / "prices.csv", cluster_provider("coreweave-h100", accelerator=H100))


def priced(provider: Provider, usd_per_hour: float, since: datetime) -> Provider:
    price = Price.model_construct(purchase="on_demand", price=usd_per_hour, since=since.date(), until=None, source="a test")
    return provider.model_copy(update={"prices": (price,)})


def test_the_first_price_is_accepted_and_a_change_that_was_seen_twice_opens_one_finding(place: Place) -> None:
    assert place.look(2.39).findings == () and place.accepted() == pytest.approx(2.39)
    assert place.look(2.99).findings == ()
    found = place.look(2.99)
    assert found.changes == ({"fact": "price.on_demand", "old": "2.39", "new": "2.99"},)
    assert "2.39 → 2.99" in found.reason and len(found.opened) == 1
    again = place.look(2.99)
    assert (again.changes, again.opened, again.findings) == ((), (), found.findings), "it stands, and is no news"
    assert place.states() == [("price on-demand", "open")]
    assert place.accepted() == pytest.approx(2.39), "a list price moves when a person says so"
    assert len(place.archive.price_readings("coreweave-h100")) == 4


def test_to_look_again_changes_nothing(place: Place) -> None:
    for price in (2.39, 2.99, 2.99):
        place.look(price)
    before = (place.archive.findings(), len(place.archive.audit()))
    again = read_and_store_prices(place.archive, place.declared, place.provider, FIRST + timedelta(days=2, hours=7))
    assert (again.readings, again.opened, again.changes) == (0, (), ())
    assert [f.finding_id for f in place.archive.findings()] == [f.finding_id for f in before[0]] and len(place.archive.audit()) == before[1]


def test_an_accepted_change_moves_the_price_and_is_in_the_log(place: Place) -> None:
    for price in (2.39, 2.99, 2.99):
        place.look(price)
    (stored,) = place.archive.findings()
    apply_answer(place.archive, place.declared, stored.finding_id, "accept", by="ada", why="their new list")
    assert place.states() == [("price on-demand", "accepted")] and place.accepted() == pytest.approx(2.99)
    (entry,) = [e for e in place.archive.audit("price/coreweave-h100/on_demand") if e.who == "ada"]
    assert entry.detail["usd_per_hour"] == pytest.approx(8 * 2.99) and entry.detail["since"] == "2026-11-02"
    assert place.look(2.99).findings == () and place.look(2.39).findings == ()
    assert place.look(2.39).changes == ({"fact": "price.on_demand", "old": "2.99", "new": "2.39"},), "back is a change of its own"


def test_a_price_of_nothing_is_no_price_and_a_held_one_stays_until_a_person_gives_another_one(place: Place) -> None:
    place.look(2.39)
    told = place.file.read_text()
    nothing = place.look(0.0)
    assert nothing.checks == () and 'usd_per_gpu_hour is "0.0"' in nothing.notes[0] and place.states() == []
    place.file.write_text(told)
    held = place.look(0.69)
    assert place.states() == [("held price on-demand", "open")] and held.changes == () and held.checks[0].status == "held"
    with pytest.raises(ValueError, match="coreweave-h100 is 0"):
        accept_price(place.archive, place.provider, "on_demand", None, by="ada", why="free?", usd_per_gpu_hour=0.0)
    assert place.accepted() == pytest.approx(2.39) and place.states()[0][1] == "open"
    accept_price(place.archive, place.provider, "on_demand", None, by="ada", why="asked them", usd_per_gpu_hour=1.99)
    assert place.accepted() == pytest.approx(1.99) and place.states() == [("held price on-demand", "accepted")]


def test_a_first_price_unlike_all_others_is_held_and_no_cost_until_a_person_accepts_it(place: Place) -> None:
    for _ in range(4):
        held = place.look(0.3)
    assert held.checks[0].status == "held" and "elsewhere at 2.50 USD" in (verdict_reason(held.checks[0]) or "")
    assert place.accepted() is None and place.archive.prices(place.provider.name) == []
    (stored,) = place.archive.findings()
    assert stored.severity == "warn" and "elsewhere at 2.50 USD" in stored.detail["evidence"]
    apply_answer(place.archive, place.declared, stored.finding_id, "accept", by="ada", why="it is a promotion")
    assert place.accepted() == pytest.approx(0.3) and place.look(0.3).checks[0].status == "unchanged"


def test_a_first_price_is_held_with_nothing_to_compare_it_with_until_a_second_source_says_the_same(place: Place, tmp_path: Path) -> None:
    place.file.write_text(place.file.read_text().splitlines()[0] + "\n")
    held = place.look(2.39)
    assert held.checks[0].status == "held" and held.checks[0].unproven and place.accepted() is None
    contract = {
        "name": "neo",
        "source": "contract 7",
        "prices": [{"purchase": "on_demand", "price": "2.39 USD/GPU-hour", "since": "2026-01-01"}],
    }
    place.declared.contracts["neo"] = Contract.model_validate_json(json.dumps(contract))
    sources = (ContractSource(kind="contract", contract="neo"), *place.provider.price_sources)
    place.provider = place.provider.model_copy(update={"price_sources": sources})
    found = place.look(2.39)
    assert found.checks[0].status == "first" and place.accepted() == pytest.approx(2.39)
    assert place.states() == [("held price on-demand", "resolved")]
    (entry,) = place.archive.audit("price/coreweave-h100/on_demand")
    assert "csv says the same" in entry.why


def test_a_spot_price_moves_by_itself_and_its_finding_ends_with_the_next_look(place: Place) -> None:
    for price in (1.0, 1.3, 1.3):
        found = place.look(price, "spot")
    assert found.changes == ({"fact": "price.spot", "old": "1", "new": "1.3"},)
    assert place.accepted("spot") == pytest.approx(1.3) and place.states() == [("price spot", "open")]
    place.look(1.3, "spot")
    assert place.states() == [("price spot", "resolved")]


def test_a_reservation_is_held_against_what_an_hour_costs_on_demand(place: Place) -> None:
    place.look(2.39)
    assert place.look(2.39, "reserved-1y").checks[-1].status == "held"
    assert place.look(2.0, "reserved-1y").checks[-1].status == "first"
    assert place.states() == [(HeldPrice.of("reserved", "1y"), "resolved")]


def test_a_declared_price_is_what_readings_are_held_against_and_a_newer_one_takes_over(place: Place) -> None:
    place.provider = priced(place.provider, 8 * 2.5, FIRST - timedelta(days=100)).model_copy(
        update={"price_sources": place.provider.price_sources}
    )
    for price in (2.39, 2.39):
        found = place.look(price)
    assert found.changes == ({"fact": "price.on_demand", "old": "2.5", "new": "2.39"},)
    accept_price(place.archive, place.provider, "on_demand", None, by="ada", why="yes")
    assert place.accepted() == pytest.approx(2.39)
    place.provider = priced(place.provider, 8 * 2.2, FIRST + timedelta(days=2))
    assert place.accepted() == pytest.approx(2.2), "somebody declared it since"


def test_what_was_accepted_before_another_price_was_declared_can_be_accepted_again(place: Place) -> None:
    """The source says the same as ever, so the day on which that was read first is older than the declaration."""
    place.look(2.39)
    place.provider = priced(place.provider, 24.0, FIRST + timedelta(days=1))
    for _ in range(2):
        place.look(2.39)
    assert place.accepted() == 3.0 and place.states() == [("price on-demand", "open")]
    accept_price(place.archive, place.provider, "on_demand", None, by="ada", why="the declaration was wrong")
    assert place.accepted() == pytest.approx(2.39) and place.look(2.39).checks[0].status == "unchanged"
    before = len(place.archive.audit())
    accept_price(place.archive, place.provider, "on_demand", None, by="ada", why="once more")
    assert len(place.archive.audit()) == before, "what is accepted is no decision"


def test_costs_follow_the_accepted_price_from_its_day_on_until_something_newer_is_declared(place: Place) -> None:
    place.provider = priced(place.provider, 8 * 2.5, FIRST - timedelta(days=100))
    accept_price(place.archive, place.provider, "on_demand", None, by="ada", why="theirs", usd_per_gpu_hour=2.0)
    accept_price(place.archive, place.provider, "reserved", "1y", by="ada", why="theirs", usd_per_gpu_hour=1.0)
    today = datetime.now(timezone.utc)
    costs = with_effective_prices(place.provider, place.archive.prices(place.provider.name))

    def usd(provider: Provider, at: datetime) -> float:
        basis = quote(provider, at.date()).basis
        assert basis is not None
        return basis.usd_per_hour

    assert usd(place.provider, today) == 20.0 and usd(costs, today) == 16.0
    assert usd(costs, FIRST - timedelta(days=50)) == 20.0 and [p.purchase for p in costs.prices].count("reserved") == 0
    redeclared = priced(place.provider, 8 * 3.0, today + timedelta(days=1))
    assert usd(with_effective_prices(redeclared, place.archive.prices(redeclared.name)), today + timedelta(days=2)) == 24.0
    assert (
        with_effective_prices(load().providers["simulated-h100"], place.archive.prices("simulated-h100"))
        == load().providers["simulated-h100"]
    )


def test_a_report_reckons_with_the_accepted_price(archive: Archive) -> None:
    measured = document()
    archive.record(measured, uri="file:///nowhere")
    accept_price(archive, measured.trial.provider, "on_demand", None, by="ada", why="their new list", usd_per_gpu_hour=1.5)
    told = campaign_data(archive, measured.trial.campaign_id)
    basis = quote(told.providers[measured.trial.provider.name], datetime.now(timezone.utc).date()).basis
    assert basis is not None and basis.usd_per_hour == 1.5 * measured.trial.provider.accelerator.count
    assert basis.source == "given by ada"


def test_a_source_that_is_down_is_named_and_leaves_the_others_and_the_findings_alone(place: Place, tmp_path: Path) -> None:
    for price in (2.39, 2.99, 2.99):
        place.look(price)
    gone = CsvSource(kind="csv", file=str(tmp_path / "nowhere.csv"))
    place.provider = place.provider.model_copy(update={"price_sources": (gone, *place.provider.price_sources)})
    found = place.look(2.99)
    assert len(found.notes) == 1 and "nowhere.csv" in found.notes[0]
    assert len(found.checks) == 1 and place.states() == [("price on-demand", "open")]
    place.provider = place.provider.model_copy(update={"price_sources": (gone,)})
    silent = place.look(2.99)
    assert (silent.checks, silent.readings) == ((), 0) and place.states() == [("price on-demand", "open")]


def test_a_source_that_tells_nothing_for_days_is_a_finding_until_it_speaks_again(place: Place) -> None:
    place.look(2.39)
    told = place.file.read_text()
    place.file.unlink()

    def look_without() -> list[tuple[str, str]]:
        place.day += 1
        seen = read_and_store_prices(place.archive, place.declared, place.provider, FIRST + timedelta(days=place.day))
        assert list(seen.findings) == [f.finding_id for f in place.archive.findings()]
        return place.states()

    assert look_without() == [], "a day or two is no news"
    assert look_without() == look_without() == [("price source csv", "open")]
    (stored,) = place.archive.findings()
    assert (stored.kind, stored.detail["since"]) == ("missing_data", "2026-11-01") and "cannot be read" in stored.detail["explanation"]
    assert "2026-11-01" in stored.headline
    place.file.write_text(told)
    place.look(2.39)
    assert place.states() == [("price source csv", "resolved")]


def test_a_source_that_never_told_a_price_is_one_finding_from_the_first_look_on(place: Place) -> None:
    for _ in range(2):
        place.day += 1
        read_and_store_prices(place.archive, place.declared, place.provider, FIRST + timedelta(days=place.day))
    (stored,) = place.archive.findings()
    assert (stored.detail["subject"], stored.detail["since"]) == ("price source csv", "2026-11-02") and "2026" not in stored.headline


def test_the_silence_of_a_source_that_is_declared_no_more_is_over(place: Place) -> None:
    place.file.unlink()
    read_and_store_prices(place.archive, place.declared, place.provider, FIRST)
    assert place.states() == [("price source csv", "open")]
    unasked = place.provider.model_copy(update={"price_sources": ()})
    seen = read_and_store_prices(place.archive, place.declared, unasked, FIRST + timedelta(days=1))
    assert place.states() == [("price source csv", "resolved")] and len(seen.findings) == 1


def test_a_simulated_price_change_is_noticed_on_the_second_day_that_it_holds(archive: Archive) -> None:
    world = load()
    provider = world.providers["simulated-h100"]
    before = [read_and_store_prices(archive, world, provider, datetime(2026, 6, day, 6, tzinfo=timezone.utc)) for day in (1, 2)]
    after = [read_and_store_prices(archive, world, provider, datetime(2026, 7, 1, 6, tzinfo=timezone.utc))]
    after.append(read_provider_prices("simulated-h100", datetime(2026, 7, 2, 6, tzinfo=timezone.utc)))
    assert [seen.opened for seen in (*before, after[0])] == [(), (), ()]
    assert len(after[1].opened) == 1 and after[1].changes == ({"fact": "price.on_demand", "old": "6.155", "new": "4.875"},)
    finding = archive.finding(after[1].opened[0])
    parsed = Finding.of(finding.detail)
    assert (parsed.simulated, parsed.severity, parsed.since) == (True, "warn", "2026-07-01") and parsed.effect == pytest.approx(
        -0.208, abs=1e-3
    )
    made = apply_answer(archive, world, finding.finding_id, "accept", "ada", "a new contract")
    assert made.price == pytest.approx(39.0)


@pytest.mark.fault("a price history raises an unforeseen error", ends="a note of the check", keeps="the check of every other price")
def test_one_history_that_raises_silences_no_other(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.look(2.39)
    place.look(1.10, "spot")
    works = read_prices_module.checked_price

    def raises(archive: Archive, provider: Provider, purchase: str, *more: object) -> object:
        if purchase == "on_demand":
            raise ValueError("a day that no calendar has")
        return works(archive, provider, purchase, *more)  # type: ignore[arg-type]

    monkeypatch.setattr(read_prices_module, "checked_price", raises)
    done = place.look(1.10, "spot")
    assert [c.reading.purchase for c in done.checks] == ["spot"]
    assert len(done.notes) == 1 and "on-demand prices" in done.notes[0] and "a day that no calendar has" in done.notes[0]


def test_what_is_not_declared_or_was_never_read_is_named(place: Place) -> None:
    with pytest.raises(LookupError, match=r'"nobody".*example-aks-h100'):
        read_provider_prices("nobody")
    with pytest.raises(LookupError, match=r"spot .*coreweave-h100"):
        accept_price(place.archive, place.provider, "spot", None, by="ada", why="yes")
