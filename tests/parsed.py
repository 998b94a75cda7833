"""A page, a report or a mail, parsed once and asked by CSS selectors."""

from __future__ import annotations

import json
from typing import Any

from bs4 import BeautifulSoup, NavigableString, Tag

HIDDEN = {"script", "style", "svg", "template"}


class Parsed:
    """HTML, or an element of it."""

    def __init__(self, html: str | bytes | Tag) -> None:
        self.tag: Tag = html if isinstance(html, Tag) else BeautifulSoup(html, "html.parser")

    @property
    def text(self) -> str:
        """What a reader has, on one line: no scripts, styles and drawings."""
        strings = (each for each in self.tag.descendants if isinstance(each, NavigableString))
        return " ".join(" ".join(each for each in strings if HIDDEN.isdisjoint(of.name for of in each.parents)).split())

    def all(self, selector: str) -> list[Parsed]:
        return [Parsed(tag) for tag in self.tag.select(selector)]

    def one(self, selector: str) -> Parsed:
        """The only element of its kind; ValueError if there is none, or another one."""
        (found,) = self.all(selector)
        return found

    def part(self, name: str) -> Parsed:
        """What an id names: of a heading, that which it heads."""
        found = self.one(f"#{name}")
        around = found.tag.find_parent(["section", "details", "article"])
        return Parsed(around) if around is not None and found.tag.name in ("h1", "h2", "h3", "h4", "summary") else found

    def texts(self, selector: str) -> list[str]:
        return [each.text for each in self.all(selector)]

    def values(self, selector: str, attribute: str) -> list[str]:
        """An attribute of each of these elements that has it."""
        return [str(tag[attribute]) for tag in self.tag.select(selector) if tag.has_attr(attribute)]

    @property
    def charts(self) -> dict[str, Any]:
        """The figures of the page's charts by their names."""
        return {str(tag["data-for"]): json.loads(tag.string or "") for tag in self.tag.select("script[data-for]")}

    @property
    def rows(self) -> list[list[str]]:
        """Texts of the cells of each row of a table."""
        return [row.texts("th, td") for row in self.all("tr")]
