"""`alerts.yaml`: routing of findings, quiet hours, and the monthly volume that prices a finding."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from datetime import datetime, time
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import Annotated, Literal
from zoneinfo import ZoneInfo

from pydantic import Field, StringConstraints, field_validator, model_validator

from plumbline.declarations.alert_channels import AlertChannelBase as AlertChannelBase
from plumbline.declarations.alert_channels import DeclaredChannel, NamedSlackChannel
from plumbline.declarations.base import Declared, Name
from plumbline.declarations.providers.rates import Purchase
from plumbline.declarations.urls import DeclaredUrl
from plumbline.declarations.workloads.workload import Slot
from plumbline.metrics.units import Duration

Pattern = Annotated[str, StringConstraints(pattern=r"^[a-z0-9*?-]{1,63}$"), Field(description="a name; * matches any characters, ? one")]
SlackOwner = Annotated[str, StringConstraints(pattern=r"^[UWS][A-Z0-9]{6,}$")]
Weekday = Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
_WEEKDAYS: tuple[Weekday, ...] = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")


class QuietHours(Declared):
    """When notifications wait, except those of severity `page`."""

    start: Slot = Field(description='a time of day there, such as "20:00"')
    end: Slot = Field(description='a time of day there, such as "07:00"; of the next day if it is earlier than start')
    timezone: str = Field(description="a name of the IANA time zone database such as Europe/Berlin")
    days: tuple[Weekday, ...] = Field((), description="days that are quiet all day, such as [sat, sun]")

    @field_validator("timezone")
    @classmethod
    def _known_zone(cls, value: str) -> str:
        try:
            ZoneInfo(value)
        except (LookupError, ValueError, OSError):  # of a folder's name, OSError
            raise ValueError(f'"{value}" is no time zone; expected a name such as Europe/Berlin or UTC') from None
        return value

    @model_validator(mode="after")
    def _check_hours(self) -> QuietHours:
        if self.start == self.end:
            raise ValueError(f'end is {self.end}, as start; expected another time of day such as "07:00"')
        if len(set(self.days)) == len(_WEEKDAYS):
            raise ValueError("days names the whole week: nothing would ever be told; expected at most six days")
        return self

    def quiet(self, now: datetime) -> bool:
        """Whether an instant (with a zone) is in the quiet hours of their time zone."""
        there = now.astimezone(ZoneInfo(self.timezone))
        start, end = time.fromisoformat(self.start), time.fromisoformat(self.end)
        clock = there.time().replace(tzinfo=None)
        by_night = start <= clock < end if start < end else clock >= start or clock < end
        return by_night or _WEEKDAYS[there.weekday()] in self.days


ChannelName = Annotated[
    str,
    StringConstraints(pattern=r"^([CG][A-Z0-9]{6,}|[a-z0-9-]{1,63})$"),
    Field(description="a channel's id such as C0123456789, not its name in Slack, or a name under channels"),
]


class Condition(Declared):
    """Findings that a rule covers; an omitted field covers all."""

    provider: Pattern | None = None
    workload: Pattern | None = Field(None, description="matches if any workload of the finding matches; prices and machines have none")
    kind: tuple[Literal["performance", "environment", "price", "reliability", "missing_data", "self"], ...] = ()
    severity: tuple[Literal["info", "warn", "page"], ...] = ()

    @model_validator(mode="after")
    def _require_a_condition(self) -> Condition:
        if self.provider is None and self.workload is None and not self.kind and not self.severity:
            raise ValueError("names nothing; expected provider, workload, kind or severity, or no `when` at all for every finding")
        return self

    def holds(self, provider: str, workloads: tuple[str, ...], kind: str, severity: str) -> bool:
        """Whether it covers a finding of this provider, these workloads, kind and severity."""
        return (
            (self.provider is None or fnmatchcase(provider, self.provider))
            and (self.workload is None or any(fnmatchcase(name, self.workload) for name in workloads))
            and (not self.kind or kind in self.kind)
            and (not self.severity or severity in self.severity)
        )


class Route(Declared):
    """One rule. The first rule with a matching condition routes a finding."""

    when: Condition | None = Field(None, description="every finding if omitted")
    channels: tuple[ChannelName, ...] = Field((), max_length=8, description="the connection's own channel if omitted")
    owner: SlackOwner | None = Field(
        None, description="who is mentioned: the id of a person (U0123456789) or of a user group (S0123456789)"
    )
    quiet_hours: QuietHours | None = None

    @model_validator(mode="after")
    def _require_an_effect(self) -> Route:
        if not self.channels and self.owner is None and self.quiet_hours is None:
            raise ValueError("does nothing; expected channels, owner or quiet_hours")
        if len(set(self.channels)) != len(self.channels):
            raise ValueError(f"channels {list(self.channels)} names a channel twice; expected distinct ones")
        return self


class RentedVolume(Declared):
    """Monthly use of a provider, which prices its findings."""

    provider: Pattern
    workload: Name | None = Field(None, description="its workload; all that no other entry names if omitted")
    time_per_month: Duration = Field(
        description="instance time in a month at the accepted pace, such as 730h for one instance all month long"
    )
    purchase: Purchase = "on_demand"


class Alerts(Declared):
    """The file `alerts.yaml`. Without it all findings go to the connection's channel."""

    airflow_url: DeclaredUrl | None = Field(
        None,
        pattern=r"^https?://[^\s<>|]+$",
        description="Airflow's address for people, such as https://airflow.example.com; api.base_url of Airflow if omitted",
    )
    remind_every: Duration = Field(
        7 * 86400.0, ge=3600, description="interval of reminders of an open finding that is not acknowledged, at least 1h"
    )
    reopen_within: Duration = Field(
        60 * 86400.0, description="how long after its resolution a finding that recurs continues in its old thread"
    )
    channels: dict[Name, DeclaredChannel] = Field({}, description="channels by the name that routes give them")
    digest: tuple[ChannelName, ...] = Field(
        (), max_length=8, description="where the monthly digest goes; the connection's own channel if left out"
    )
    routes: tuple[Route, ...] = Field((), max_length=100)
    volumes: tuple[RentedVolume, ...] = Field((), max_length=500)

    @model_validator(mode="after")
    def _each_rule_is_reached(self) -> Alerts:
        for i, route in enumerate(self.routes[:-1]):
            if route.when is None:
                raise ValueError(f"routes[{i}] has no `when` and covers every finding before later rules; expected it last")
        for i, volume in enumerate(self.volumes):
            same = [
                v for v in self.volumes[:i] if (v.provider, v.workload, v.purchase) == (volume.provider, volume.workload, volume.purchase)
            ]
            if same:
                what = f"{volume.provider}{f', {volume.workload}' if volume.workload else ''}, {volume.purchase}"
                raise ValueError(f"volumes[{i}] repeats {what}; expected one entry")
        return self

    def volumes_of(self, provider: str) -> tuple[RentedVolume, ...]:
        """The volumes whose pattern the provider fits."""
        return tuple(volume for volume in self.volumes if fnmatchcase(provider, volume.provider))

    def resolve(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """The names, each named Slack channel by its id."""
        declared = {name: channel.channel for name, channel in self.channels.items() if isinstance(channel, NamedSlackChannel)}
        return tuple(dict.fromkeys(declared.get(name, name) for name in names))

    def unknown_names(self, providers: Collection[str], workloads: Collection[str]) -> Iterator[tuple[tuple[str | int, ...], str]]:
        """Names and patterns without a declared match, each as the field's path and a message.

        A volume's pattern may fit nothing: a finding that lacks its volume says so itself.
        """
        wanted: list[tuple[tuple[str | int, ...], str | None, str, Collection[str]]] = []
        for i, route in enumerate(self.routes):
            for name, known in (("provider", providers), ("workload", workloads)):
                wanted.append((("routes", i, "when", name), getattr(route.when, name, None), name, known))
        for i, volume in enumerate(self.volumes):
            if not {"*", "?"} & set(volume.provider):
                wanted += [(("volumes", i, "provider"), volume.provider, "provider", providers)]
            wanted += [(("volumes", i, "workload"), volume.workload, "workload", workloads)]
        for path, names in ((("digest",), self.digest), *((("routes", i, "channels"), r.channels) for i, r in enumerate(self.routes))):
            for i, name in enumerate(names):
                if not name[0].isupper() and name not in self.channels:
                    yield (*path, i), f'channel "{name}" is not known; expected a Slack id or one of {", ".join(self.channels) or "(none)"}'
        for field, pattern, what, known in wanted:
            if pattern is not None and not any(fnmatchcase(name, pattern) for name in known):
                near = get_close_matches(pattern.strip("*?-"), known, n=3) or sorted(known)[:3]
                yield field, f'no declared {what} fits "{pattern}"; expected one that does, such as {", ".join(near) or "(none declared)"}'
