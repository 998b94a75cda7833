"""Promises of all providers and of each, whether they are kept, and the mail that claims broken ones."""

from __future__ import annotations

import tempfile
from pathlib import Path

from fastapi import Depends as depends
from fastapi import HTTPException, Request
from fastapi.responses import Response

from plumbline.answers.claims import claimable
from plumbline.answers.monthly_costs import headlines
from plumbline.answers.promises import DECLARE
from plumbline.dashboard.access import can_see_costs, require_cost_access
from plumbline.dashboard.checked import judged_promises
from plumbline.dashboard.rendering import NavEntry, PageRoutes, Parts, address_with
from plumbline.dashboard.site import Site
from plumbline.presentation.promises import declared_promises, promise_overview, promise_totals, promises_data
from plumbline.results import InvalidResult
from plumbline.workflows.claim import NothingToClaim, write_claim


def router(site: Site) -> PageRoutes:
    """`/promises`, `/providers/{provider}/promises` and `/findings/{finding_id}/claim.eml`."""
    routes = PageRoutes(NavEntry(75, "Promises", "/promises"))
    pages, reader, declared = site.pages, site.reader, site.declared

    @routes.page("/promises")
    def show_all_promises(request: Request, parts: Parts) -> Response:
        money = can_see_costs(request)
        promising = {name: bool(declared_promises(provider.sla)) for name, provider in sorted(declared.now().providers.items())}
        found = judged_promises(site, money, [name for name, promises in promising.items() if promises], parts != "")
        complete = [one for one in found.values() if one is not None]
        return pages.page(
            request,
            "promises_all.html.j2",
            [promises_data(one) for one in complete if one.rows],
            o=promise_overview(complete) if len(complete) == len(found) else None,
            silent=[name for name, promises in promising.items() if not promises],
            later=address_with(request, "all"),
            sample=DECLARE,
        )

    @routes.page("/providers/{provider}/promises")
    def show_promises(request: Request, provider: str) -> Response:
        archive, declarations = reader.archive(can_see_costs(request)), declared.now()
        if provider not in declarations.providers:
            raise HTTPException(404, f'no declared provider is called "{provider}"')
        views = archive.findings_of(provider, unsettled=True)
        answers = claimable(archive, declarations, views)
        claims = [view for view in views if view.finding_id in answers and answers[view.finding_id].broken]
        lines = headlines(archive, declared.now(can_see_costs(request)), claims)
        (promises,) = judged_promises(site, can_see_costs(request), [provider], True).values()
        assert promises is not None  # it was waited for
        return pages.page(
            request,
            "promises.html.j2",
            promises_data(promises),
            p=promises,
            totals=promise_totals([promises]),
            claims=[(view.finding_id, lines[view.finding_id]) for view in claims],
            sample=DECLARE,
        )

    @routes.get("/findings/{finding_id}/claim.eml", dependencies=[depends(require_cost_access)])
    def send_claim(request: Request, finding_id: str) -> Response:
        with tempfile.TemporaryDirectory() as folder:
            try:
                claim = write_claim(reader.archive(), declared.now(), finding_id, Path(folder) / "claim")
                if not claim.attached:
                    text = f"The evidence is too large for a mail. `plumbline findings claim {finding_id}` writes the mail and the pack."
                    return pages.message(request, "Too large for a mail", text, 409)
                mail = claim.mail.read_bytes()
            except LookupError as error:
                raise HTTPException(404, str(error)) from error
            except NothingToClaim as error:
                return pages.message(request, "Nothing to claim", str(error), 409)
            except (InvalidResult, ValueError, OSError) as error:
                return pages.message(request, "No evidence", f"The evidence cannot be read: {error}.", 503)
        file = f"attachment; filename=claim-{finding_id}.eml"
        return Response(mail, media_type="message/rfc822", headers={"Content-Disposition": file})

    return routes
