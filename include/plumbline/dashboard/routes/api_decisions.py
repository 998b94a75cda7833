"""The JSON API's decisions that are made on the spot: a team's choice from the archive, with weights of the asker's own if there are any."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, HTTPException, Query

from plumbline.dashboard.choices import Choices
from plumbline.dashboard.decision import DecisionAnswer, Unanswerable, answer, ask, weights_of
from plumbline.dashboard.declared import Declared
from plumbline.dashboard.page import API, Pages
from plumbline.dashboard.reading import Reader
from plumbline.scorecards.inputs import Kind


def router(pages: Pages, reader: Reader, declared: Declared, choices: Choices) -> APIRouter:
    """`/api/v1/decisions/{team}/{kind}`."""
    routes = APIRouter(prefix=API.rstrip("/"))

    @routes.get("/decisions/{team}/{kind}", tags=["concluded"])
    def decide_now(
        team: str,
        kind: Kind,
        workload: Annotated[
            str | None, Query(description="this workload alone; needed where a team makes several choices of the kind")
        ] = None,
        weights: Annotated[
            str,
            Query(
                max_length=2000,
                description="metric=weight, separated by commas; the others are rescaled",
                examples=["time_to_first_token=0.5"],
            ),
        ] = "",
    ) -> DecisionAnswer:
        """Who should run it as of now: the newest trials of each provider at the prices of today. Nothing is stored."""
        try:
            archive, known, today, wanted = reader.archive(), declared.now(), pages.now().date(), weights_of(weights)
            key = ("answer", team, kind, workload, tuple(sorted(wanted.items())))
            return choices.kept(archive, known, today, key, lambda: answer(ask(archive, known, today, team, kind, workload, wanted)))
        except LookupError as error:
            raise HTTPException(404, str(error.args[0])) from error
        except Unanswerable as error:
            raise HTTPException(422, str(error)) from error

    return routes
