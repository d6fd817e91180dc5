"""Routes of the page, its session, the health of the service and its counts."""

from __future__ import annotations

from collections import Counter
from functools import cache
from importlib.metadata import version
from importlib.resources import files

from fastapi import APIRouter, Request, Response
from starlette.exceptions import HTTPException

from recveil.service.context import ERRORS, ServiceContext, read_context
from recveil.service.documents import HealthDocument, JobOptions, JobState, MethodList, SessionBody
from recveil.service.guards import COOKIE_NAME
from recveil.service.prometheus import CONTENT_TYPE, Labels

__all__ = ["router"]

router = APIRouter()


@router.get("/", include_in_schema=False)
async def show_page() -> Response:
    """Return the page."""
    return Response(_read_resource("index.html"), media_type="text/html")


@router.get("/page.css", include_in_schema=False)
async def show_styles() -> Response:
    """Return the styles of the page."""
    return Response(_read_resource("page.css"), media_type="text/css")


@router.get("/page.js", include_in_schema=False)
async def show_script() -> Response:
    """Return the script of the page."""
    return Response(_read_resource("page.js"), media_type="text/javascript")


@router.get("/health", tags=["service"])
async def check_health(request: Request) -> HealthDocument:
    """Say that the service answers; needs no token."""
    context = read_context(request)
    return HealthDocument(
        version=version("recveil"),
        map=context.served is not None,
        needs_token=context.sessions.token is not None,
    )


@router.get("/methods", tags=["service"], responses={**ERRORS})
def list_methods() -> MethodList:
    """List the defenses and attacker panels that jobs can name."""
    from recveil.attacks.attribute.panels import panel_names
    from recveil.defenses import DEFENSES

    able = [t.name for t in DEFENSES.all_traits() if t.place == "embeddings" and not t.for_comparison]
    return MethodList(defenses=[JobOptions().method, *sorted(able)], panels=list(panel_names()))


@router.get("/metrics", tags=["service"], response_class=Response, responses={**ERRORS})
async def show_metrics(request: Request) -> Response:
    """Return counts and times in the text format of Prometheus."""
    context = read_context(request)
    return Response(context.counts.render_text(_collect_gauges(context)), headers={"content-type": CONTENT_TYPE})


@router.post("/session", tags=["service"], status_code=204, responses={**ERRORS})
async def start_session(request: Request, body: SessionBody) -> Response:
    """Exchange the token for a cookie, so that a browser shows reports and downloads tables."""
    context = read_context(request)
    if not context.sessions.accepts_token(body.token):
        raise HTTPException(401, "The token is wrong. See the file that the service was started with.")
    response = Response(status_code=204)
    is_secure = request.url.scheme == "https" or request.headers.get("x-forwarded-proto") == "https"
    response.set_cookie(COOKIE_NAME, context.sessions.cookie, httponly=True, samesite="strict", secure=is_secure)
    return response


@cache
def _read_resource(name: str) -> bytes:
    return files("recveil.service").joinpath("page", name).read_bytes()


def _collect_gauges(context: ServiceContext) -> dict[str, tuple[str, list[tuple[Labels, float]]]]:
    states = Counter(job.state for job in context.store.list_jobs())
    jobs: list[tuple[Labels, float]] = [((("state", state.value),), float(states[state])) for state in JobState]
    gauges = {"recveil_jobs": ("Jobs by state.", jobs)}
    drift = None if context.served is None else context.served.drift
    if drift is not None:
        parts = {"mean": drift.mean, "covariance": drift.covariance, "warns": float(drift.warns)}
        values: list[tuple[Labels, float]] = [((("of", name),), value) for name, value in parts.items()]
        gauges["recveil_map_drift"] = ("Drift of the last users of small requests.", values)
    return gauges
